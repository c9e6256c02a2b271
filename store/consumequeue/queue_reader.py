"""Reads one consume queue through a read-only mapping of the file that holds the entries.

The mapping stays readable after clean has unlinked the file.
"""

from __future__ import annotations

from ...shm._memory import Mapping
from ..disk import files as disk
from ..disk.files import Folder
from ..disk.forks import NO_FORK
from ..disk.paths import file_name
from ..errors import Corrupt
from .queue import ENTRY, ENTRY_SIZE


class QueueReader:
    """The entries of the consume queue in `folder`, whose files have `file_size` bytes. It maps one
    file at a time.
    """

    def __init__(self, folder: Folder, file_size: int) -> None:
        self._folder = folder
        self._file_size = file_size
        self._base = -1
        self._view = memoryview(b"")
        self._mapping: Mapping | None = None

    def entries(self, first: int, count: int) -> list[tuple[int, int, int]]:
        """As `view`, but unpacked: (log offset, size, tags code) of each entry."""
        return list(ENTRY.iter_unpack(self.view(first, count)))

    def view(self, first: int, count: int) -> memoryview:
        """The bytes of up to `count` entries from queue offset `first` on, all of one file.

        The caller must know from the topic table that they exist. Raises FileNotFoundError if clean
        has removed their file, and Corrupt if the file is too short: an access behind its end would
        be a SIGBUS.
        """
        base, view = self.file(first)
        start = first * ENTRY_SIZE - base
        return view[start : min(start + count * ENTRY_SIZE, self._file_size)]

    def file(self, first: int) -> tuple[int, memoryview]:
        """Where the file that holds the entry at queue offset `first` begins, in bytes from the
        queue's start, and all its bytes. Raises as `view`.
        """
        position = first * ENTRY_SIZE
        base = position - position % self._file_size
        if base != self._base:
            with NO_FORK, self._folder.file(file_name(base)) as fd:
                size = disk.size_of(fd)
                if size < self._file_size:
                    raise Corrupt(
                        f"{self._folder.path}/{file_name(base)}",
                        size,
                        f"the file has {size} of {self._file_size} bytes: stop the store and run: "
                        "silo repair --rebuild",
                    )
                self._mapping = disk.map_file(fd, 0, self._file_size, writable=False)
            self._view = memoryview(self._mapping)
            self._base = base
        return base, self._view
