"""The queues of transactions as their process reads them, and the records behind their entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from ...shm._memory import Mapping
from ...store.commitlog.log_reader import LogReader
from ...store.consumequeue.queue import ENTRY_SIZE, QueueFiles
from ...store.delay.waiting_queue import DelayedQueue
from ...store.errors import Corrupt
from ...store.names import TRANS_END_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from ...store.record.format import LAYOUT, Record, decode_record
from ...store.transactions.half import Half, half_in, read_half
from ..actor import World

_BATCH = 256
_SIZE_BYTES = sum(LAYOUT["totalSize"])


class Queues:
    """The half queue, the op queue and the queue of decisions; None while a topic is missing."""

    def __init__(self, world: World, logger: Any, largest: int) -> None:
        settings = world.settings
        self._largest = largest
        self._world = world
        self._logger = logger
        self._files = QueueFiles(
            world.folders.consume_queue, settings.mapped_file_size_consume_queue
        )
        self._log = LogReader(world.folders.commit_log, settings.mapped_file_size_commit_log)
        self.halves: DelayedQueue | None = None
        self.ops: DelayedQueue | None = None
        self.decisions: DelayedQueue | None = None

    def find(self) -> None:
        """Opens the queues of topics that have been made since the last call."""
        self.halves = self.halves or self._open(TRANS_HALF_TOPIC)
        self.ops = self.ops or self._open(TRANS_OP_HALF_TOPIC)
        self.decisions = self.decisions or self._open(TRANS_END_TOPIC)

    def _open(self, name: str) -> DelayedQueue | None:
        world = self._world
        topic = world.table.find(name)
        if topic is None or not topic.slots:
            return None
        return DelayedQueue(self._files, world.table, world.control, name, 0, topic.slots[0])

    def read(self, queue: DelayedQueue | None, end: int) -> Iterator[tuple[int, int, int]]:
        """(queue offset, log offset, size) of the entries from the queue's cursor to `end`. The
        cursor follows: it is behind the entry that was given out last.
        """
        while queue is not None and queue.cursor < end:
            entries = queue.following(min(_BATCH, max(1, end - queue.cursor)))
            if not entries:
                return
            place = queue.cursor
            for offset, size, _ in entries:
                place += 1
                queue.cursor = place
                yield place - 1, offset, size

    def is_written(self, end: int) -> bool:
        """Whether the log below `end` is in its files. The process knows halves that it has put
        itself before that, if there is a pool.
        """
        return end <= self._world.control.load(self._world.filed)

    def log_file(self, offset: int) -> tuple[int, Mapping] | None:
        """Where the log file that holds a log offset begins, and its bytes; None if it is gone."""
        base = offset - offset % self._log.file_size
        try:
            return base, self._log.file(base)
        except (FileNotFoundError, Corrupt):
            return None

    def halves_file(self, position: int) -> tuple[int, memoryview] | None:
        """The same for the file of the half queue that holds a position (bytes)."""
        assert self.halves is not None
        try:
            return self.halves.file(position // ENTRY_SIZE)
        except FileNotFoundError:
            return None

    def half(self, place: int, offset: int, size: int) -> Half | None:
        """The half at queue offset `place`. None, with an error in the log, if it is gone or
        damaged. Raises NotAHalf.
        """
        found = self.log_file(offset)
        if found is not None and offset + size <= found[0] + self._log.file_size:
            half = half_in(memoryview(found[1]), offset - found[0], (place, offset, size))
            if half is not None:
                return half
        record = self.record(offset, size)
        if record is None:
            return None
        half = read_half(record)
        return replace(half, queue_offset=place, offset=offset, size=size)

    def record(self, offset: int, size: int) -> Record | None:
        """The record behind an entry. None, with an error in the log, if it is gone or damaged."""
        try:
            return decode_record(self._log.record(offset, size))
        except (FileNotFoundError, Corrupt) as error:
            self._logger.error("a record of a transaction is lost", offset=offset, why=str(error))
            return None

    def entry(self, queue: DelayedQueue | None, queue_offset: int) -> tuple[int, int] | None:
        """(log offset, size) of one entry. None if the queue does not have it."""
        if queue is None or not queue.start.load() <= queue_offset < queue.end.load():
            return None
        try:
            found = queue.entries(queue_offset, 1)
        except FileNotFoundError:  # clean has removed it
            return None
        return (found[0][0], found[0][1]) if found else None

    def record_at(self, offset: int, end: int) -> Record | None:
        """The record at a log offset that another record names; None if there is none below `end`.
        It has `largest` bytes at most: the number may lead anywhere.
        """
        if not 0 <= offset <= end - _SIZE_BYTES:
            return None
        try:
            size = int.from_bytes(self._log.record(offset, _SIZE_BYTES), "big")
            if not _SIZE_BYTES < size <= min(end - offset, self._largest):
                return None
            record = decode_record(self._log.record(offset, size))
        except (FileNotFoundError, Corrupt):
            return None
        return record if record.physical_offset == offset else None


def begin_at(queue: DelayedQueue, queue_offset: int) -> int:
    """Sets the cursor of a queue to where the process was, and returns it. A queue that ends before
    is another one than it was: then it begins at its start.
    """
    start, end = queue.start.load(), queue.end.load()
    queue.cursor = max(queue_offset, start) if queue_offset <= end else start
    return queue.cursor
