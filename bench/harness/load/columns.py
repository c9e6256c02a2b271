"""Bodies as a column of Arrow: their stamps are read all at once."""

from __future__ import annotations

import importlib
from typing import Any

from .protocol import STAMP

_VIEW_WORDS = 4


class Columns:
    """What a read by `poll_arrow` has found: a `pyarrow.BinaryArray` or `BinaryViewArray` of
    bodies, none of them null, each with a stamp.
    """

    def __init__(self, bodies: Any) -> None:
        self._bodies = bodies

    @staticmethod
    def load() -> None:
        """Loads the modules that this class needs: the first batch would do so within the time that
        is measured. Raises ImportError.
        """
        for module in ("numpy", "pyarrow", "pyarrow.compute"):
            importlib.import_module(module)

    def __len__(self) -> int:
        return len(self._bodies)

    @property
    def size(self) -> int:
        """Bytes of all bodies."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        bodies = self._bodies
        if bodies.type != pa.binary_view():
            return int(pc.sum(pc.binary_length(bodies)).as_py() or 0)
        # A view has four words of 32 bits, the first of which is its length.
        words = np.frombuffer(bodies.buffers()[1], "<i4")[::_VIEW_WORDS][bodies.offset :]
        return int(words[: len(bodies)].sum(dtype=np.int64))

    def since(self, now: int) -> bytes:
        """Ns from each stamp until `now`, 64-bit integers."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        bodies = self._bodies
        if bodies.type == pa.binary_view():
            bodies = bodies.cast(pa.binary())
        heads = pc.binary_slice(bodies, 0, STAMP).cast(pa.binary(STAMP))
        stamps = np.frombuffer(heads.buffers()[1], ">i8")[heads.offset :][: len(heads)]
        since: bytes = (now - stamps).astype(np.int64).tobytes()
        return since

    def bodies(self) -> list[bytes]:
        """The bodies themselves, each copied."""
        found: list[bytes] = self._bodies.to_pylist()
        return found
