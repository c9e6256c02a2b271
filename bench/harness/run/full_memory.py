"""Memory as on a server that has run for long: the page cache has all of it, and nothing is free.

A file then gets pages that older files had. With free memory each page must be used for the first
time. On a virtual machine that returns free memory to its host, that costs more than all that a
store does with the page (the limit "new pages of a file").
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: So much is left, bytes: the kernel keeps about as much free of a memory of 24 GiB. What is left
#: is used for the first time within a run, so a run's warm-up must be longer than that takes.
_LEFT = 256 << 20
_PART = 64 << 20
_PIECE = 1 << 20
#: After so many parts in a row without effect: something may have freed memory beside one of them.
_IN_VAIN = 4


class FullMemory:
    """Fills free memory with the pages of a file below `parent`. It has holes only, and no name.
    The kernel gives its pages up as quickly as those of any file that was read long ago.
    """

    def __init__(self, parent: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=parent, buffering=0)  # noqa: SIM115
        self._size = 0

    def fill(self, check: Callable[[], None]) -> int:
        """Fills what is free now. Returns how many bytes. `check` is called from time to time, and
        may raise. Ends early where free memory does not become less: in a container with a limit of
        its own, or on tmpfs. Raises OSError.
        """
        filled = in_vain = 0
        while in_vain < _IN_VAIN and (before := psutil.virtual_memory().free) >= _LEFT + _PART:
            self._read(_PART)
            check()
            if before - psutil.virtual_memory().free < _PART // 2:
                in_vain += 1
            else:
                filled, in_vain = filled + _PART, 0
        return filled

    def _read(self, size: int) -> None:
        """Makes the file longer by `size` bytes, and reads them."""
        fd, room = self._file.fileno(), bytearray(_PIECE)
        begin, self._size = self._size, self._size + size
        os.ftruncate(fd, self._size)
        for at in range(begin, self._size, _PIECE):
            os.preadv(fd, [room], at)

    def close(self) -> None:
        """The memory is free again."""
        self._file.close()
