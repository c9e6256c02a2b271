"""reput: dispatches the commit log into consume queues and index, and wakes the readers.

The only writer of queue entries, index entries, the queues' `max_offset`, `dispatched` and the
arrival words. The kernel (`store/dispatch/_dispatch.pyx`) dispatches a batch of records, and
follows the log (`_follow.pyx`). `store/dispatch/dispatcher.py` decides about files and undoes what
a killed reput did not publish. This module sees to everything else (RocketMQ: ReputMessageService).
"""

from __future__ import annotations

import os
import time

from ..shm._words import values
from ..store.commitlog.log import disk_full
from ..store.consumequeue.queue import QueueFiles
from ..store.dispatch._dispatch import CAUGHT_UP, SLICE
from ..store.dispatch._follow import NEWS, PREPARE
from ..store.dispatch.dispatcher import Dispatching
from ..store.index.file import IndexFiles
from .actor import TICK_S, Actor
from .bell_mail import BellMail

_SLICE_NS = 50_000_000
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
        self.control.own("reput_asleep").store(0)
        self.steps = self.metrics.own_histogram("dispatch_time")
        self.failures = self.metrics.own("dispatch_failures")
        folders = self.world.folders
        index = IndexFiles(folders.index, settings.max_hash_slot_num, settings.max_index_num)
        self.without_space = False
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
        # What ends a rest: the number of the mail, that of deleted topics, and this actor's state.
        deletions, state = self.world.table.deletions_word, self.control.state_of(self.name)
        self.others = [self.mail.count, deletions, state]
        self.follower = self.dispatching.follower(
            self.world.dispatch_news,
            self.others,
            self.metrics.own_times("dispatch_time"),
            settings.reput_spin_us * 1000,
        )
        if self.dispatching.undone:
            self.logger.warning(
                "took over from a killed reput", index_entries_undone=self.dispatching.undone
            )

    def run(self) -> None:
        while True:
            seen = values(self.others)
            self.beat()
            self.mail.read()
            self.dispatching.drop_deleted()
            if self._follow(seen) and self.stopping:
                if self._may_stop():
                    return
                time.sleep(_NAP_S)

    def _may_stop(self) -> bool:
        """Whether all that is in the log is dispatched. Append and commit have ended. After a
        failed sync the rest never becomes durable, and on a full disk it has no place. Then reput
        does not wait for it: the next start dispatches it.
        """
        written = self.control.load(self.world.filed)
        done = self.dispatching.position >= written
        return done or self.without_space or self.control.load("flush_error") != 0

    def _follow(self, seen: list[int]) -> bool:
        """Dispatches and rests for one slice of time. True when everything below the limit is
        dispatched. When reput stops, it does not rest.

        On a full disk it waits a second, for the caller to try again. Raises OSError for any other
        failure.
        """
        dispatching, follower = self.dispatching, self.follower
        reason = follower.run(
            seen,
            prepared=dispatching.is_prepared,
            rests=not self.stopping,
            slice_ns=_SLICE_NS,
            sleep_ns=int(TICK_S * 1e9),
        )
        self.steps.look(follower.longest_ns / 1e9)
        if reason in (CAUGHT_UP, SLICE, NEWS):
            return reason == CAUGHT_UP
        try:
            self.without_space = False
            if reason == PREPARE:
                self.steps.timed(dispatching.prepare)
            else:
                self.steps.timed(dispatching.act_on, reason)
        except OSError as error:
            if not disk_full(error):
                raise
            self.without_space = True
            self.failures.add(1)
            self.logger.error("no disk space for queues or index; trying again", error=str(error))
            time.sleep(TICK_S)
            return self.stopping
        return False
