"""transactions: obeys decisions about transactions, and checks those that nobody has decided.

Reads the half queue and the queue of decisions, and the op queue when it begins. Sends through a
ring of its own. The only writer of `silomq/transactions`, `trans_floor`, `trans_half_next` and
`trans_op_next`.

One turn takes some halves, some decisions and some checks that are due. It puts what they lead to,
and waits for the answers. Then it puts op records that call the halves done, and waits again. Only
then it publishes its progress. A successor finds what lies between in the log
(`store/transactions`). What cannot be done now waits by itself, and is tried again.
"""

from __future__ import annotations

import time
from collections import ChainMap
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from ...shm._words import Word, wait_any
from ...store.errors import IllegalMessage
from ...store.record.ids import Host
from ...store.status import PutMessageStatus
from ...store.transactions.book import Book
from ...store.transactions.half import Half
from ...store.transactions.refused import Refused
from ..actor import OWN_SESSIONS, TICK_S, Actor
from ..goal_topics import NoTopic
from .goals import PAUSE_MS, Goals
from .making import Job, Lost, Making, NotWritten
from .own_ring import Interrupted, OwnRing, Placed
from .queues import Queues
from .reading import Reading
from .settling import RETRY_MS, Settling
from .state import State
from .take_over import take_over
from .waiting import Decided, Waiting

