"""Slots: a small mapped file with the progress of one process, for its successor and for the disk.

The file has four slots of one size. Its process writes the first two in turn after each step; they
stay in the page cache, for its successor. It writes the last two in turn when all that they count
is durable; they are for a start after a power cut. Each slot begins with a magic number and a
generation, and ends with a CRC-32C of all its bytes before that. The greatest generation counts.

The first two may reach the disk before the files that they count on. So the first start in another
boot of the machine clears them (`keep_durable`).
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence

from ...shm._checksum import crc32c
from ...shm._memory import Mapping
from . import files as disk
from .files import PAGE, Folder

_CRC = struct.Struct("<Q")


def keep_durable(folder: Folder, name: str, slot_size: int) -> None:
    """Clears the slots that only a successor in the same boot of the machine may use, durably. The
    file may be missing. Raises OSError.
    """
    try:
        with folder.file(name, write=True) as fd:
            disk.write_at(fd, bytes(2 * slot_size), 0)
            disk.sync_data(fd)
    except FileNotFoundError:
        return


class Slots:
    """The mapped file `name` below `folder`, with slots of `slot_size` bytes, a page at most. Each
    holds `words` unsigned numbers of 64 bits behind `magic` and generation. Two threads may write:
    one the first two slots, one the durable ones. Raises OSError (ENOSPC).
    """

    def __init__(self, folder: Folder, name: str, magic: int, words: int, slot_size: int) -> None:
        self._magic = magic
        self._slot = struct.Struct(f"<{2 + words}Q")
        self._slot_size = slot_size
        assert self._slot.size + _CRC.size <= slot_size <= PAGE // 4
        with folder.file(name, write=True, create=True) as fd:
            disk.allocate(fd, 0, PAGE)
            self._mapping: Mapping = disk.map_file(fd, 0, PAGE, writable=True)
        folder.sync()
        self._view = memoryview(self._mapping)
        found = [self._read(slot) for slot in range(4)]
        self._slots = [slot for slot in found if slot is not None]
        self._generation = max((generation for generation, _ in self._slots), default=0)
        self._live = self._durable = 0
        self._lock = threading.Lock()

    def _read(self, slot: int) -> tuple[int, tuple[int, ...]] | None:
        at = self._slot_size * slot
        data = bytes(self._view[at : at + self._slot.size + _CRC.size])
        magic, generation, *words = self._slot.unpack_from(data)
        whole = _CRC.unpack_from(data, self._slot.size)[0] == crc32c(data[: self._slot.size])
        return (generation, tuple(words)) if magic == self._magic and whole else None

    def newest(self, usable: Callable[[Sequence[int]], bool]) -> tuple[int, ...] | None:
        """The words of the newest slot that is `usable`. Only slots that were there when the file
        was opened count; None if there is none.
        """
        known = [slot for slot in self._slots if usable(slot[1])]
        return max(known)[1] if known else None

    def publish(self, words: Sequence[int]) -> None:
        """Writes a slot for a successor, which survives the death of all processes."""
        self._live = 1 - self._live
        self._write(self._live, words)

    def make_durable(self, words: Sequence[int]) -> None:
        """Writes a durable slot. The caller has made durable all that it counts. Raises OSError."""
        self._durable = 1 - self._durable
        self._write(2 + self._durable, words)
        disk.sync_range(self._mapping, 0, PAGE)

    def _write(self, slot: int, words: Sequence[int]) -> None:
        with self._lock:
            self._generation += 1
            generation = self._generation
        body = self._slot.pack(self._magic, generation, *words)
        data = body + _CRC.pack(crc32c(body))
        self._view[self._slot_size * slot : self._slot_size * slot + len(data)] = data
