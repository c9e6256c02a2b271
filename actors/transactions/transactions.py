"""transactions: obeys decisions about transactions, and checks those that nobody has decided.

Reads the half queue and the queue of decisions, and the op queue when it begins. Sends through a
ring of its own. The only writer of `silomq/transactions`, `trans_floor`, `trans_half_next` and
`trans_op_next`.

One turn takes some decisions and some checks that are due. It puts what they lead to, and waits for
the answers. Then it puts op records that call the halves done, and waits again. Only then it
publishes its progress. A successor finds what lies between in the log (`store/transactions`).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from ...shm._words import Word, wait_any
from ...store.errors import IllegalMessage
from ...store.names import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from ...store.record.copies import body_span
from ...store.record.format import Record
from ...store.record.ids import Host
from ...store.status import PutMessageStatus
from ...store.transactions import half as halves
from ...store.transactions.book import Book
from ...store.transactions.decisions import Decision, read_decision
from ...store.transactions.half import Half, NotAHalf, read_half
from ...store.transactions.ops import encode_op, op_bodies, read_op
from ..actor import OWN_SESSIONS, TICK_S, Actor
from ..goal_topics import NoTopic, find_slot
from .own_ring import Frame, Interrupted, OwnRing, Placed
from .queues import Queues
from .refused import Refused
from .state import State

_BATCH: Final = 256
_RETRY_MS: Final = 100
_PARK_MS: Final = 1000
_CATCH_UP_MS: Final = 20
_HOUR_MS: Final = 3_600_000
#: The store will never take the record.
_FOR_EVER: Final = (PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED)


class Job(NamedTuple):
    """A record to put for a transaction. `decided` is the place of the decision that asks for it,
    -1 for a check that is due. With `again` the record is a half once more.
    """

    half: Half
    frame: Frame
    decided: int
    again: bool = False


class Transactions(Actor):
    """Ends and checks transactions until the store stops (RocketMQ: TransactionalMessageServiceImpl
    and EndTransactionProcessor).
    """

    name = "transactions"

    def setup(self) -> None:
        settings, world = self.settings, self.world
        self.book = Book(0, settings.transaction_timeout_ms, settings.transaction_check_interval_ms)
        self.caught_up = False
        self.retry_at = 0
        #: Transactions that have ended but for their op record, by identity.
        self.to_op: dict[bytes, Half] = {}
        #: Transactions whose older halves no op record names yet.
        self.stale: dict[bytes, Half] = {}
        self.store_host = Host.of(settings.store_host, settings.store_port)
        self.topics = self.control.word("topics")
        self.queues = Queues(world, self.logger)
        self.refused = Refused(self.logger)
        session = world.sessions[OWN_SESSIONS[self.name]]
        self.ring = OwnRing(session, self.control, self.name, self._beat_now)
        self.started = self.ring.settle()
        if not self.started:
            return
        #: What was in the log when this process began must be in the queues before it acts.
        self.begin = self.control.load("wrote")
        self.state = State(world, self.control, self.logger)
        self.queues.open()
        if self.queues.halves is None:
            self.state.nothing_waits()

    def _beat_now(self) -> bool:
        self.beat()
        return self.stopping

    def run(self) -> None:
        try:
            while self.started and not self.stopping:
                self.beat()
                words, seen = self._watched()
                wake_ms = self._turn()
                patience = min(TICK_S, max(0.0, wake_ms / 1000 - time.time()))
                wait_any(words, seen, patience)
        except Interrupted:
            self.logger.warning("append does not answer: transactions go on at the next start")
            return
        if self.started and self.caught_up:
            self._note()
            self.state.save_at_stop(self.book)

    def _watched(self) -> tuple[list[Word], list[int]]:
        """The words on which the process sleeps, and what they are now. Opens new queues."""
        topics = self.topics.load()
        self.queues.open()
        found = (self.queues.halves, self.queues.decisions)
        arrivals = [queue.arrival for queue in found if queue is not None]
        # SYNC: arrival observe
        return [self.topics, *arrivals], [topics, *(word.load() for word in arrivals)]

    def _turn(self) -> float:
        """Does what is due now. Returns when (epoch ms) to look again."""
        now = int(time.time() * 1000)
        if self.queues.halves is None:
            return float("inf")
        if not self.caught_up:
            if self.control.load("dispatched") < self.begin:
                return now + _CATCH_UP_MS
            self._take_over()
        if now < self.retry_at <= now + _PARK_MS:
            return self.retry_at
        self.retry_at = 0
        self._settle_ops(now)
        if self.retry_at:
            return self.retry_at
        decided = self._read_decisions()
        due = self.book.due(now, _BATCH)
        if decided or due:
            self._work(decided, due, now)
        self._note()
        self.state.tick(self.book, now)
        self.refused.say()
        if self.retry_at:
            return self.retry_at
        more = len(decided) == _BATCH or len(due) == _BATCH
        return now if more else self.book.next_due_ms

    def _note(self) -> None:
        queue = self.queues.decisions
        self.state.note(
            self.book,
            self.state.progress.decision_next if queue is None else queue.cursor,
            settled=not self.to_op,
        )

    # -- taking over

    def _take_over(self) -> None:
        """Fills the book from the queues, and finishes what a killed process had begun."""
        state, queues = self.state, self.queues
        state.after_rocketmq()
        assert queues.halves is not None
        progress = state.progress
        queues.halves.cursor = self.book.following = queues.halves.clamp(progress.half_next)
        done: set[int] = set()
        if queues.ops is not None:
            queues.ops.cursor = queues.ops.clamp(progress.op_next)
            for place, offset, size in queues.read(queues.ops, queues.ops.end.load()):
                self.beat()
                record = queues.record(offset, size)
                named = [] if record is None else read_op(record)
                state.op_seen(place, named)
                done.update(queue_offset for queue_offset in named)
        if queues.decisions is not None:
            queues.decisions.cursor = queues.decisions.clamp(progress.decision_next)
        self._read_halves(queues.halves.end.load(), done)
        self.stale = {half.identity: half for half in self.book if half.older}
        floor = self.book.floor
        if floor is not None:
            begin = max(progress.scan_from, floor)
            for offset, record in state.find_finals(begin, self._filed(), self._beat_now):
                self._finish(offset, record)
        self.caught_up = True
        if len(self.book):
            self.logger.info("open transactions", count=len(self.book), ended=len(self.to_op))

    def _filed(self) -> int:
        return self.control.load(self.world.filed)

    def _finish(self, offset: int, record: Record) -> None:
        """Notes that a killed process had put the final record of the half at a log offset."""
        source = self.queues.record_at(offset, self._filed())
        if source is None:
            return
        try:
            half = self.book.same(read_half(source))
        except NotAHalf:
            return
        goals = (half.topic, TRANS_CHECK_MAX_TIME_TOPIC) if half is not None else ()
        same = (source.body_crc, source.born_timestamp, source.properties.get("UNIQ_KEY"))
        found = (record.body_crc, record.born_timestamp, record.properties.get("UNIQ_KEY"))
        # Any producer may write a number into its record.
        if half is not None and record.topic in goals and same == found:
            self.to_op[half.identity] = half

    # -- reading

    def _read_halves(self, end: int, done: set[int]) -> None:
        """Adds the halves up to `end` to the book, but for those that are done."""
        queue = self.queues.halves
        for place, offset, size in self.queues.read(queue, end):
            self.book.following = place + 1
            if place in done or place in self.book.done:
                self.book.done.discard(place)
                continue
            self.beat()
            record = self.queues.record(offset, size)
            if record is None:
                continue
            try:
                half = read_half(record)
            except NotAHalf as error:
                self.refused.note("no half", error.why)
                continue
            self.book.add(dataclasses.replace(half, queue_offset=place, offset=offset, size=size))
        if queue is not None:
            self.book.following = queue.cursor

    def _read_decisions(self) -> list[tuple[int, Decision, Half]]:
        """Up to 256 decisions that are to be obeyed: the place of each, and its transaction. All
        halves that they may name have been read.
        """
        queues = self.queues
        assert queues.halves is not None
        end = 0 if queues.decisions is None else queues.decisions.end.load()
        self._read_halves(queues.halves.end.load(), set())
        if queues.decisions is None:
            return []
        taken: set[bytes] = set(self.to_op)
        found: list[tuple[int, Decision, Half]] = []
        for place, offset, size in queues.read(queues.decisions, end):
            self.beat()
            record = queues.record(offset, size)
            decision = None if record is None else read_decision(record)
            if decision is None:
                self.refused.note("no decision", f"the record at offset {offset}")
            elif (half := self._transaction(decision)) is not None:
                if half.identity not in taken:
                    found.append((place, decision, half))
                taken.add(half.identity)
            if len(found) == _BATCH:
                break
        return found

    def _transaction(self, decision: Decision) -> Half | None:
        """The open transaction that a decision is about. None, with a line in the log, if there is
        none, or the decision is not its producers'.
        """
        half = self.book.at(decision.offset)
        where = f"log offset {decision.offset}, group {decision.group[:255]!a}"
        queue_offset = -1 if half is None else half.queue_offset
        if half is None:
            record = self.queues.record_at(decision.offset, self._filed())
            try:
                named = None if record is None else read_half(record)
            except NotAHalf:
                named = None
            if named is None:
                self.refused.note("there is no half", where)
                return None
            queue_offset = named.queue_offset
            if not decision.group or named.group != decision.group:
                self.refused.note("the half is of another group", where)
                return None
            half = self.book.same(named)
        if queue_offset != decision.queue_offset:
            self.refused.note("the half is not at this queue offset", where)
            return None
        if half is None:
            self.refused.note("the transaction has ended", where)
        elif not decision.group or half.group != decision.group:
            self.refused.note("the half is of another group", where)
            return None
        return half

    # -- doing

    def _work(
        self,
        decided: Sequence[tuple[int, Decision, Half]],
        due: Sequence[Half],
        now: int,
    ) -> None:
        """Puts what decisions and checks lead to, then the op records."""
        jobs: list[Job] = []
        ended: list[Half] = []
        for place, decision, half in decided:
            if not decision.commit:
                ended.append(half)
            elif (job := self._final(place, half, now)) is not None:
                jobs.append(job)
        decided_now = {half.identity for _, _, half in decided} | set(self.to_op)
        for half in due:
            if half.identity in decided_now:
                self.book.put_off(half, now + _PARK_MS)
            elif (job := self._check(half, now)) is not None:
                jobs.append(job)
        for job, placed in zip(jobs, self.ring.put([job.frame for job in jobs]), strict=True):
            if placed.stored:
                self._stored(job, placed, now)
            else:
                self._was_refused(job, placed, now)
        self.to_op.update((half.identity, half) for half in ended)
        self._settle_ops(now)

    def _final(self, place: int, half: Half, now: int) -> Job | None:
        """The committed message. None if it cannot be put: the transaction stays open then."""
        record = self.queues.record(half.offset, half.size)
        if record is None:
            return None
        try:
            slot, queue_id = find_slot(self.world, half.topic, half.queue_id)
            made = halves.final(
                record, half.topic, queue_id, self.store_host, record_crc=self._record_crc
            )
        except NoTopic as error:
            self.logger.error("a transaction waits for a topic", why=str(error))
            self._again(place, now + _PARK_MS)
            return None
        except IllegalMessage as error:
            self.logger.error("cannot be committed", offset=half.offset, why=error.why)
            return None
        return self._job(half, Frame(*made, slot), place)

    def _check(self, half: Half, now: int) -> Job | None:
        """The half once more, or its copy among those that were given up."""
        record = self.queues.record(half.offset, half.size)
        if record is None:
            self.to_op[half.identity] = half  # nothing can come of it
            return None
        old = now - half.born_ms > _HOUR_MS * self.settings.file_reserved_time_h
        try:
            if old or half.checks >= self.settings.transaction_check_max:
                slot, _ = find_slot(self.world, TRANS_CHECK_MAX_TIME_TOPIC, 0)
                made = halves.discarded(
                    record, TRANS_CHECK_MAX_TIME_TOPIC, self.store_host,
                    record_crc=self._record_crc,
                )  # fmt: skip
                self.logger.warning(
                    "a transaction that nobody decides is given up", offset=half.offset
                )
                return self._job(half, Frame(*made, slot), -1)
            slot, _ = find_slot(self.world, TRANS_HALF_TOPIC, 0)
            made = halves.checked(
                record, half.checks + 1, self.store_host, record_crc=self._record_crc
            )
            return self._job(half, Frame(*made, slot), -1, again=True)
        except NoTopic as error:
            self.logger.error("a check waits for a topic", why=str(error))
        except IllegalMessage as error:
            self.logger.error("cannot be checked", offset=half.offset, why=error.why)
        self.book.put_off(half, now + self.settings.transaction_check_interval_ms)
        return None

    @property
    def _record_crc(self) -> bool:
        return self.settings.enabled_append_prop_crc

    def _job(self, half: Half, frame: Frame, place: int, *, again: bool = False) -> Job | None:
        if len(frame.record) > self.ring.largest_record:
            self.logger.error("is too large", offset=half.offset, bytes=len(frame.record))
            return None
        return Job(half, frame, place, again)

    def _stored(self, job: Job, placed: Placed, now: int) -> None:
        half = job.half
        if not job.again:
            self.to_op[half.identity] = half
            return
        following = dataclasses.replace(
            half,
            queue_offset=placed.queue_offset,
            offset=placed.offset,
            size=len(job.frame.record),
            checks=half.checks + 1,
            stored_ms=now,
            older=[],
        )
        self.book.add(following)
        self.stale[half.identity] = following

    def _was_refused(self, job: Job, placed: Placed, now: int) -> None:
        """The store takes no messages now, or never takes this one."""
        if placed.status not in _FOR_EVER:
            self.retry_at = now + _RETRY_MS
            if job.decided >= 0:
                self._again(job.decided, self.retry_at)
            else:
                self.book.put_off(job.half, self.retry_at)
            return
        self.logger.error("was refused", offset=job.half.offset, status=placed.status)
        if job.decided < 0:
            wait = self.settings.transaction_check_interval_ms
            self.book.put_off(job.half, now + wait)

    def _again(self, place: int, when: int) -> None:
        """Reads decisions again from a place in their queue. Those that were obeyed meanwhile find
        no open transaction.
        """
        queue = self.queues.decisions
        assert queue is not None
        queue.cursor = min(queue.cursor, place)
        self.retry_at = when

    def _settle_ops(self, now: int) -> None:
        """Puts op records for all halves that are done, and closes what has ended."""
        for identity, half in list(self.stale.items()):
            if identity in self.to_op or not half.older or self.book.same(half) is not half:
                del self.stale[identity]
        named = [n for half in self.to_op.values() for n in half.queue_offsets]
        named += [n for half in self.stale.values() for n in half.older]
        if not named:
            return
        bodies = list(op_bodies(named))
        try:
            slot, _ = find_slot(self.world, TRANS_OP_HALF_TOPIC, 0)
        except NoTopic as error:
            self.logger.error("an op record waits for its topic", why=str(error))
            self.retry_at = now + _PARK_MS
            return
        frames = []
        for body, _ in bodies:
            record = encode_op(body, now, self.store_host, record_crc=self._record_crc)
            frames.append(Frame(record, body_span(self.store_host, self.store_host, body), slot))
        done: set[int] = set()
        for (_, held), placed in zip(bodies, self.ring.put(frames), strict=True):
            if placed.stored:
                self.state.op_seen(placed.queue_offset, held)
                done.update(held)
            else:
                self.retry_at = now + _RETRY_MS
        for identity, half in list(self.to_op.items()):
            if done.issuperset(half.queue_offsets):
                self.book.end(half)
                del self.to_op[identity]
        for half in self.stale.values():
            self.book.superseded(half, done)
