"""Bodies as a column of Arrow: their stamps are read all at once."""

from __future__ import annotations

from typing import Any

from .protocol import STAMP


class Columns:
    """What a read by `poll_arrow` has found: a `pyarrow.BinaryArray` of bodies, none of them null,
    each with a stamp.
    """

    def __init__(self, bodies: Any) -> None:
        self._bodies = bodies

    def __len__(self) -> int:
        return len(self._bodies)

    @property
    def size(self) -> int:
        """Bytes of all bodies."""
        import pyarrow.compute as pc

        return int(pc.sum(pc.binary_length(self._bodies)).as_py() or 0)

    def since(self, now: int) -> bytes:
        """Ns from each stamp until `now`, 64-bit integers."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        heads = pc.binary_slice(self._bodies, 0, STAMP).cast(pa.binary(STAMP))
        stamps = np.frombuffer(heads.buffers()[1], ">i8")[heads.offset :][: len(heads)]
        since: bytes = (now - stamps).astype(np.int64).tobytes()
        return since

    def bodies(self) -> list[bytes]:
        """The bodies themselves, each copied."""
        found: list[bytes] = self._bodies.to_pylist()
        return found
