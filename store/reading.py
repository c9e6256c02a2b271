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
    """Records of the commit log below `folder`, files of `file_size` bytes, the last few kept
    mapped.
    """

    def __init__(self, folder: Folder, file_size: int) -> None:
        self._folder = folder
        self.file_size = file_size
        self._views: OrderedDict[int, memoryview] = OrderedDict()

    def record(self, offset: int, size: int) -> bytes:
        """The `size` bytes at commit-log offset `offset`, copied. Raises FileNotFoundError when the
        file is gone, Corrupt when no record can be there.
        """
        base = offset - offset % self.file_size
        if offset < 0 or not 0 < size <= base + self.file_size - offset:
            raise Corrupt(
                f"{self._folder.path}/{file_name(max(0, base))}",
                offset,
                f"a queue entry leads to {size} bytes here, which no file of {self.file_size} "
                "bytes holds: the consume queue is damaged, rebuild it",
            )
        view = self._views.get(base)
        if view is None:
            view = self._map(base)
        at = offset - base
        return bytes(view[at : at + size])

    def _map(self, base: int) -> memoryview:
        with self._folder.file(file_name(base)) as fd:
            mapping = disk.map_file(fd, 0, self.file_size, writable=False)
        if len(self._views) >= _LOG_FILES:
            self._views.popitem(last=False)
        self._views[base] = memoryview(mapping)
        return self._views[base]


class QueueReader:
    """Entries of one consume queue in `folder`, files of `file_size` bytes."""

    def __init__(self, folder: Folder, file_size: int) -> None:
        self._folder = folder
        self._file_size = file_size
        self._base = -1
        self._view = memoryview(b"")
        self._mapping: Mapping | None = None

    def entries(self, first: int, count: int) -> list[tuple[int, int, int]]:
        """Up to `count` entries from queue offset `first` on, all of one file: (offset, size, tags
        code).

        The caller knows from the topic table that they exist.
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
        return list(ENTRY.iter_unpack(self._view[start:stop]))
