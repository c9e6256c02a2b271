"""Removes the files that `store/retention/rules.py` chooses, for the clean process.

The oldest files are removed first. A commit-log file is removed after the log's `min_offset` has
moved behind it; then queue files and index files whose records are all removed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from ..consumequeue.queue import BLANK_ENTRY, ENTRY, ENTRY_SIZE, QueueFiles
from ..disk import files as disk
from ..disk.files import Folder
from ..disk.paths import file_bases, file_name
from ..disk.space import space_of
from ..index.file import HEADER, HEADER_SIZE, IndexFiles
from .rules import UNKNOWN, LogFileAge, index_files_to_go, queue_file_may_go, used_percent


def disk_use(folder: Folder) -> int:
    """The use of the folder's disk, %; UNKNOWN if it cannot be read."""
    try:
        found = space_of(folder)
    except OSError:
        return UNKNOWN
    return used_percent(found.blocks, found.free, found.available)


def log_ages(folder: Folder) -> Iterator[LogFileAge]:
    """The commit-log files in `folder`, oldest first. Each file's time is read only when the
    iterator comes to it. Raises OSError.
    """
    for base in file_bases(folder):
        yield LogFileAge(base, folder.about(file_name(base)).modified_ms)


def remove(folder: Folder, base: int) -> None:
    """Unlinks the file that begins at offset `base`. A missing file is no error."""
    with contextlib.suppress(FileNotFoundError):
        folder.unlink(file_name(base))


class QueueCleaning(msgspec.Struct, frozen=True):
    """One queue after the log's minimum has moved: its new least queue offset, and the positions in
    the queue at which its removable files begin.
    """

    min_offset: int
    files: tuple[int, ...]


class QueueCleaner:
    """Finds the entries and files of consume queues whose records lie below the log offset
    `min_offset`. `durable` is the log offset up to which queue entries are durable.
    """

    def __init__(self, queues: QueueFiles, min_offset: int, durable: int) -> None:
        self.queues = queues
        self.size = queues.file_size
        self.min_offset = min_offset
        self.durable = durable

    def look(self, topic: str, queue_id: int, least: int, end: int) -> QueueCleaning:
        """The cleaning of one queue. `least` is its present minimum, `end` the queue offset behind
        its last entry. Changes nothing. Raises OSError.
        """
        try:
            folder = self.queues.folder(topic, queue_id)
        except FileNotFoundError:
            return QueueCleaning(least, ())
        try:
            bases = file_bases(folder)
            # Reput may just have made a file in which no entry counts yet.
            used = [base for base in bases if base < end * ENTRY_SIZE]
            return QueueCleaning(
                self._least(folder, used, least, end), tuple(self._to_go(folder, used))
            )
        finally:
            folder.close()

    def first_from(self, topic: str, queue_id: int, least: int) -> tuple[int, int | None]:
        """The first queue offset from `least` on whose record is in the log, and that record's
        log offset, which is None behind the queue's last entry. Raises OSError.
        """
        try:
            folder = self.queues.folder(topic, queue_id)
        except (FileNotFoundError, NotADirectoryError):  # the topic was deleted
            return least, None
        with folder:
            bases = file_bases(folder)
            end = (bases[-1] + self.size) // ENTRY_SIZE if bases else 0
            at = self._least(folder, bases, least, end)
            base = at * ENTRY_SIZE // self.size * self.size
            if base not in bases:
                return at, None
            with folder.file(file_name(base)) as fd:
                return at, self._entry(fd, at - base // ENTRY_SIZE)

    def _to_go(self, folder: Folder, bases: list[int]) -> Iterator[int]:
        for base, behind in pairwise(bases):
            with folder.file(file_name(base)) as fd:
                last = self._entry(fd, self.size // ENTRY_SIZE - 1)
            with folder.file(file_name(behind)) as fd:
                first = self._entry(fd, 0)
            if last is None or not queue_file_may_go(last, first, self.min_offset, self.durable):
                return
            yield base

    def _least(self, folder: Folder, bases: list[int], least: int, end: int) -> int:
        """The first queue offset whose record is not below `min_offset`; `end` if all are."""
        for base in bases:
            first = base // ENTRY_SIZE
            low, high = max(first, least), min(first + self.size // ENTRY_SIZE, end)
            if low >= high:
                continue
            with folder.file(file_name(base)) as fd:
                if not self._is_below(fd, low - first):
                    return low
                high -= 1
                if self._is_below(fd, high - first):
                    continue
                while high - low > 1:  # the entry `low` is below, `high` is not
                    middle = (low + high) // 2
                    if self._is_below(fd, middle - first):
                        low = middle
                    else:
                        high = middle
                return high
        return max(least, end)

    def _is_below(self, fd: int, index: int) -> bool:
        offset = self._entry(fd, index)
        return offset is not None and offset < self.min_offset

    @staticmethod
    def _entry(fd: int, index: int) -> int | None:
        """The log offset in an entry of a file; -1 for a blank entry, which stands for a message
        that never was in this queue; None if no entry was written.
        """
        data = disk.read_at(fd, ENTRY_SIZE, index * ENTRY_SIZE)
        if len(data) < ENTRY_SIZE:
            return None
        if data == BLANK_ENTRY:
            return -1
        offset, length, _ = ENTRY.unpack(data)
        return int(offset) if length > 0 else None


def clean_index(index: IndexFiles, min_offset: int, in_use: int) -> list[int]:
    """Removes index files whose records are all removed, and returns their names. See
    `index_files_to_go`. Raises OSError.
    """
    gone = list(index_files_to_go(_index_ends(index), min_offset=min_offset, in_use=in_use))
    for name in gone:
        index.folder.unlink(str(name))
    return gone


def _index_ends(index: IndexFiles) -> Iterator[tuple[int, int]]:
    for name in index.names()[:-1]:
        with index.folder.file(str(name)) as fd:
            header = disk.read_at(fd, HEADER_SIZE, 0)
        if len(header) < HEADER_SIZE:
            return
        yield name, HEADER.unpack(header)[3]
