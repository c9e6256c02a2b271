"""The dispatcher with its files: reput runs it all the time, a start once after a crash.

The kernel (`_dispatch.pyx`) stops when it needs a file; this module gives it the next log file, a
queue's window, or a new index file.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...shm._bells import Bells
from ...shm._memory import Mapping
from ...shm._words import Word
from ...shm.control import CONTROL, Control
from ...shm.progress import IndexProgress
from ..commitlog.log import CommitLog, LogFile
from ..consumequeue.queue import ENTRY_SIZE, WINDOW_GROWTH, WINDOW_UNIT, QueueFiles, window_limit
from ..disk.paths import file_name
from ..errors import Corrupt, StoreError
from ..index.file import IndexFiles
from ..record.fields import HEAD_BYTES, store_time_of
from ..record.format import decode_record
from ..topics.topic_table import TopicTable
from . import _dispatch as kernel
from ._follow import Follower

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Dispatching:
    """Dispatches the commit log from the published progress on.

    `limit` names the control word to follow: `wrote`, `flushed` under SYNC_FLUSH, `committed` with
    a pool. `index` is None if keys are not indexed. `delay_levels_ms` are the delays of level 1, 2
    and so on.

    `unknown_queue` is called with (topic, queue id, log offset) for a record whose queue is not in
    the table. It adds the queue and returns True, or returns False, and the record gets no queue
    entry. Without it such a record raises StoreError.

    After a power cut (`power_lost`) slots of the index may be on the disk without their entries,
    and entries without earlier ones. Then the slots are computed anew.
    """

    def __init__(
        self,
        control: Control,
        table: TopicTable,
        log: CommitLog,
        queues: QueueFiles,
        index: IndexFiles | None,
        *,
        delay_levels_ms: Sequence[int],
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
            list(delay_levels_ms),
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

    def set_bells(self, bells: Bells) -> None:
        """Has dispatch ring these session bells for arrivals."""
        self.kernel.set_bells(bells)

    def _resume_index(self, published: IndexProgress, *, power_lost: bool) -> int:
        """Opens the published index file, and undoes the entries that a dead predecessor added
        behind the published count. Returns how many it undid, or after a power cut, how many slots
        were wrong.
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

    def _extend_index(self) -> None:
        """Takes space for more entries, or turns to a new file if this one is full. Raises OSError
        (ENOSPC); the next step then tries again.
        """
        assert self.index is not None
        state = self.kernel.state
        count = state["index_count"]
        if count >= self.index.entries:
            self._index_mapping = None
        else:
            self.kernel.set_index_room(self.index.take_room(state["index_name"], count))

    def step(self, slice_ns: int) -> bool:
        """Dispatches for about `slice_ns`. True if it came to the limit. Raises as `prepare` and
        `act_on`.
        """
        self.drop_deleted()
        self.prepare()
        reason = self.kernel.run(self._limit_word, slice_ns)
        self.act_on(reason)
        return reason == kernel.CAUGHT_UP

    def follower(self, news: str, others: list[Word], times: Buffer, spin_ns: int) -> Follower:
        """The kernel's own loop, for reput; `Follower` explains the arguments. `news` is the
        control word's name.
        """
        at, word = self._limit_word, self.control.word(news)
        limit = Word(self.control.memory, at)
        return Follower(self.kernel, at, limit, word, others, times, spin_ns)

    @property
    def is_prepared(self) -> bool:
        """Whether the kernel has the files with which it begins."""
        has_index = self.index is None or self._index_mapping is not None
        return self._file is not None and has_index

    def prepare(self) -> None:
        """Gives the kernel the files with which it begins. Raises OSError (ENOSPC)."""
        if self._file is None:
            self._next_file()
        if self.index is not None and self._index_mapping is None:
            self._set_index(*self.index.create(), fresh=True)

    def act_on(self, reason: int) -> None:
        """Gives the kernel what it lacks, by the reason for which it returned. Raises OSError
        (ENOSPC: no space for a queue or the index), Corrupt if bytes below the limit are no record.
        """
        if reason == kernel.NEXT_FILE:
            self._file = None
        elif reason == kernel.NEED_WINDOW:
            self._add_window(self.kernel.need_slot, self.kernel.need_offset)
        elif reason == kernel.INDEX_FULL:
            self._extend_index()
        elif reason == kernel.UNKNOWN_QUEUE:
            self._add_queue()
        elif reason == kernel.UNKNOWN_LIGHT:
            self._add_light_queue()
        elif reason == kernel.BAD_RECORD:
            path = (
                f"{self.log.folders.commit_log.path}/{file_name(self.log.base_of(self.position))}"
            )
            raise Corrupt(path, self.position, "dispatch found no record where one must begin")

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
            # Append has filled the last file and the next one is not made yet: nothing to dispatch.
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

    def drop_deleted(self) -> None:
        """Unmaps windows of topics that were deleted since the last call: a mapped file keeps its
        disk space.
        """
        if self._deletions == self.table.deletions:
            return
        self._deletions = self.table.deletions
        for slot in [slot for slot in self._windows if self.table.is_deleted(slot)]:
            del self._windows[slot]
            self.kernel.drop_window(slot)

    def _date_full_file(self, topic: str, queue_id: int, last: int) -> None:
        """Sets the modification time of the full queue file that ends with entry `last` to the
        store time of that entry's message.

        RocketMQ 4 searches for a time in the first file that was modified then or later
        (`getMappedFileByTime`). Writes through a mapping leave a file the time at which its last
        page was *first* written, which is before the page's other messages.
        """
        try:
            offset, _, _ = self.queues.entry(topic, queue_id, last)
            file = self.log.open(self.log.base_of(offset))
        except FileNotFoundError:
            return  # clean has removed the queue file or the log file
        at = offset - file.base
        stored_ms = store_time_of(bytes(memoryview(file.mapping)[at : at + HEAD_BYTES]))
        # The store time of a damaged record may lie in the future.
        self.queues.set_modified(topic, queue_id, last, min(stored_ms, time.time_ns() // 10**6))

    def _add_queue(self) -> None:
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

    def _add_light_queue(self) -> None:
        name, queue_id = self.kernel.unknown_light
        try:
            topic = name.decode()
        except UnicodeDecodeError:
            self.kernel.pass_light()
            return
        if self.unknown_queue is None:
            raise StoreError(
                f"the record at offset {self.position} belongs to the light queue {topic}, which "
                "is not in the topic table"
            )
        if not self.unknown_queue(topic, queue_id, self.position):
            self.kernel.pass_light()
