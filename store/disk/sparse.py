"""The parts of a file that were written. New files are sparse or full of zeros, and fill up."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator

from . import files as disk

_STEP = 1 << 20
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_KEEP_SIZE, _ZERO_RANGE = 1, 16


def _written(fd: int, position: int) -> Iterator[tuple[int, int]]:
    """The ranges of a file at or behind `position` that are no holes: (begin, end)."""
    size = disk.size_of(fd)
    while position < size:
        try:
            position = os.lseek(fd, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole follows
                return
            raise
        hole = os.lseek(fd, position, os.SEEK_HOLE)
        yield position, hole
        position = hole


def data_behind(fd: int, position: int) -> Iterator[tuple[int, bytes]]:
    """The pages from `position` on that do not hold only zeros: (position, bytes). The first may be
    a part of a page. Holes are not read. Raises OSError.
    """
    for first, hole in _written(fd, position):
        at = first
        while at < hole:
            stop = min(hole, at - at % _STEP + _STEP)
            data = os.pread(fd, stop - at, at)
            if data.count(0) != len(data):
                yield from _pages(at, data)
            at = stop


def data_span(fd: int, position: int) -> tuple[int, int]:
    """The span (begin, end) from the first to the last data at or behind `position`; outside it
    there are only holes. (size, size) of the file if there is no data. Raises OSError.

    A reader of a mapping stays within it, because a look into a hole makes pages of zeros.
    """
    ranges = list(_written(fd, position))
    size = disk.size_of(fd)
    return (ranges[0][0], ranges[-1][1]) if ranges else (size, size)


def _pages(position: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        stop = min(len(data), at + disk.PAGE - (position + at) % disk.PAGE)
        if any(data[at:stop]):
            yield position + at, data[at:stop]
        at = stop


def unwrite(fd: int, position: int, length: int) -> bool:
    """Makes a range of zeros count as never written, without reading or writing it: the file keeps
    the space, and `data_span` passes over it. False if the file system cannot, or if it needs a
    block for that and the disk is full. Raises OSError.
    """
    if _LIBC.fallocate(fd, _KEEP_SIZE | _ZERO_RANGE, position, length) == 0:
        return True
    error = ctypes.get_errno()
    if error in (errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOSPC, errno.EDQUOT):
        return False
    raise OSError(error, f"fallocate(FALLOC_FL_ZERO_RANGE): {os.strerror(error)}")


def clear_behind(fd: int, position: int) -> int:
    """Overwrites all bytes from `position` on with zeros, durably. Returns how many bytes it wrote:
    those of the pages that did not hold only zeros. Raises OSError.
    """
    cleared = 0
    for at, data in data_behind(fd, position):
        disk.write_at(fd, bytes(len(data)), at)
        cleared += len(data)
    if cleared:
        disk.sync_data(fd)
    return cleared
