"""A store as it would be served after its own recovery, without changing a byte.

Opens and maps everything read-only, and does in memory what RocketMQ 4.x's start does on disk
(`DefaultMessageStore.load`):

1. the queues and the log find their ends;
2. after a crash, records from the recovery's first file on are dispatched again;
3. queue entries that point behind the log's end are dropped;
4. each queue begins at its first entry whose record is still there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...store.errors import Corrupt
from ...store.names import SCHEDULE_TOPIC
from ...store.record.format import TRANSACTION_COMMIT, TRANSACTION_NONE, Record
from ...store.record.javahash import java_parse_int
from ...store.record.properties import DELAY
from ...store.recovery.unsupported import refuse_unsupported
from ..raw.files import StoreFiles, queue_order
from .indexes import IndexView
from .logs import LogView
from .queues import QueueView

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from ...conf.settings import Settings

#: Ten years: a level beyond that is damage.
_LONGEST_DELAY_MS: Final = 10 * 366 * 86_400_000
_QUEUED = (TRANSACTION_NONE, TRANSACTION_COMMIT)


def is_queued(record: Record) -> bool:
    """Whether a record gets a queue entry: half messages and rollbacks get none."""
    return record.transaction_type in _QUEUED


def entry_code(record: Record, delay_levels_ms: Sequence[int]) -> int:
    """The tags code of a record's queue entry. For a delayed message it is the time (ms) when it is
    due, with the delays of level 1, 2 and so on.
    """
    delay = record.properties.get(DELAY)
    if record.topic == SCHEDULE_TOPIC and delay is not None:
        try:
            level = min(java_parse_int(delay), len(delay_levels_ms))
        except ValueError:
            return record.tags_code
        if level > 0:
            return record.store_timestamp + delay_levels_ms[level - 1]
    return record.tags_code


def is_other_delay(record: Record, code: int) -> bool:
    """Whether `code` can be that of a delayed message under other levels than ours: a due time some
    whole seconds behind the store time. A broker has its own `messageDelayLevel`, which its files
    do not tell.
    """
    delay = code - record.store_timestamp
    return (
        record.topic == SCHEDULE_TOPIC
        and DELAY in record.properties
        and 0 < delay < _LONGEST_DELAY_MS
        and delay % 1000 == 0
    )


class StoreView:
    """The store in the folder `path`. Raises BadInput, UnsupportedFeature.

    `checkpoint` holds physic, logics and index time (ms) after recovery.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Settings) -> None:
        refuse_unsupported(path)
        self.files = StoreFiles(path, settings)
        self.clean = self.files.clean
        found = self.files.checkpoint()
        self.log = LogView(self.files)
        self.queues = {queue: QueueView(self.files, *queue) for queue in self.files.queues()}
        self.index = IndexView(self.files, found.index_msg_timestamp, clean=self.clean)
        self._logics_ms = found.logics_msg_timestamp
        highest = -1
        for queue in self.queues.values():
            queue.recover()
            highest = max(highest, queue.max_physic)
        start = self.log.recover(found, clean=self.clean)
        if not self.clean:
            self._dispatch(start)
        if not self.log.bases and not self.clean:
            self.queues.clear()
        elif self.log.bases and highest >= self.log.end:
            for queue in self.queues.values():
                queue.truncate(self.log.end)
        for queue in self.queues.values():
            queue.correct_min(self.log.first)
        self.checkpoint = [found.physic_msg_timestamp, self._logics_ms, self.index.checkpoint_ms]

    def _dispatch(self, start: int) -> None:
        """Dispatches the records from `start` on again; entries that are there stay as they are."""
        try:
            for found in self.log.walk(start):
                if isinstance(found, Record):
                    self._dispatch_one(found)
        except Corrupt as error:
            self.log.problems.append(str(error))

    def _dispatch_one(self, record: Record) -> None:
        if is_queued(record):
            queue = self.queues.get((record.topic, record.queue_id))
            if queue is None:
                queue = QueueView(self.files, record.topic, record.queue_id)
                self.queues[record.topic, record.queue_id] = queue
            queue.put(
                record.physical_offset,
                record.total_size,
                entry_code(record, self.files.settings.message_delay_level),
                record.queue_offset,
            )
            self._logics_ms = record.store_timestamp
        if self.files.settings.message_index_enable:
            self.index.build(record)

    def sorted_queues(self) -> list[QueueView]:
        """The queues, sorted by topic and number."""
        return [self.queues[queue] for queue in sorted(self.queues, key=queue_order)]

    def close(self) -> None:
        """Drops the mappings."""
        self.files.close()
