"""reput: dispatches the commit log into consume queues and index, and wakes the readers.

The only writer of queue entries, index entries, the queues' `max_offset`, `dispatched` and the
arrival words. The kernel (`store/dispatch/_dispatch.pyx`) dispatches a batch of records.
`store/dispatch/dispatcher.py` decides about files and undoes what a killed reput did not publish.
This module decides when to work, to spin and to sleep (RocketMQ: ReputMessageService).
"""

from __future__ import annotations

import os
import time

from ..store.commitlog.log import disk_full
from ..store.consumequeue.queue import QueueFiles
from ..store.dispatch.dispatcher import Dispatching
from ..store.index.file import IndexFiles
from .actor import TICK_S, Actor
from .bell_mail import BellMail
from .spinning import Spinning

_SLICE_NS = 50_000_000
# Above this many messages a second, reput sleeps for a fixed time instead of until append wakes it:
# each wake-up takes time from append.
_BUSY_RATE = 32_000
_NAP_S = 0.001


class Reput(Actor):
    """Dispatches up to a limit (`World.dispatch_limit`)."""

    name = "reput"

    def setup(self) -> None:
        # With SCHED_BATCH a process that wakes up does not preempt a running one. Otherwise reput
        # would interrupt append or a producer thousands of times a second. Its nice value stays 0:
        # with a lower priority dispatch into 40,000 queues would fall behind append.
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        settings = self.settings
        self.limit = self.control.word(self.world.dispatch_limit)
        self.news = self.control.word(self.world.dispatch_news)
        self.asleep = self.control.own("reput_asleep")
        self.asleep.store(0)
        self.steps = self.metrics.own_histogram("dispatch_time")
        self.failures = self.metrics.own("dispatch_failures")
        self.count = self.control.word("dispatch_count")
        folders = self.world.folders
        index = IndexFiles(folders.index, settings.max_hash_slot_num, settings.max_index_num)
        self.since, self.counted, self.busy = time.monotonic(), self.count.load(), False
        self.without_space = False
        self.woken = 0  # how many readers `dispatching` had woken at the last look
        self.spinning = Spinning(settings.reput_spin_us * 1000)
        self.dispatching = Dispatching(
            self.control,
            self.world.table,
            self.world.log,
            QueueFiles(folders.consume_queue, settings.mapped_file_size_consume_queue),
            index if settings.message_index_enable else None,
            delay_levels_ms=settings.message_delay_level,
            limit=self.world.dispatch_limit,
        )
        self.mail = BellMail(self.world, self.world.reput_mail[1])
        self.dispatching.set_bells(self.mail.bells)
        if self.dispatching.undone:
            self.logger.warning(
                "took over from a killed reput", index_entries_undone=self.dispatching.undone
            )

    def run(self) -> None:
        while True:
            self.beat()
            self.mail.read()
            news = self.news.load()  # first: it changes after the limit
            seen = self.limit.load()
            if self._step() and self.limit.load() == seen:
                if self.stopping and self._may_stop():
                    return
                self._rest(seen, news)

    def _rest(self, seen: int, news: int) -> None:
        """Waits until the limit differs from `seen`, or 1 ms at a high message rate. `news` is what
        the word was on which it sleeps.

        If reput has just woken a reader, it spins before it sleeps. That reader probably sleeps
        again and waits for the next message, so reput saves the time of its own wake-up.
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
            return
        began_ns, spin_ns = time.monotonic_ns(), self.spinning.spin_ns if waited_for else 0
        if not (spin_ns and self.limit.spin(seen, spin_ns / 1e9)):
            self.news.sleep(news, TICK_S, self.asleep, self.mail.count, self.mail.seen)
        self.spinning.paused(time.monotonic_ns() - began_ns)

    def _may_stop(self) -> bool:
        """Whether all that is in the log is dispatched. Append and commit have ended. After a
        failed sync the rest never becomes durable, and on a full disk it has no place. Then reput
        does not wait for it: the next start dispatches it.
        """
        written = self.control.load(self.world.filed)
        done = self.dispatching.position >= written
        return done or self.without_space or self.control.load("flush_error") != 0

    def _step(self) -> bool:
        """Dispatches for one slice of time. True when everything below the limit is dispatched.

        On a full disk it waits a second, for the caller to try again. Raises OSError for any other
        failure.
        """
        if self.dispatching.position >= self.limit.load():
            return True
        began = time.monotonic()
        try:
            self.without_space = False
            caught_up = self.dispatching.step(_SLICE_NS)
        except OSError as error:
            if not disk_full(error):
                raise
            self.without_space = True
            self.failures.add(1)
            self.logger.error("no disk space for queues or index; trying again", error=str(error))
            time.sleep(TICK_S)
            return self.stopping
        self.steps.add(time.monotonic() - began)
        return caught_up
