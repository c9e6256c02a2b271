"""The progress of deliveries: taken over at the start, published, made durable."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from ...shm._words import fault
from ...shm.control import Control
from ...store.commitlog.log import disk_full
from ...store.config import delay_offsets
from ...store.delay import rocketmq_timers
from ...store.delay._delivered import delivered
from ...store.delay.delays import Progress, ProgressFile, identity
from ...store.delay.timers import Timers
from ...store.delay.waiting_queue import DelayedQueue
from ...store.disk import files as disk
from ...store.record.format import Record, decode_record
from ..actor import World

_DURABLE_EVERY_MS = 10_000
_TICK_MS = 1000
_STEP = 8 << 20
_FAR_BYTES = 256 << 20
_NOTHING_WAITS = 2**64 - 1


class Rising(NamedTuple):
    """A value for `schedule_floor`, which may be published when the log is durable up to
    `durable_at`. `deliveries` is how many there were when it was computed.
    """

    floor: int
    durable_at: int
    deliveries: int


class State:
    """How far deliveries have come, in three copies of different age.

    `progress` counts every delivered message and every timer that is in its file. `published` is
    what the next schedule process finds in the mapped file `silomq/schedule`. It stays behind while
    refused messages wait, or while deliveries of a killed process are not all recognised. `durable`
    is what a power cut leaves. `beat` is called in long loops; True means that the actor is to
    stop.
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
        self.pending: tuple[Progress, int] | None = None
        self.saving: Future[None] | None = None
        self.thread = ThreadPoolExecutor(1)
        self.floor = control.own("schedule_floor")
        self.rising: Rising | None = None
        self.deliveries = 0
        # Deliveries of a killed process that its progress does not count, by the identity of the
        # message: offsets in the log.
        self.known: dict[bytes, list[int]] = {}
        self.has_timers = False
        self.first_timer = -1  # as last written for RocketMQ
        self.changed = False
        self.json_counter = 0
        self.json_is_good = True
        self.tick_at = self.durable_at = 0

    # -- taking over

    def take_over(self, levels: Sequence[DelayedQueue], timers: DelayedQueue | None) -> None:
        """Continues from the progress that a killed process, an earlier run or RocketMQ left."""
        # With a pool the scan ends at `committed`. Records behind it come from other producers:
        # this process has waited for the records of its own frames.
        pool = self.world.pool is not None
        wrote = self.control.load("committed" if pool else "wrote")
        found = self.file.newest(self.control.load("wrote")) or Progress()
        found.timer_next = timers.clamp(found.timer_next) if timers is not None else 0
        self.timers.take_over(found.timer_next, found.scan_from)
        offsets, report = delay_offsets.load(self.json_path)
        self.json_is_good = report.main_is_good
        if report.problem:
            self.logger.warning("delayOffset.json", problem=report.problem)
        if not levels:
            found.next = Progress().next
        for level, queue in enumerate(levels):
            # RocketMQ may have run on the store since, and may have delivered more.
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
        self.has_timers = timers is not None
        self._take_from_rocketmq()

    def _take_from_rocketmq(self) -> None:
        """Removes the state of waiting timers that RocketMQ has left. See `rocketmq_timers.py`."""
        folders = self.world.folders
        if rocketmq_timers.has_wheel(folders):
            rocketmq_timers.lead_to(folders, self._first_timer(), int(time.time() * 1000))
            rocketmq_timers.remove_wheel(folders)
            self.logger.info("RocketMQ's timer wheel was removed: its messages wait here")

    def _first_timer(self) -> int:
        """The queue offset of the first timer that is not known to be delivered."""
        first = self.timers.first_waiting(self.published.scan_from)
        entered = self.published.timer_next
        return entered if first is None else min(first, entered)

    def _find_delivered(self, position: int, end: int) -> None:
        """Collects in `known` the deliveries in the log from offset `position` to `end`."""
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
        """The log offset at which a killed process delivered the message, -1 if it did not.

        An offset is returned only once, because two equal messages have two deliveries.
        """
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
        """Counts a message of a level as done: it is delivered, or never will be."""
        self.progress.next[level] = max(self.progress.next[level], queue_offset + 1)
        self.changed = True

    def waiting(self, levels: list[DelayedQueue], timer_queue: DelayedQueue | None) -> int:
        """How many delayed messages wait, of all levels and timers."""
        done = zip(levels, self.progress.next, strict=False)
        count = sum(max(0, queue.end.load() - following) for queue, following in done)
        if timer_queue is not None:
            count += max(0, timer_queue.end.load() - self.progress.timer_next)
        return count + sum(bucket.waiting for bucket in self.timers.buckets.values())

    def scanned(self, end: int) -> None:
        """Notes that a delivery ends at log offset `end`. The next one lies behind it."""
        self.deliveries += 1
        self.progress.scan_from = max(self.progress.scan_from, end)
        self.changed = True

    def entered(self, timer_next: int) -> None:
        """Publishes that all timers below this queue offset are in the files of their minutes."""
        self.progress.timer_next = self.published.timer_next = timer_next
        self.file.publish(self.published)
        self.changed = True

    def publish(self, *, in_flight: bool, failed: bool) -> None:
        """Publishes `progress` for the next schedule process.

        Not while refused messages wait to be sent again, or while deliveries of a killed process
        are unrecognised: the progress would then skip messages, or count too few.
        """
        if not self.changed or failed or self.known:
            return
        if not in_flight:  # the next delivery will lie behind everything written so far
            self.progress.scan_from = max(self.progress.scan_from, self.control.load("wrote"))
        self.published = self.progress.copy()
        self.file.publish(self.published)
        self.changed = False
        fault("schedule:published")

    def tick(
        self,
        levels: Sequence[DelayedQueue],
        timers: DelayedQueue | None,
        now_ms: int,
        due_left: Callable[[int], bool],
    ) -> None:
        """Does once a second what is not urgent: `schedule_floor`, and durable progress.

        `due_left` says whether messages are due at a time that this process has not looked at yet.
        One of them may be in `known`.
        """
        if now_ms < self.tick_at and self.tick_at - now_ms <= _TICK_MS:
            return
        self.tick_at = now_ms + _TICK_MS
        if self.known and not due_left(now_ms):
            left = sum(map(len, self.known.values()))
            self.logger.info("deliveries of others in the log", messages=left)
            self.known.clear()
        self.changed = True  # the next publish moves `scan_from`: a scan of the log stays short
        self.note_floor(levels, timers)
        self._make_durable(timers, now_ms)

    def note_floor(self, levels: Sequence[DelayedQueue], timers: DelayedQueue | None) -> None:
        """Publishes `schedule_floor`: the log offset of the first message that still waits. Clean
        removes no file from there on.

        A power cut may take a delivery back, and then the message waits again. So the floor rises
        only when the deliveries that it counts are durable.
        """
        dispatched, wrote = self.control.load("dispatched"), self.control.load("wrote")
        needed = [self.timers.first_offset()]
        places = list(zip(levels, self.progress.next, strict=False))
        places += [(timers, self.progress.timer_next)] if timers is not None else []
        for queue, following in places:
            first = max(following, queue.start.load())
            if first < queue.end.load():
                needed.append(queue.entries(first, 1)[0][0])
        first_waiting = min((place for place in needed if place is not None), default=None)
        if first_waiting is not None and first_waiting < self.floor.load():
            self.floor.store(first_waiting)
            self.rising = None
        if self.rising is None:
            # Messages that come from now on lie at or behind `dispatched`.
            floor = dispatched if first_waiting is None else first_waiting
            self.rising = Rising(floor, wrote, self.deliveries)
        if self.control.load("flushed") >= self.rising.durable_at:
            still = first_waiting is None and self.rising.deliveries == self.deliveries
            self.floor.store(_NOTHING_WAITS if still else self.rising.floor)
            self.rising = None

    # -- durable

    def _make_durable(self, timers: DelayedQueue | None, now_ms: int) -> None:
        """Makes the published progress durable every 10 s, if it has moved and the log up to it is
        durable. A thread does the sync, because messages are due meanwhile.
        """
        if self.saving is not None:
            if self.saving.done():
                self._saved(now_ms)
            return
        self.has_timers = timers is not None
        if self.pending is None and now_ms >= self.durable_at and self._moved():
            self.pending = self.published.copy(), self._first_timer()
        if self.pending is None or self.control.load("flushed") < self.pending[0].scan_from:
            return
        self.durable_at = now_ms + _DURABLE_EVERY_MS
        self.saving = self.thread.submit(
            self._save, *self.pending, self.timers.take_unsynced(), now_ms
        )

    def _saved(self, now_ms: int) -> None:
        """Takes the result of the thread's save. A full disk is logged; other errors are raised."""
        assert self.saving is not None
        assert self.pending is not None
        saving, self.saving = self.saving, None
        pending, self.pending = self.pending, None
        error = saving.exception()
        if error is None:
            self.durable, self.first_timer = pending
            self.timers.drop_done(self.durable.scan_from, now_ms)
        elif isinstance(error, OSError) and disk_full(error):
            self.logger.error("cannot save the progress of delayed messages", error=str(error))
            self.timers.forget_synced()
        else:
            raise error

    def _moved(self) -> bool:
        """Whether a start after a power cut would miss something in the durable progress, or would
        have to scan much of the log.
        """
        last, now = self.durable, self.published
        if (last.timer_next, last.next) != (now.timer_next, now.next):
            return True
        if now.scan_from - last.scan_from >= _FAR_BYTES:
            return True
        if any(not bucket.waiting for bucket in self.timers.buckets.values()):
            return True
        return self.has_timers and self._first_timer() != self.first_timer

    def _save(self, progress: Progress, first_timer: int, minutes: list[int], now_ms: int) -> None:
        """Writes the durable progress, timers' files first, and RocketMQ's. Runs in the thread.

        The log must be durable up to `progress.scan_from`. Timers below queue offset `first_timer`
        are delivered there. Raises OSError.
        """
        self.timers.sync(minutes)
        self.file.make_durable(progress)
        if self.has_timers:
            rocketmq_timers.lead_to(self.world.folders, first_timer, now_ms)
        self.json_counter += 1
        used = max((level for level, n in enumerate(progress.next, 1) if n), default=0)
        used = max(used, len(self.world.settings.message_delay_level))
        delay_offsets.save(
            self.json_path,
            progress.next[:used],
            now_ms,
            self.json_counter,
            main_is_good=self.json_is_good,
        )
        self.json_is_good = True

    def save_at_stop(self, timers: DelayedQueue | None) -> None:
        """Makes the progress durable at a stop. Flush has not made its last sync at this point, so
        the log's file system is synced here.
        """
        now_ms = int(time.time() * 1000)
        self.has_timers = timers is not None
        if self.saving is not None:
            wait([self.saving])
            self._saved(now_ms)
        if not self._moved() or self.control.load("flush_error"):
            return
        pool = self.world.pool is not None
        if pool and self.control.load("committed") < self.published.scan_from:
            return  # the next start finds the rest in the log
        disk.sync_file_system(self.world.folders.commit_log)
        self.pending = self.published.copy(), self._first_timer()
        self.saving = self.thread.submit(
            self._save, *self.pending, self.timers.take_unsynced(), now_ms
        )
        wait([self.saving])
        self._saved(now_ms)
