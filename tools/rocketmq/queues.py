"""Consume queues after RocketMQ's recovery, computed without writing.

The rules are those of `ConsumeQueue` of 4.x: which entries are valid, which entries dispatching a
record again adds, which ones a shorter log removes, and where a queue begins. Entries that would be
written are kept in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ...store.consumequeue.queue import BLANK_ENTRY, ENTRY, ENTRY_SIZE
from ...store.consumequeue.time_lookup import BEFORE_LOG, QueueFile, rocketmq_offset
from ...store.disk.files import is_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..raw.files import StoreFiles
    from .logs import LogView

#: RocketMQ checks the last three files of a queue.
_LAST_FILES: Final = 3
#: Linux counts file times in ticks, of 4 ms on most machines.
_TICK_MS: Final = 4
_NOTHING: Final = (0, 0, 0)
_BLANK: tuple[int, int, int] = ENTRY.unpack(BLANK_ENTRY)


class Entry(NamedTuple):
    """One queue entry: its queue offset, then its three fields."""

    queue_offset: int
    offset: int
    size: int
    tags_code: int


class _File(msgspec.Struct):
    """A file of the queue: bytes [0, wrote) are entries; `added` has the entries that are not on
    disk.
    """

    base: int
    wrote: int
    mtime_ms: int
    path: str | None
    added: dict[int, tuple[int, int, int]] = {}


class QueueView:
    """One queue. `max_physic` is the address of the last entry's record, -1 if there is none."""

    def __init__(self, files: StoreFiles, topic: str, queue_id: int) -> None:
        self.store = files
        self.topic = topic
        self.queue_id = queue_id
        self.file_size = files.queue_size
        self.min_position = 0
        self.max_physic = -1
        self.files: list[_File] = []
        if is_folder(files.queue_path(topic, queue_id)):
            self.files = [
                _File(f.base, f.size, f.mtime_ms, files.queue_path(topic, queue_id, f.base))
                for f in files.queue_files(topic, queue_id)
            ]

    @property
    def min_offset(self) -> int:
        return self.min_position // ENTRY_SIZE

    @property
    def max_offset(self) -> int:
        if not self.files:
            return 0
        return (self.files[-1].base + self.files[-1].wrote) // ENTRY_SIZE

    def _unit(self, file: _File, position: int) -> tuple[int, int, int]:
        """The three fields at a position of a file, whether they are a valid entry or not."""
        added = file.added.get(position)
        if added is not None:
            return added
        if file.path is None:
            return _NOTHING
        offset, size, tags = ENTRY.unpack_from(self.store.view(file.path), position)
        return offset, size, tags

    def recover(self) -> None:
        """Finds the end: the first invalid entry from the third last file on."""
        end = self.files[0].base if self.files else 0
        for file in self.files[-_LAST_FILES:]:
            end = file.base
            for position in range(0, self.file_size, ENTRY_SIZE):
                offset, size, _ = self._unit(file, position)
                if offset < 0 or size <= 0:
                    break
                self.max_physic = offset
                end = file.base + position + ENTRY_SIZE
            if end < file.base + self.file_size:
                break
        self._cut(end)

    def _cut(self, end: int) -> None:
        kept = []
        for file in self.files:
            if file.base + self.file_size > end:
                if end < file.base:
                    continue
                file.wrote = end - file.base
            kept.append(file)
        self.files = kept

    def put(self, offset: int, size: int, tags_code: int, queue_offset: int) -> None:
        """Dispatches a record (`putMessagePositionInfo`). Does nothing if its entry is there
        already.
        """
        if offset <= self.max_physic:
            return
        position = queue_offset * ENTRY_SIZE
        file = self._file_for(position)
        if queue_offset and position < file.base + file.wrote:
            return
        # Like RocketMQ, put the entry at the queue's end, even if that leaves a gap unfilled.
        self.max_physic = offset
        file.added[file.wrote] = (offset, size, tags_code)
        file.wrote += ENTRY_SIZE
        # The file is written when the store is opened, hence after any time that a query names.
        file.mtime_ms = 1 << 62

    def _file_for(self, position: int) -> _File:
        if self.files:
            last = self.files[-1]
            if last.wrote < self.file_size:
                return last
            file = _File(last.base + self.file_size, 0, 0, None)
            self.files.append(file)
            return file
        base = position - position % self.file_size
        file = _File(base, 0, 0, None)
        self.files.append(file)
        if position:
            self.min_position = position
            for blank in range(0, position - base, ENTRY_SIZE):
                file.added[blank] = _BLANK
            file.wrote = position - base
        return file

    def truncate(self, end: int) -> None:
        """Drops entries of records at or behind log address `end` (`truncateDirtyLogicFiles`)."""
        self.max_physic = end - 1
        while self.files:
            file = self.files[-1]
            file.wrote = 0
            if self._unit(file, 0)[0] >= end:
                self.files.pop()
                continue
            for position in range(0, self.file_size, ENTRY_SIZE):
                offset, size, _ = self._unit(file, position)
                if position and (offset < 0 or size <= 0 or offset >= end):
                    break
                file.wrote = position + ENTRY_SIZE
                self.max_physic = offset
            return

    def correct_min(self, first: int) -> None:
        """Moves the queue's beginning to its first entry of a record at or behind log address
        `first` (`correctMinOffset` of 4.x). Only the first file is searched; if it has no such
        entry, the beginning stays.
        """
        for entry in self._entries_of(self.files[0]) if self.files else ():
            if entry.offset >= first:
                self.min_position = entry.queue_offset * ENTRY_SIZE
                return

    def _entries_of(self, file: _File) -> Iterator[Entry]:
        for position in range(0, file.wrote, ENTRY_SIZE):
            yield Entry((file.base + position) // ENTRY_SIZE, *self._unit(file, position))

    def entries(self) -> Iterator[Entry]:
        """All entries from the queue's beginning on."""
        for file in self.files:
            for entry in self._entries_of(file):
                if entry.queue_offset >= self.min_offset:
                    yield entry

    def entry(self, queue_offset: int) -> Entry | None:
        """The entry at a queue offset; None if the queue has none there."""
        position = queue_offset * ENTRY_SIZE
        if position < self.min_position:
            return None
        for file in self.files:
            if file.base <= position < file.base + file.wrote:
                return Entry(queue_offset, *self._unit(file, position - file.base))
        return None

    def last_record_end(self) -> int:
        """Address behind the record of the last entry, -1 if there is none (`getLastOffset`).

        Like RocketMQ, it reads on over old entries that follow the last one.
        """
        found = -1
        if self.files:
            file = self.files[-1]
            for position in range(max(0, file.wrote - ENTRY_SIZE), self.file_size, ENTRY_SIZE):
                offset, size, _ = self._unit(file, position)
                if offset < 0 or size <= 0:
                    break
                found = offset + size
        return found

    def nearest_in_time(self, log: LogView, timestamp: int) -> int:
        """RocketMQ 4.x's `getOffsetInQueueByTime` for a store time (ms)."""
        by_base = {file.base: file for file in self.files}

        def time_at(file: QueueFile, position: int) -> int:
            offset, size, _ = self._unit(by_base[file.base], position)
            return BEFORE_LOG if offset < log.first else log.store_time_at(offset, size)

        files = [QueueFile(f.base, f.wrote, self._written_ms(f, log)) for f in self.files]
        return rocketmq_offset(files, self.min_position, timestamp, time_at)

    def _written_ms(self, file: _File, log: LogView) -> int:
        """When a file was last written (ms).

        An archive keeps only whole seconds, so an unpacked file looks older than it is. Then the
        last record's store time is used if it lies in the same second. The clock of file times lags
        behind by up to a tick of the kernel.
        """
        if file.mtime_ms % 1000 or not file.wrote:
            return file.mtime_ms
        offset, size, _ = self._unit(file, file.wrote - ENTRY_SIZE)
        stored = log.store_time_at(offset, size) - _TICK_MS
        return stored if 0 <= stored - file.mtime_ms < 1000 else file.mtime_ms

    def first_since(self, log: LogView, timestamp: int) -> int:
        """The queue offset of the first message stored at or after `timestamp` (ms); the queue's
        end if there is none.
        """
        for entry in self.entries():
            if log.store_time_at(entry.offset, entry.size) >= timestamp:
                return entry.queue_offset
        return self.max_offset