_BATCH: Final = 256
_CATCH_UP_MS: Final = 20
#: Bytes of records that are in memory for one put.
_MOST_BYTES: Final = 8 << 20
#: The store will never take the record, unless its topic was deleted at that moment.
_FOR_EVER: Final = (PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED)
_MOST_REFUSALS: Final = 5


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
        session = world.sessions[OWN_SESSIONS[self.name]]
        self.ring = OwnRing(session, self.control, self.name, self._beat_now)
        self.started = self.ring.settle()
        if not self.started:
            return
        #: What was in the log when this process began must be in the queues before it acts.
        self.begin = self.control.load("wrote")
        self.topics = self.control.word("topics")
        self.open = self.metrics.own("trans_open")
        self.committed = self.metrics.own("trans_committed")
        self.rolled_back = self.metrics.own("trans_rolled_back")
        self.checks = self.metrics.own("trans_checks")
        self.state = State(world, self.control, self.logger)
        self.queues = Queues(world, self.logger, self.ring.largest_record)
        self.refused = Refused(self.logger)
        self.reading = Reading(self.book, self.queues, self.refused, self._beat_now)
        self.waiting = Waiting()
        goals = Goals(world, self.beat)
        host = Host.of(settings.store_host, settings.store_port)
        self.making = Making(self.queues, goals, self.ring, host, settings, self.logger)
        self.settling = Settling(
            self.book, goals, self.ring, host, settings=settings, logger=self.logger
        )
        self.queues.find()
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
        self.queues.find()
        found = (self.queues.halves, self.queues.decisions)
        arrivals = [queue.arrival for queue in found if queue is not None]
        # SYNC: arrival observe
        return [self.topics, *arrivals], [topics, *(word.load() for word in arrivals)]

    def _turn(self) -> float:
        """Does what is due now. Returns when (epoch ms) to look again."""
        now = _now_ms()
        if self.queues.halves is None:
            return float("inf")
        if not self.caught_up and not self._take_over():
            return now + _CATCH_UP_MS
        if now < self.retry_at <= now + PAUSE_MS:
            return self.retry_at
        self.retry_at = self.settling.settle(self.state, now)
        if self.retry_at:
            return self.retry_at
        now = _now_ms()  # append may have been away for a while
        _, more_halves = self.reading.halves(now)
        decided = self.waiting.take(now, _BATCH)
        now_tried: dict[bytes, Any] = {one.identity: one for one in decided}
        taken = ChainMap(now_tried, self.settling.ended, self.waiting.decided)
        read, more_decisions = self.reading.decisions(taken, _BATCH)
        decided += read
        due = self.book.due(now, _BATCH)
        self._work(decided, due, now)
        self._note()
        self.open.store(len(self.book))
        self.state.tick(self.book, now)
        self.refused.say()
        more = more_halves or more_decisions or len(due) == _BATCH
        return now if more and not self.retry_at else self._next_ms()

    def _next_ms(self) -> float:
        """When there is something to do that no arrival announces, epoch ms."""
        return self.retry_at or min(self.book.next_due_ms, self.waiting.next_ms)

    def _note(self) -> None:
        queue = self.queues.decisions
        following = self.state.progress.decision_next if queue is None else queue.cursor
        self.state.note(self.book, self.waiting.first(following), settled=not self.settling.ended)

    def _take_over(self) -> bool:
        """Fills the book, and finishes what a killed process had begun. False if the queues do not
        have all of the log yet, or the process is to end.
        """
        self.state.something_waits()
        if self.control.load("dispatched") < self.begin:
            return False
        self.state.after_rocketmq()
        end = self.control.load(self.world.filed)
        least = self.control.load("min_offset")
        ended = take_over(self.reading, self.state, self.world.log, (least, end), self._beat_now)
        if ended is None:
            return False
        self.settling.ended.update(dict.fromkeys(ended))
        self.caught_up = True
        if len(self.book):
            self.logger.info("open transactions", count=len(self.book), ended=len(ended))
        return True

    # -- doing

    def _work(self, decided: Sequence[Decided], due: Sequence[Half], now: int) -> None:
        """Puts what decisions and checks lead to, then the op records."""
        batch: list[Job] = []
        for job in self._jobs(decided, due, now):
            batch.append(job)
            if sum(len(one.frame.record) for one in batch) >= _MOST_BYTES:
                self._put(batch, now)
                batch = []
        self._put(batch, now)
        rolled_back = (one.identity for one in decided if not one.commit)
        self.settling.ended.update(dict.fromkeys(rolled_back))
        self.rolled_back.add(sum(not one.commit for one in decided))
        self.retry_at = max(self.retry_at, self.settling.settle(self.state, now))

    def _jobs(self, decided: Sequence[Decided], due: Sequence[Half], now: int) -> Iterator[Job]:
        """The records to put. A transaction has one at most."""
        for one in decided:
            if one.commit and (job := self._final(one, now)):
                yield job
        busy = {one.identity for one in decided}.union(self.settling.ended)
        for half in due:
            if half.identity in busy or half.identity in self.waiting.decided:
                self.book.put_off(half, now + PAUSE_MS)
            elif job := self._checked(half, now):
                yield job
        busy.update(half.identity for half in due)
        for half in self.book.behind(_BATCH):
            if half.identity not in busy and (job := self._moved(half, now)):
                yield job

    def _put(self, jobs: Sequence[Job], now: int) -> None:
        for job, placed in zip(jobs, self.ring.put([job.frame for job in jobs]), strict=True):
            if placed.stored:
                self._stored(job, placed, now)
            else:
                self._was_refused(job, placed, now)

    def _final(self, decided: Decided, now: int) -> Job | None:
        """The committed message. None if it cannot be put: the transaction stays open then."""
        half = self.book.find(decided.identity)
        if half is None:
            return None
        try:
            return self.making.final(decided, half, now)
        except NoTopic as error:
            self.logger.error("a transaction waits for a topic", why=str(error))
            self.waiting.add(decided, now + PAUSE_MS)
        except NotWritten:
            self.waiting.add(decided, now + PAUSE_MS)
        except IllegalMessage as error:
            self._cannot_be_committed(half, error.why)
        except Lost:
            self.settling.ended[half.identity] = None
        return None

    def _checked(self, half: Half, now: int) -> Job | None:
        """What a check puts. None if nothing can be put now."""
        try:
            if half.copy_of >= 0:
                return self.making.moved(half, half.checks, now)
            return self.making.check(half, now)
        except NoTopic as error:
            self.logger.error("a check waits for a topic", why=str(error))
            self.book.put_off(half, now + PAUSE_MS)
        except NotWritten:
            self.book.put_off(half, now + PAUSE_MS)
        except IllegalMessage as error:
            self._cannot_be_checked(half, error.why, now)
        except Lost:
            self.settling.ended[half.identity] = None
        return None

    def _moved(self, half: Half, now: int) -> Job | None:
        """The half once more, because it holds the progress back. Its next check, which is due
        some time, deals with one that cannot be moved.
        """
        try:
            return self.making.moved(half, half.checks, now)
        except (NoTopic, IllegalMessage, NotWritten, Lost):
            return None

    def _cannot_be_committed(self, half: Half, why: str) -> None:
        self.logger.error("cannot be committed", offset=half.offset, why=why)

    def _cannot_be_checked(self, half: Half, why: str, now: int) -> None:
        """Gives up a transaction whose half cannot be put once more. If its copy cannot be put
        either, the half stays in the log, and nobody is asked again.
        """
        most = self.settings.transaction_check_max
        self.logger.error("cannot be checked", offset=half.offset, why=why)
        if half.checks >= most:
            self.settling.ended[half.identity] = None
            return
        half.checks, half.copy_of = most, -1
        self.book.put_off(half, now)

    def _stored(self, job: Job, placed: Placed, now: int) -> None:
        half = job.half
        if not job.again:
            self.settling.ended[half.identity] = None
            (self.rolled_back if job.decided is None else self.committed).add(1)
            return
        self.checks.add(int(job.checks > half.checks))
        following = replace(
            half,
            queue_offset=placed.queue_offset,
            offset=placed.offset,
            size=len(job.frame.record),
            checks=job.checks,
            stored_ms=now,
            copy_of=-1,
            older=[],
        )
        self.book.add(following, now)

    def _was_refused(self, job: Job, placed: Placed, now: int) -> None:
        """The store takes no messages now, or never takes this one."""
        half, decided = job.half, job.decided
        if placed.status not in _FOR_EVER:
            self.retry_at = now + RETRY_MS
            if decided is not None:
                self.waiting.add(decided, self.retry_at)
            elif half.due_ms < 0:
                self.book.put_off(half, self.retry_at)
            return
        why = f"append refused the record: {PutMessageStatus(placed.status).name}"
        if decided is None:
            self._cannot_be_checked(half, why, now)
        elif decided.refusals < _MOST_REFUSALS:
            self.waiting.add(decided._replace(refusals=decided.refusals + 1), now + PAUSE_MS)
        else:
            self._cannot_be_committed(half, why)


def _now_ms() -> int:
    return int(time.time() * 1000)
