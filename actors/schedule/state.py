"""What schedule knows of its own progress: taking over, publishing, making durable."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from ...shm._words import fault
from ...shm.control import Control
from ...store.commitlog.log import disk_full
from ...store.config import delay_offsets
from ...store.delay._delivered import delivered
from ...store.delay.delays import Progress, ProgressFile, identity
from ...store.delay.levels import MAX_DELAY_LEVEL
from ...store.delay.timers import Timers
from ...store.delay.waiting_queue import DelayedQueue
from ...store.disk import files as disk
from ...store.record.format import Record, decode_record
from ..actor import World

_DURABLE_EVERY_MS = 10_000
_TICK_MS = 1000
_STEP = 8 << 20
_NOTHING_WAITS = 2**64 - 1


class State:
    """`progress` is what is delivered and entered. What is published is older while answers are
    outstanding that it does not count, or deliveries of a predecessor are not all recognised.
    """

    def __init__(
        self,
        world: World,
        control: Control,
        timers: Timers,
        logger: Any,
        beat: Callable[[], bool],
    ) -> None:
        self.world = world
        self.control = control
        self.timers = timers
        self.logger = logger
        self.beat = beat
        self.file = ProgressFile(world.folders.ours)
        self.json_path = f"{world.folders.config.path}/{delay_offsets.FILE_NAME}"
        self.progress = Progress()
        self.published = Progress()
        self.durable = Progress()
        self.pending: Progress | None = None
        self.saving: Future[None] | None = None
        self.thread = ThreadPoolExecutor(1)
        self.floor = control.own("schedule_floor")
        # Deliveries of a predecessor that its progress does not know: where they are in the log.
        self.known: dict[bytes, list[int]] = {}
        self.changed = False
        self.json_counter = 0
        self.tick_at = self.durable_at = 0

    # -- taking over

    def take_over(self, levels: Sequence[DelayedQueue], timers: DelayedQueue | None) -> None:
        """Goes on where a predecessor, an earlier run, or RocketMQ was."""
        # With a pool what is not in the files yet was written by others: our frames were awaited.
        pool = self.world.pool is not None
        wrote = self.control.load("committed" if pool else "wrote")
        found = self.file.newest(self.control.load("wrote")) or Progress()
        found.timer_next = timers.clamp(found.timer_next) if timers is not None else 0
        self.timers.take_over(found.timer_next, found.scan_from)
        offsets, report = delay_offsets.load(self.json_path)
        if report.problem:
            self.logger.warning("delayOffset.json", problem=report.problem)
        if not levels:
            found.next = [0] * MAX_DELAY_LEVEL
        for level, queue in enumerate(levels):
            # RocketMQ may have had the store since, and have come further.
            least = max(found.next[level], offsets.get(level + 1, 0))
            found.next[level] = queue.clamp(least)
        waits = any(q.end.load() > n for q, n in zip(levels, found.next, strict=False))
        waits |= timers is not None and timers.end.load() > found.timer_next
        waits |= any(bucket.waiting for bucket in self.timers.buckets.values())
        if waits:
            self._find_delivered(found.scan_from, wrote)
        else:
            found.scan_from = wrote
        self.progress = found
        self.published = found.copy()
        self.file.publish(found)

    def _find_delivered(self, position: int, end: int) -> None:
        """Notes the deliveries in the log from `position` to `end`."""
        log = self.world.log
        position = max(position, self.control.load("min_offset"))
        count = 0
        while position < end:
            base = log.base_of(position)
            view = memoryview(log.open(base).mapping)
            stop = min(end - base, log.file_size)
            at = position - base
            while at < stop and not self.beat():
                places, reached = delivered(view, at, min(stop, at + _STEP))
                if reached == at:  # a record longer than the step, or the end of the file
                    places, reached = delivered(view, at, stop)
                for place in places:
                    record = decode_record(view, place, check_crc=False)
                    self.known.setdefault(identity(record), []).append(base + place)
                    count += 1
                if reached == at:
                    break
                at = reached
            position = base + log.file_size
        if count:
            self.logger.info("found deliveries that were not noted", messages=count)

    def delivered_at(self, record: Record) -> int:
        """Where a predecessor delivered the message, which then counts as found; -1: nowhere."""
        if not self.known:
            return -1
        key = identity(record)
        places = self.known.get(key)
        if not places:
            return -1
        place = places.pop(0)
        if not places:
            del self.known[key]
        return place

    # -- progress

    def done(self, level: int, queue_offset: int) -> None:
        """The message is delivered, or never will be."""
        self.progress.next[level] = max(self.progress.next[level], queue_offset + 1)
        self.changed = True

    def scanned(self, end: int) -> None:
        """A delivery ends at commit-log offset `end`: the next one comes behind it."""
        self.progress.scan_from = max(self.progress.scan_from, end)
        self.changed = True

    def entered(self, timer_next: int) -> None:
        """Timers below this queue offset are in their files; nothing of them is delivered yet."""
        self.progress.timer_next = self.published.timer_next = timer_next
        self.file.publish(self.published)
        self.changed = True

    def publish(self, *, in_flight: bool, failed: bool) -> None:
        """For a successor, once all that is delivered counts."""
        if not self.changed or failed or self.known:
            return
        if not in_flight:  # the next delivery comes behind all there is now
            self.progress.scan_from = max(self.progress.scan_from, self.control.load("wrote"))
        self.published = self.progress.copy()
        self.file.publish(self.published)
        self.changed = False
        fault("schedule:published")

    def tick(
        self, levels: Sequence[DelayedQueue], timers: DelayedQueue | None, now_ms: int
    ) -> None:
        """Once a second: what is not urgent."""
        if now_ms < self.tick_at and self.tick_at - now_ms <= _TICK_MS:
            return
        self.tick_at = now_ms + _TICK_MS
        if self.known and not self._due_left(levels, now_ms):
            left = sum(map(len, self.known.values()))
            self.logger.info("deliveries of others in the log", messages=left)
            self.known.clear()
        self.changed = True  # so that little of the log is to be looked through
        self.note_floor(levels, timers)
        self._make_durable(now_ms)

    def _due_left(self, levels: Sequence[DelayedQueue], now_ms: int) -> bool:
        """Whether messages that were due when this process began may still be unseen."""
        near = self.timers.near
        return bool(near and near[0].due_ms <= now_ms) or any(
            (entry := queue.peek()) is not None and entry[2] <= now_ms for queue in levels
        )

    def note_floor(self, levels: Sequence[DelayedQueue], timers: DelayedQueue | None) -> None:
        """Tells clean from where in the log on messages wait."""
        needed = [self.timers.first_offset()]
        places = list(zip(levels, self.progress.next, strict=False))
        places += [(timers, self.progress.timer_next)] if timers is not None else []
        for queue, following in places:
            first = max(following, queue.start.load())
            if first < queue.end.load():
                needed.append(queue.entries(first, 1)[0][0])
        floor = min((place for place in needed if place is not None), default=_NOTHING_WAITS)
        if floor != self.floor.load():
            self.floor.store(floor)

    # -- durable

    def _make_durable(self, now_ms: int) -> None:
        """A sync takes long, and messages are due meanwhile: a thread waits for it."""
        if self.saving is not None:
            if self.saving.done():
                self._saved(now_ms)
            return
        if self.pending is None and now_ms >= self.durable_at and self._moved():
            self.pending = self.published.copy()
        if self.pending is None or self.control.load("flushed") < self.pending.scan_from:
            return
        self.durable_at = now_ms + _DURABLE_EVERY_MS
        self.saving = self.thread.submit(
            self._save, self.pending, self.timers.take_unsynced(), now_ms
        )

    def _saved(self, now_ms: int) -> None:
        """The thread is through, or failed."""
        assert self.saving is not None
        assert self.pending is not None
        saving, self.saving = self.saving, None
        pending, self.pending = self.pending, None
        error = saving.exception()
        if error is None:
            self.durable = pending
            self.timers.drop_done(pending.scan_from, now_ms)
        elif isinstance(error, OSError) and disk_full(error):
            self.logger.error("cannot save the progress of delayed messages", error=str(error))
            self.timers.forget_synced()
        else:
            raise error

    def _moved(self) -> bool:
        last, now = self.durable, self.published
        return (last.timer_next, last.next) != (now.timer_next, now.next) or any(
            not bucket.waiting for bucket in self.timers.buckets.values()
        )

    def _save(self, progress: Progress, minutes: list[int], now_ms: int) -> None:
        """The log is durable up to what `progress` says of it."""
        self.timers.sync(minutes)
        self.file.make_durable(progress)
        self.json_counter += 1
        delay_offsets.save(self.json_path, progress.next, now_ms, self.json_counter)

    def save_at_stop(self) -> None:
        """Before the store's last sync: syncs by itself what the saved progress counts on."""
        now_ms = int(time.time() * 1000)
        if self.saving is not None:
            wait([self.saving])
            self._saved(now_ms)
        if not self._moved() or self.control.load("flush_error"):
            return
        pool = self.world.pool is not None
        if pool and self.control.load("committed") < self.published.scan_from:
            return  # the next start finds the rest in the log
        disk.sync_file_system(self.world.folders.commit_log)
        self.pending = self.published.copy()
        self.saving = self.thread.submit(
            self._save, self.pending, self.timers.take_unsynced(), now_ms
        )
        wait([self.saving])
        self._saved(now_ms)
