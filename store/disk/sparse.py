"""What of a file was ever written: files are made sparse, or of zeros, and fill up."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from . import files as disk

_STEP = 1 << 20


def _written(fd: int, position: int) -> Iterator[tuple[int, int]]:
    """The ranges of a file at or behind `position` that are no holes: (first, behind the last)."""
    size = disk.size_of(fd)
    while position < size:
        try:
            position = os.lseek(fd, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no data any more
                return
            raise
        hole = os.lseek(fd, position, os.SEEK_HOLE)
        yield position, hole
        position = hole


def data_behind(fd: int, position: int) -> Iterator[tuple[int, bytes]]:
    """The pages with other bytes than zeros, from `position` on: (position, bytes). Holes are not
    read.
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
    """From the first to behind the last byte at or behind `position` that was ever written; (end,
    end) of the file without any. To look elsewhere would only make pages of zeros.
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


def clear_behind(fd: int, position: int) -> int:
    """Makes all bytes from `position` on zeros, durably; how many bytes lay in pages that had
    others.
    """
    cleared = 0
    for at, data in data_behind(fd, position):
        disk.write_at(fd, bytes(len(data)), at)
        cleared += len(data)
    if cleared:
        disk.sync_data(fd)
    return cleared
