"""Read-only views of a store's files: queue entries and records, by mapping the files that hold
them.

A mapping outlives the file's name: what a reader holds stays readable when the cleaner unlinks it.
"""

from __future__ import annotations

from collections import OrderedDict

from ..shm._memory import Mapping
from . import disk
from .consumequeue import ENTRY, ENTRY_SIZE
from .disk import Folder
from .errors import Corrupt
from .paths import file_name

_LOG_FILES = 8


class LogReader:
    """The commit log below `folder`, files of `file_size` bytes, the last few kept mapped."""

    def __init__(self, folder: Folder, file_size: int) -> None:
        self._folder = folder
        self.file_size = file_size
        self._files: OrderedDict[int, Mapping] = OrderedDict()

    def path(self, base: int) -> str:
        """The file that begins at offset `base`, for errors."""
        return f"{self._folder.path}/{file_name(max(0, base))}"

    def file(self, base: int) -> Mapping:
        """The file that begins at offset `base`. Raises FileNotFoundError when it is gone."""
        mapping = self._files.get(base)
        if mapping is None:
            with self._folder.file(file_name(base)) as fd:
                mapping = disk.map_file(fd, 0, self.file_size, writable=False)
            if len(self._files) >= _LOG_FILES:
                self._files.popitem(last=False)
            self._files[base] = mapping
        return mapping

    def forget(self, below: int) -> None:
        """Lets go of the files that begin below an offset: mapped files keep their disk space."""
        for base in [base for base in self._files if base < below]:
            del self._files[base]

    def record(self, offset: int, size: int) -> bytes:
        """The `size` bytes at commit-log offset `offset`, copied. Raises FileNotFoundError when the
        file is gone, Corrupt when no record can be there.
        """
        base = offset - offset % self.file_size
        if offset < 0 or not 0 < size <= base + self.file_size - offset:
            raise self.bad_entry(offset, size)
        at = offset - base
        return bytes(memoryview(self.file(base))[at : at + size])

    def bad_entry(self, offset: int, size: int) -> Corrupt:
        """What to raise for a queue entry that leads to where no record can be."""
        return Corrupt(
            self.path(offset - offset % self.file_size),
            offset,
            f"a queue entry leads to {size} bytes here, which no file of {self.file_size} "
            "bytes holds: the consume queue is damaged, rebuild it",
        )


class QueueReader:
    """Entries of one consume queue in `folder`, files of `file_size` bytes."""

    def __init__(self, folder: Folder, file_size: int) -> None:
        self._folder = folder
        self._file_size = file_size
        self._base = -1
        self._view = memoryview(b"")
        self._mapping: Mapping | None = None

    def entries(self, first: int, count: int) -> list[tuple[int, int, int]]:
        """As `view`, taken apart: (offset, size, tags code) of each entry."""
        return list(ENTRY.iter_unpack(self.view(first, count)))

    def view(self, first: int, count: int) -> memoryview:
        """The bytes of up to `count` entries from queue offset `first` on, all of one file.

        The caller knows from the topic table that they exist. Raises FileNotFoundError when their
        file is gone.
        """
        position = first * ENTRY_SIZE
        base = position - position % self._file_size
        if base != self._base:
            with self._folder.file(file_name(base)) as fd:
                self._mapping = disk.map_file(fd, 0, self._file_size, writable=False)
            self._view = memoryview(self._mapping)
            self._base = base
        start = position - base
        stop = min(start + count * ENTRY_SIZE, self._file_size)
        return self._view[start:stop]
