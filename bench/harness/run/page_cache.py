"""The page cache of a server's files: emptied for a cold read, and how much of them is in it."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PIECE = 1 << 30
_libc = ctypes.CDLL(None, use_errno=True)


def evict(folder: Path) -> None:
    """Removes the files below a folder from the page cache. Pages that a process has mapped stay.
    Raises OSError.
    """
    for path in _files(folder):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(fd)  # only clean pages can be removed
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def cached_share(folder: Path) -> float:
    """The share of the bytes below a folder that is in the page cache. Raises OSError."""
    sizes = {path: path.stat().st_size for path in _files(folder)}
    cached = sum(_cached(path, size) for path, size in sizes.items())
    return cached / max(1, sum(sizes.values()))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _cached(path: Path, size: int) -> int:
    """Bytes of a file that are in the page cache."""
    pages = 0
    with path.open("rb") as file:
        for at in range(0, size, _PIECE):
            length = min(_PIECE, size - at)
            # A private mapping that may be written to has an address that ctypes can take.
            with mmap.mmap(file.fileno(), length, access=mmap.ACCESS_COPY, offset=at) as view:
                pages += _resident(view, length)
    return min(size, pages * mmap.PAGESIZE)


def _resident(view: mmap.mmap, length: int) -> int:
    found = (ctypes.c_ubyte * (-(-length // mmap.PAGESIZE)))()
    first = ctypes.c_char.from_buffer(view)
    try:
        address = ctypes.c_void_p(ctypes.addressof(first))
        if _libc.mincore(address, ctypes.c_size_t(length), found):
            raise OSError(ctypes.get_errno(), "mincore failed")
    finally:
        del first  # the mapping cannot be closed before
    return sum(one & 1 for one in bytes(found))
