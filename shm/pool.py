"""The transient store pool: buffers in shared memory that append writes into instead of files.

The commit process writes a buffer's bytes into the commit-log file it stands for. File number n
(its offset divided by the file size) lies in buffer n modulo the number of buffers, so a buffer is
free for a file when all of the file before it in the same buffer has been committed. The buffers
are segments of their own and outlive every process, but not the machine.
"""

from __future__ import annotations

import os

import posix_ipc

from ._memory import Mapping
from .segments import create_segment, object_name


def _kind(number: int) -> str:
    return f"pool-{number}"


def create(store_id: int, buffers: int, size: int) -> None:
    """Makes the buffers, their memory taken. OSError (ENOSPC) when /dev/shm has too little."""
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
        """What must be committed before the file at offset `base` may have its buffer: its end of
        the file that had it before, 0 if none had.
        """
        return max(0, base - (self.buffers - 1) * self.size)

    def buffer(self, base: int) -> Mapping:
        """The memory of the file at offset `base`."""
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
