"""reput: dispatches the commit log into consume queues and index, and wakes the readers.

The only writer of queue entries, index entries, the queues' greatest offsets, `dispatched` and the
arrival words. The order of its steps is the kernel's (`store/dispatch/_dispatch.pyx`), the
decisions between them are `store/dispatch/dispatcher.py`'s.
"""

from __future__ import annotations

import os
import time

from ..conf.settings import FlushDiskType
from ..store.commitlog.log import disk_full
from ..store.consumequeue.queue import QueueFiles
from ..store.dispatch.dispatcher import Dispatching
from ..store.index.file import IndexFiles
from .actor import TICK_S, Actor

_SLICE_NS = 50_000_000
# At so many messages a second, one that has caught up naps instead of waiting to be woken: each
# wake-up would cost who takes messages in a little.
_BUSY_RATE = 32_000
_NAP_S = 0.001


class Reput(Actor):
    """Follows `wrote`, with a pool `committed`, and under SYNC_FLUSH `flushed`: a reader must not
    see what a power cut could take back.
    """

    name = "reput"

    def setup(self) -> None:
        # A wake-up takes no core from who is at work: SCHED_BATCH waits for the tick unless a core
        # is idle. Else it would interrupt append or a producer thousands of times a second. No
        # lower priority beside it: among 40,000 queues dispatch would fall behind append.
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        settings = self.settings
        sync = settings.flush_disk_type == FlushDiskType.SYNC_FLUSH
        limit = "flushed" if sync else "committed" if self.world.pool else "wrote"
        self.limit = self.control.word(limit)
        self.asleep = self.control.own("reput_asleep")
        self.asleep.store(0)
        self.count = self.control.word("dispatch_count")
        folders = self.world.folders
        index = IndexFiles(folders.index, settings.max_hash_slot_num, settings.max_index_num)
        self.since, self.counted, self.busy = time.monotonic(), self.count.load(), False
        self.woken = 0  # readers, so far
        self.spin_s = settings.reput_spin_us / 1e6
        self.dispatching = Dispatching(
            self.control,
            self.world.table,
            self.world.log,
            QueueFiles(folders.consume_queue, settings.mapped_file_size_consume_queue),
            index if settings.message_index_enable else None,
            limit=limit,
        )
        if self.dispatching.undone:
            self.logger.warning(
                "took over from a killed reput", index_entries_undone=self.dispatching.undone
            )

    def run(self) -> None:
        while True:
            self.beat()
            seen = self.limit.load()
            if self._step() and self.limit.load() == seen:
                if self.stopping and self._may_stop():
                    return
                self._rest(seen)

    def _rest(self, seen: int) -> None:
        """Until the limit is no longer `seen`; while much comes, for a nap. If a reader slept when
        the last message came, it probably does again: then awake for a while.
        """
        now = time.monotonic()
        if now - self.since >= _NAP_S:
            count = self.count.load()
            self.busy = count - self.counted >= (now - self.since) * _BUSY_RATE
            self.since, self.counted = now, count
        woken = self.dispatching.woken
        waited_for, self.woken = woken != self.woken, woken
        if self.busy:
            time.sleep(_NAP_S)
        elif not (waited_for and self.limit.spin(seen, self.spin_s)):
            self.limit.sleep(seen, TICK_S, self.asleep)

    def _may_stop(self) -> bool:
        """Append is gone: what it wrote is dispatched, or flush cannot make it durable."""
        written = self.control.load("wrote")
        return self.dispatching.position >= written or self.control.load("flush_error") != 0

    def _step(self) -> bool:
        """One slice of work; True when all is dispatched. Without disk space it waits for some."""
        if self.dispatching.position >= self.limit.load():
            return True
        try:
            return self.dispatching.step(_SLICE_NS)
        except OSError as error:
            if not disk_full(error):
                raise
            self.logger.error("no disk space for queues or index; trying again", error=str(error))
            time.sleep(TICK_S)
            return self.stopping
