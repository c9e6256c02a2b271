"""Dispatch with its files: what reput does all the time, and start-up once for what a crash left
undone.

The kernel stops when it needs a decision; this module makes it: the next log file, a queue's
window, a new index file.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from ...shm._memory import Mapping
from ...shm.control import CONTROL, Control, IndexProgress
from ..commitlog.log import CommitLog, LogFile
from ..consumequeue.queue import ENTRY_SIZE, WINDOW_GROWTH, WINDOW_UNIT, QueueFiles, window_limit
from ..delay.levels import DELAY_LEVELS_MS
from ..errors import Corrupt, StoreError
from ..index.file import IndexFiles
from ..topics.topic_table import TopicTable
from . import _dispatch as kernel


class Dispatching:
    """Dispatches the commit log from the published progress on.

    `limit` names the control word to follow: `wrote`, or `flushed` under SYNC_FLUSH. `index` is
    None where keys are not indexed. `unknown_queue`, if given, is told (topic, queue id, log
    offset) of a record whose queue is not in the table: it adds it (True), or the record gets no
    queue entry (False); without it such a record is an error.
    `power_lost` says that slots of the index may be there without their entries, and entries
    without those before them.
    """

    def __init__(
        self,
        control: Control,
        table: TopicTable,
        log: CommitLog,
        queues: QueueFiles,
        index: IndexFiles | None,
        *,
        limit: str = "wrote",
        unknown_queue: Callable[[str, int, int], bool] | None = None,
        power_lost: bool = False,
    ) -> None:
        self.control = control
        self.table = table
        self.log = log
        self.queues = queues
        self.index = index
        self.unknown_queue = unknown_queue
        progress = control.progress()
        self.kernel = kernel.Dispatcher(
            control.memory,
            table.memory,
            table.max_queues,
            list(DELAY_LEVELS_MS),
            progress.fields(),
        )
        control.own("dispatched").store(progress.dispatched)
        control.own("dispatch_count").store(progress.dispatch_count)
        self._limit_word = CONTROL[limit][0]
        self._file: LogFile | None = None
        self._index_mapping: Mapping | None = None
        self._windows: OrderedDict[int, int] = OrderedDict()  # slot -> size, oldest first
        self._window_limit = window_limit()
        self._deletions = table.deletions
        self.undone = 0
        if index is not None:
            self.undone = self._resume_index(progress.index, power_lost=power_lost)

    @property
    def woken(self) -> int:
        """How often an entry came to a word at which a reader slept."""
        return self.kernel.woken

    def _resume_index(self, published: IndexProgress, *, power_lost: bool) -> int:
        """Goes back to the published index entry: how many entries a dead predecessor had put
        behind it.
        """
        assert self.index is not None
        name = published.name
        self.index.remove_after(name)
        if name == 0:
            return 0
        if power_lost:
            self.index.cut(name, published.count)
        self._set_index(name, self.index.open(name), fresh=False)
        return self.kernel.relink_index() if power_lost else self.kernel.undo_index()

    def _set_index(self, name: int, mapping: Mapping, *, fresh: bool) -> None:
        assert self.index is not None
        self._index_mapping = mapping
        self.kernel.set_index(mapping, name, self.index.slots, self.index.entries, fresh)

    def step(self, slice_ns: int) -> bool:
        """Dispatches for about `slice_ns`; True when nothing is left to do.

        Raises OSError (ENOSPC: no space for a queue or the index), Corrupt for a record that is
        none.
        """
        if self._deletions != self.table.deletions:
            self._drop_deleted()
        if self._file is None:
            self._next_file()
        if self.index is not None and self._index_mapping is None:
            self._set_index(*self.index.create(), fresh=True)
        reason = self.kernel.run(self._limit_word, slice_ns)
        if reason == kernel.NEXT_FILE:
            self._file = None
        elif reason == kernel.NEED_WINDOW:
            self._add_window(self.kernel.need_slot, self.kernel.need_offset)
        elif reason == kernel.INDEX_FULL:
            self._index_mapping = None
        elif reason == kernel.UNKNOWN_QUEUE:
            self._add_queue()
        elif reason == kernel.BAD_RECORD:
            raise Corrupt("", self.position, "dispatch found no record where one must begin")
        return reason == kernel.CAUGHT_UP

    @property
    def position(self) -> int:
        """Commit-log offset behind the last dispatched record."""
        return self.kernel.state["dispatched"]

    def _next_file(self) -> None:
        base = self.log.base_of(self.position)
        written = self.control.word("wrote").load()
        try:
            self._file = self.log.open(base)
        except FileNotFoundError:
            # Append closed the last file and waits for the next: there is nothing to dispatch in it
            # yet.
            if self.position < written:
                raise
            return
        self.kernel.set_log(self._file.mapping, base)

    def _add_window(self, slot: int, queue_offset: int) -> None:
        size = self._windows.pop(slot, 0)
        if size:
            self.kernel.drop_window(slot)
        elif len(self._windows) >= self._window_limit:
            oldest, _ = self._windows.popitem(last=False)
            self.kernel.drop_window(oldest)
        size = min(max(size * WINDOW_GROWTH, WINDOW_UNIT), 256 * WINDOW_UNIT)
        topic_index, queue_id = self.table.queue(slot)
        topic = self.table.topic_name(topic_index)
        mapping, first = self.queues.window(topic, queue_id, queue_offset, size)
        self.kernel.set_window(slot, mapping, first)
        self._windows[slot] = size
        if first and first * ENTRY_SIZE % self.queues.file_size == 0:
            self._date_full_file(topic, queue_id, first - 1)

    def _drop_deleted(self) -> None:
        """Lets go of deleted topics' files: as long as one is mapped, its space stays taken."""
        self._deletions = self.table.deletions
        for slot in [slot for slot in self._windows if self.table.is_deleted(slot)]:
            del self._windows[slot]
            self.kernel.drop_window(slot)

    def _date_full_file(self, topic: str, queue_id: int, last: int) -> None:
        """Dates the full queue file that ends with entry `last` by the message it leads to.

        RocketMQ 4 looks for a time in the first file modified then or later
        (`getMappedFileByTime`), and what is written through a mapping leaves a file the time at
        which its last page was *first* written: before that of the page's other messages.
        """
        from ..record.fields import HEAD_BYTES, store_time_of

        try:
            offset, _, _ = self.queues.entry(topic, queue_id, last)
            file = self.log.open(self.log.base_of(offset))
        except FileNotFoundError:
            return  # the queue, or the log, begins behind it
        at = offset - file.base
        stored_ms = store_time_of(bytes(memoryview(file.mapping)[at : at + HEAD_BYTES]))
        # Whatever a damaged record says, a file was not modified in the future.
        self.queues.set_modified(topic, queue_id, last, min(stored_ms, time.time_ns() // 10**6))

    def _add_queue(self) -> None:
        from ..record.format import decode_record

        assert self._file is not None
        at = self.position - self._file.base
        record = decode_record(memoryview(self._file.mapping), at, check_crc=False)
        if self.unknown_queue is None:
            raise StoreError(
                f"the record at offset {self.position} belongs to queue {record.queue_id} of "
                f"{record.topic}, which is not in the topic table"
            )
        if not self.unknown_queue(record.topic, record.queue_id, self.position):
            self.kernel.pass_queue()
