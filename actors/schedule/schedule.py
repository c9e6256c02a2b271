"""schedule: delivers delayed messages into their topics when they are due.

Reads the queues of SCHEDULE_TOPIC_XXXX (one for each delay level, in the order of due times) and of
rmq_sys_wheel_timer (any due time; `store/delay/timers.py`). Sends the messages that are due through
a ring of its own. The only writer of `silomq/schedule`, of `silomq/timer/`, of `schedule_floor`, of
`config/delayOffset.json` and of `config/timercheck`.

The order is: publish a frame; read its answer; mark a timer's entry; publish the progress. After a
kill the next schedule process waits until append has answered every frame. Then it scans the log
from the published progress on for deliveries, and sends no message again that it finds there
(`store/delay/delays.py`).
"""

from __future__ import annotations

import time
from collections import deque

import msgspec

from ...conf.kinds import MAX_DELAY_LEVELS
from ...shm._memory import Mapping
from ...shm._words import Word, fault, wait_any
from ...shm.ring import DATA
from ...shm.ringwriter import RingWriter
from ...store.commitlog.log_reader import LogReader
from ...store.consumequeue.queue import QueueFiles
from ...store.delay import delays, levels
from ...store.delay.timers import Timers, Waiting
from ...store.delay.waiting_queue import DelayedQueue
from ...store.errors import IllegalMessage, StoreError
from ...store.names import SCHEDULE_TOPIC, TIMER_TOPIC
from ...store.record.ids import Host
from ...store.status import PutMessageStatus
from ..actor import OWN_SESSIONS, TICK_S, Actor
from ..goal_topics import NoTopic, find_slot
from .entering import Entering
from .state import State

_BATCH = 256
_IN_FLIGHT = 1024
_RESEND_MS = 100
_PARK_MS = 1000
_DRAIN_S = 2.0
_TIMER = -1  # in place of a level
# Append reads the clock when a batch begins, which may be before the frame arrives. No store time
# may be earlier than the due time.
_BATCH_MS = 2
_FOR_EVER = (PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED)


class Item(msgspec.Struct):
    """A message that is being delivered.

    `level` counts from 0, or is _TIMER; then `waiting` is the timer's entry. `queue_offset` is the
    message's place in its queue of delayed messages. `record` and `body` (its start and end) are
    what is sent to the queue `slot`. `at` is the frame's position in the ring, and `end` the ring
    position behind it. `at` is -1 for a message that needs no frame. `offset` is where the delivery
    lies in the log, -1 while that is not known.
    """

    level: int
    queue_offset: int
    waiting: Waiting | None
    record: bytes = b""
    body: tuple[int, int] = (0, 0)
    slot: int = -1
    at: int = -1
    end: int = 0
    offset: int = -1


