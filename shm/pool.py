"""The transient store pool: buffers in shared memory that append writes into instead of files.

Commit writes a buffer's bytes into the commit-log file that the buffer stands for. File number n
(its offset divided by the file size) lies in buffer n modulo the number of buffers. So a buffer is
free for a file when all of the file that had it before is committed. Each buffer is a segment of
its own, which outlives every process but not the machine. Append writes to it, commit and recovery
read it.
"""

from __future__ import annotations

import os

import posix_ipc

from ._memory import Mapping
from .segments import create_segment, object_name


def _kind(number: int) -> str:
    return f"pool-{number}"


def create(store_id: int, buffers: int, size: int) -> None:
    """Makes the buffers and takes their memory. Raises OSError (ENOSPC) when /dev/shm has too
    little.
    """
    for number in range(buffers):
        create_segment(store_id, _kind(number), size)


def count(store_id: int) -> int:
    """How many buffers exist."""
    number = 0
    while True:
        try:
            memory = posix_ipc.SharedMemory(object_name(store_id, _kind(number)))
        except posix_ipc.ExistentialError:
            return number
        memory.close_fd()
        number += 1


class Pool:
    """The `buffers` buffers of a store, each of the size of a commit-log file."""

    def __init__(self, store_id: int, buffers: int, size: int) -> None:
        self.store_id = store_id
        self.buffers = buffers
        self.size = size
        self._mapped: dict[int, Mapping] = {}

    def free_from(self, base: int) -> int:
        """Up to which log offset all must be committed before the file at offset `base` may have
        its buffer: the end of the file that had it before, 0 if none had.
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
