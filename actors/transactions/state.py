"""The progress of transactions: taken over at the start, published, made durable."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from ...shm._words import fault
from ...shm.control import Control
from ...store.config import offsets as offsets_json
from ...store.disk import files as disk
from ...store.names import TRANS_GROUP, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from ...store.transactions.book import Book
from ...store.transactions.progress import Progress, ProgressFile
from ..actor import World

_TICK_MS = 1000
_FAR_BYTES = 256 << 20
#: So many op records before RocketMQ's offset are read.
_LOOK_BACK = 100_000
_NOTHING_WAITS = 2**64 - 1


class State:
    """How far the process is, in three copies of different age: `progress` is now, `published` what
    the next process finds, and a durable one what a power cut leaves.

    The words for others follow the durable progress: clean must keep what a start after a power
    cut reads, and the registry saves for RocketMQ what is true whatever happens.
    """

    def __init__(self, world: World, control: Control, logger: Any) -> None:
        self._world = world
        self._control = control
        self._logger = logger
        self._file = ProgressFile(world.folders.ours)
        self._floor = control.own("trans_floor")
        self._half_next = control.own("trans_half_next")
        self._op_next = control.own("trans_op_next")
        self.progress = self._file.newest(control.load("wrote")) or Progress()
        self._published = self._durable = Progress()
        self._pending: tuple[Progress, int] | None = None
        self._saving: Future[None] | None = None
        self._thread = ThreadPoolExecutor(1)
        self._tick_at = 0
        # What the open transactions need of the log now. What a power cut leaves may need more.
        self._needed = 0
        # Op records that may still be needed: queue offset, and the greatest half that it names.
        self._ops: deque[tuple[int, int]] = deque()
        self._op_end = 0

    def after_rocketmq(self) -> None:
        """Takes the offsets that RocketMQ has saved, where it went further than this store.

        RocketMQ goes on behind an op record although it names a half of which there is a copy
        further on. So some op records before its offset are read as well.
        """
        path = f"{self._world.folders.config.path}/{offsets_json.OFFSETS_FILE}"
        saved, _ = offsets_json.load(path)
        halves = saved.get((TRANS_HALF_TOPIC, TRANS_GROUP), {}).get(0, 0)
        ops = saved.get((TRANS_OP_HALF_TOPIC, TRANS_GROUP), {}).get(0, 0)
        self.progress = self.progress._replace(
            half_next=max(self.progress.half_next, halves),
            op_next=max(self.progress.op_next, ops - _LOOK_BACK),
        )

    # -- op records

    def op_seen(self, queue_offset: int, halves: Iterable[int]) -> None:
        """Notes an op record: it is needed until all halves that it names are passed."""
        self._op_end = max(self._op_end, queue_offset + 1)
        self._ops.append((queue_offset, max(halves, default=-1)))

    # -- progress

    def note(self, book: Book, decision_next: int, *, settled: bool) -> None:
        """Takes the progress from the book, and publishes it for a successor if it has changed.

        `settled` means that op records name the halves of all finals so far. Without that the
        progress stays as it was.
        """
        self._needed = _floor_of(book)
        if self._floor.load() > self._needed:
            self._floor.store(self._needed)
        if not settled:
            return
        half_next = book.first
        while self._ops and self._ops[0][1] < half_next:
            self._ops.popleft()
        op_next = self._ops[0][0] if self._ops else max(self._op_end, self.progress.op_next)
        self.progress = Progress(self._control.load("wrote"), half_next, op_next, decision_next)
        if self.progress != self._published:
            self._file.publish(self.progress)
            self._published = self.progress
            fault("transactions:published")

    def tick(self, book: Book, now_ms: int) -> None:
        """Once a second: makes the progress durable when the log is durable up to it."""
        if self._saving is not None and self._saving.done():
            self._saved()
        if self._saving is not None or now_ms < self._tick_at <= now_ms + _TICK_MS:
            return
        self._tick_at = now_ms + _TICK_MS
        floor = _floor_of(book)
        if self._pending is None and (self._moved() or self._floor.load() != floor):
            self._pending = self._published, floor
        pending = self._pending
        if pending is not None and self._control.load("flushed") >= pending[0].scan_from:
            self._saving = self._thread.submit(self._file.make_durable, pending[0])

    def something_waits(self) -> None:
        """There are transactions: clean keeps the whole log until it is known where they begin, or
        what the process before this one has said.
        """
        if self._floor.load() == _NOTHING_WAITS:
            self._floor.store(0)

    def nothing_waits(self) -> None:
        """There are no transactions in this store: clean need keep nothing for them."""
        self._floor.store(_NOTHING_WAITS)

    def _moved(self) -> bool:
        last, now = self._durable, self._published
        return last[1:] != now[1:] or now.scan_from - last.scan_from >= _FAR_BYTES

    def _saved(self) -> None:
        assert self._saving is not None
        assert self._pending is not None
        saving, self._saving = self._saving, None
        (progress, floor), self._pending = self._pending, None
        saving.result()
        self._durable = progress
        # The registry reads them the other way round: no op record that is left out names a half
        # that is not done.
        self._half_next.store(progress.half_next)
        self._op_next.store(progress.op_next)
        self._floor.store(min(floor, self._needed))

    def save_at_stop(self, book: Book) -> None:
        """Makes the progress durable at a stop. Flush has not made its last sync at this point, so
        the log's file system is synced here.
        """
        if self._saving is not None:
            wait([self._saving])
            self._saved()
        self._pending = None
        if not self._moved() or self._control.load("flush_error"):
            return
        pool = self._world.pool is not None
        if pool and self._control.load("committed") < self._published.scan_from:
            return  # the next start finds the rest in the log
        disk.sync_file_system(self._world.folders.commit_log)
        self._pending = self._published, _floor_of(book)
        self._saving = self._thread.submit(self._file.make_durable, self._published)
        wait([self._saving])
        self._saved()


def _floor_of(book: Book) -> int:
    """The log offset from which clean must keep the log for open transactions."""
    floor = book.floor
    return _NOTHING_WAITS if floor is None else floor