class Schedule(Actor):
    """Delivers delayed messages until the store stops (RocketMQ: ScheduleMessageService)."""

    name = "schedule"

    def setup(self) -> None:
        settings, world = self.settings, self.world
        self.started = False
        session = world.sessions[OWN_SESSIONS[self.name]]
        memory = Mapping(session.ring, 0, DATA + session.capacity)
        self.ring = RingWriter(memory, session.capacity, session.bell, self.control, self.name)
        self.store_host = Host.of(settings.store_host, settings.store_port)
        self.queues = QueueFiles(
            world.folders.consume_queue, settings.mapped_file_size_consume_queue
        )
        self.log = LogReader(world.folders.commit_log, settings.mapped_file_size_commit_log)
        self.timers = Timers(world.folders.ours, self.beat)
        self.topics = self.control.word("topics")
        self.waiting = self.metrics.own("delayed_waiting")
        self.delivered = self.metrics.own("delayed_delivered")
        self.counts_at = 0.0  # when to count what waits, monotonic s
        self.levels: list[DelayedQueue] = []
        self.timer_queue: DelayedQueue | None = None
        self.in_flight: deque[Item] = deque()
        self.failed: list[Item] = []
        self.resend_at = 0
        self.parked: dict[int, int] = {}
        self._await_answers()
        if self.stopping:
            return
        self._open_queues()
        self.state = State(world, self.control, self.timers, self.logger, self._beat_now)
        self.state.take_over(self.levels, self.timer_queue)
        self.entering = Entering(self.timers, self.state, self.log, self.logger)
        for queue, following in zip(self.levels, self.state.progress.next, strict=False):
            queue.cursor = following
        self.state.note_floor(self.levels, self.timer_queue)
        self.started = True

    def _beat_now(self) -> bool:
        self.beat()
        return self.stopping

    def _await_answers(self) -> None:
        """Waits until append has answered all frames of a killed schedule process, even if append
        was replaced as well. With a pool, waits until commit has written their records to files.
        """
        while not self.stopping and (seen := self.ring.tail.load()) < self.ring.head:
            self.beat()
            self._check_ring()
            self.ring.ring_bell()
            self.ring.tail.wait(seen, 0.1)
        self.ring.reaped = self.ring.head
        if self.world.pool is not None:
            wrote, committed = self.control.load("wrote"), self.control.word("committed")
            while not self.stopping and (seen := committed.load()) < wrote:
                self.beat()
                committed.wait(seen, 0.1)

    def _check_ring(self) -> None:
        if self.ring.closed.load():
            raise StoreError("append has closed the ring of delayed messages")

    def _open_queues(self) -> None:
        """Opens the queues of the two topics, once the first delayed message has made the topic."""
        table = self.world.table
        if not self.levels and (topic := table.find(SCHEDULE_TOPIC)) is not None:
            # Also queues above the last level: messages wait there if the setting had more levels.
            self.levels = [
                DelayedQueue(self.queues, table, self.control, SCHEDULE_TOPIC, queue_id, slot)
                for queue_id, slot in enumerate(topic.slots[:MAX_DELAY_LEVELS])
            ]
        if self.timer_queue is None and (topic := table.find(TIMER_TOPIC)) is not None:
            self.timer_queue = DelayedQueue(
                self.queues, table, self.control, TIMER_TOPIC, 0, topic.slots[0]
            )

    # -- the loop

    def run(self) -> None:
        while self.started and not self.stopping:
            self.beat()
            words: list[Word] = [self.topics, self.ring.tail]
            topics = self.topics.load()
            if not self.levels or self.timer_queue is None:
                self._open_queues()
            words += [queue.arrival for queue in self.levels]
            words += [self.timer_queue.arrival] if self.timer_queue is not None else []
            seen = [topics, *(word.load() for word in words[1:])]  # SYNC: arrival observe
            wake_ms = self._turn()
            patience = min(TICK_S, max(0.0, wake_ms / 1000 - time.time()))
            wait_any(words, seen, patience)
        deadline = time.monotonic() + _DRAIN_S
        while self.in_flight and time.monotonic() < deadline:
            self.beat()
            seen_tail = self.ring.tail.load()
            if not self._reap():
                self.ring.tail.wait(seen_tail, 0.1)
        if self.started:
            self.state.publish(in_flight=bool(self.in_flight), failed=bool(self.failed))
            self.state.save_at_stop(self.timer_queue)

    def _turn(self) -> float:
        """Sends everything that is due now. Returns when (epoch ms) to look again."""
        self._check_ring()
        self._reap()
        now = int(time.time() * 1000) - _BATCH_MS
        wake = [now + 1000 * TICK_S]
        if self.failed:
            self._resend(now)
            wake.append(self.resend_at)
        else:
            wake += [self._deliver_level(level, now) for level in range(len(self.levels))]
            under_way = {item.waiting for item in self.in_flight}
            wake.append(self.entering.enter(self.timer_queue, under_way, now))
            wake.append(self._deliver_timers(min(now, self.entering.until_ms)))
        self._reap()
        self.state.publish(in_flight=bool(self.in_flight), failed=bool(self.failed))
        self.state.tick(self.levels, self.timer_queue, now, self._due_left)
        if time.monotonic() >= self.counts_at:
            self.counts_at = time.monotonic() + TICK_S
            self.waiting.store(self.state.waiting(self.levels, self.timer_queue))
        return min(wake) + _BATCH_MS

    def _deliver_level(self, level: int, now: int) -> float:
        """Sends the messages of a level that are due. Returns when (epoch ms) to look again.

        Infinity means that time alone changes nothing: a new message or the ring's tail, on which
        `run` sleeps too, must come first.
        """
        queue = self.levels[level]
        parked = self.parked.get(level, 0)
        if parked > now:
            return parked
        for _ in range(_BATCH):
            entry = queue.peek()
            if entry is None:
                return float("inf")
            offset, size, _ = entry
            due = self._due_ms(level, entry, now)
            if due > now:
                return due
            if len(self.in_flight) >= _IN_FLIGHT:
                return float("inf")
            item = Item(level, queue.cursor, None)
            try:
                if not self._send(item, offset, size):
                    return float("inf")
            except NoTopic as error:
                self.logger.error(
                    "a delay level waits for a topic", level=level + 1, why=str(error)
                )
                self.parked[level] = now + _PARK_MS
                return now + _PARK_MS
            queue.cursor += 1
        return now

    def _due_ms(self, level: int, entry: tuple[int, int, int], now: int) -> int:
        """When the message behind an entry of this level's queue is due, epoch ms. A level above
        the last counts as the last.
        """
        offset, size, due = entry
        delays_ms = self.settings.message_delay_level
        delay_ms = delays_ms[min(level, len(delays_ms) - 1)]
        if levels.is_believed(due, now, delay_ms):
            return due
        record = self.entering.record(offset, size)
        return now if record is None else levels.due_ms(record.store_timestamp, now, delay_ms)

    def _due_left(self, now: int) -> bool:
        """Whether messages are due that this process has not looked at yet, or timers that are not
        in memory yet.
        """
        timer = self.timers.next_due_ms()
        if timer is not None and timer <= now:
            return True
        heads = enumerate(queue.peek() for queue in self.levels)
        return any(
            entry is not None and self._due_ms(level, entry, now) <= now for level, entry in heads
        )

    def _deliver_timers(self, now: int) -> float:
        """Sends the timers that are due. Returns when (epoch ms) to look again."""
        timers = self.timers
        if timers.buckets:
            timers.look_ahead(now)
        for _ in range(_BATCH):
            if not timers.near or timers.near[0].due_ms > now:
                break
            if len(self.in_flight) >= _IN_FLIGHT:
                return float("inf")
            entry = timers.pop()
            try:
                sent = self._send(Item(_TIMER, entry.queue_offset, entry), entry.offset, entry.size)
            except NoTopic as error:
                self.logger.error("a timer waits for a topic", why=str(error))
                timers.put_back(entry._replace(due_ms=now + _PARK_MS))
                continue
            if not sent:
                timers.put_back(entry)
                return float("inf")
        following = timers.next_due_ms()
        return float("inf") if following is None else following

    # -- one message

    def _send(self, item: Item, offset: int, size: int) -> bool:
        """Sends a message, unless it was delivered already or cannot be delivered: then it only
        counts as done. False if the ring has no room. Raises NoTopic when its topic is missing now.
        """
        item.end = self.ring.head
        record = self.entering.record(offset, size)
        if record is None:
            self.in_flight.append(item)
            return True
        item.offset = self.state.delivered_at(record)
        if item.offset >= 0:
            self.in_flight.append(item)
            return True
        why, settings = "", self.settings
        target = delays.destination(record)
        if target is None:
            why = "it does not say its topic and queue"
        else:
            topic, queue_id = target
            try:
                found = find_slot(self.world, topic, queue_id)
                item.slot = found[0]
                light = delays.light_queues(record) if settings.sends_to_light_queues else ()
                for name in light:
                    find_slot(self.world, name, 0)
                item.record, item.body = delays.restore(
                    record,
                    topic,
                    found[1],
                    self.store_host,
                    light=len(light),
                    record_crc=settings.enabled_append_prop_crc,
                )
            except IllegalMessage as error:
                why = str(error)
        if not why and len(item.record) > self.ring.largest_record:
            why = f"its record has {len(item.record)} bytes"
        if why:
            self.logger.error("a delayed message cannot be delivered", offset=offset, why=why)
            self.in_flight.append(item)
            return True
        return self._put(item)

    def _put(self, item: Item) -> bool:
        frame = self.ring.put(item.record, item.body, item.slot)
        if frame is None:
            return False
        item.at, item.end = frame
        self.in_flight.append(item)
        fault("schedule:put")
        return True

    def _resend(self, now: int) -> None:
        """Sends refused messages again, once all other frames are answered.

        Refusals that end up here concern the whole store: a full disk, a failed sync.
        """
        if self.in_flight or now < self.resend_at:
            return
        items, self.failed = self.failed, []
        for i, item in enumerate(items):
            if not self._put(item):
                self.failed = items[i:]
                return

    def _reap(self) -> bool:
        """Reads the answers that append has published. Whether there were any."""
        tail = self.ring.tail.load()  # SYNC: ring-tail observe
        marks: list[tuple[Waiting, int]] = []
        some = False
        while self.in_flight and self.in_flight[0].end <= tail:
            item = self.in_flight.popleft()
            some = True
            if item.at >= 0:
                status, item.offset, _ = self.ring.result(item.at)
                self.ring.reaped = item.end
                if status in _FOR_EVER:
                    self.logger.error("a delayed message was refused", status=status)
                elif status != PutMessageStatus.PUT_OK:
                    self.failed.append(item)
                    self.resend_at = int(time.time() * 1000) + _RESEND_MS
                    continue
                else:
                    self.delivered.add(1)
            if item.waiting is not None:
                marks.append((item.waiting, max(0, item.offset)))
            else:
                self.state.done(item.level, item.queue_offset)
            if item.offset >= 0:
                self.state.scanned(item.offset + len(item.record))
        if marks:
            fault("schedule:answered")
            self.timers.mark(marks)
            fault("schedule:marked")
        if not self.in_flight:
            self.ring.reaped = self.ring.head
        return some
