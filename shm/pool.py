"""The transient store pool: buffers in shared memory that append writes into instead of files.

Commit writes a buffer's bytes to the commit-log file that the buffer stands for. The file with
number n (its offset divided by the file size) lies in buffer n modulo the number of buffers. So a
buffer is free for a file when the file that used it before is committed. Each buffer is a segment
of its own. It outlives every process, but not a restart of the machine. Append writes to it, commit
and recovery read it.
"""

from __future__ import annotations

import os

import posix_ipc

from ._memory import Mapping
from .segments import create_segment, object_name, open_leftover


def _kind(number: int) -> str:
    return f"pool-{number}"


def create(store_id: int, buffers: int, size: int) -> None:
    """Makes the buffers, each of `size` bytes, and allocates their memory. Raises OSError (ENOSPC)
    when /dev/shm is too small.
    """
    for number in range(buffers):
        create_segment(store_id, _kind(number), size)


def count(store_id: int, owner: int = 0) -> int:
    """The number of buffers that exist, counted from buffer 0 to the first that is missing, or was
    not made by a user whom `open_leftover` trusts.
    """
    number = 0
    while (fd := open_leftover(store_id, _kind(number), owner)) is not None:
        os.close(fd)
        number += 1
    return number


class Pool:
    """The `buffers` buffers of a store, each of the size of a commit-log file."""

    def __init__(self, store_id: int, buffers: int, size: int) -> None:
        self.store_id = store_id
        self.buffers = buffers
        self.size = size
        self._mapped: dict[int, Mapping] = {}

    def free_from(self, base: int) -> int:
        """The log offset that `committed` must have reached before the file at `base` may use its
        buffer: the end of the file that used the buffer before, or 0.
        """
        return max(0, base - (self.buffers - 1) * self.size)

    def buffer(self, base: int) -> Mapping:
        """The memory of the file at offset `base`. Raises OSError for a buffer of another size."""
        number = base // self.size % self.buffers
        mapping = self._mapped.get(number)
        if mapping is None:
            memory = posix_ipc.SharedMemory(object_name(self.store_id, _kind(number)))
            try:
                if os.fstat(memory.fd).st_size != self.size:
                    raise OSError(f"pool buffer {number} is not of {self.size} bytes")
                mapping = self._mapped[number] = Mapping(memory.fd, 0, self.size)
            finally:
                memory.close_fd()
        return mapping
