"""`PopReader`: pops, acknowledges and postpones for one member of a consumer group that pops.

It has the methods of `GroupReader` that `GroupConsumer` calls. The store leases messages to it
(`actors/registry/pops.py`), and it reads them in the mapped files. Acknowledgements that need not
be heard at once go along with the next pop.
"""

from __future__ import annotations

import contextlib
import mmap
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from ...shm._words import OwnedWord, values, wait_any
from ...shm.bell import Reason
from ...shm.protocol.pop_answers import PoppedLease
from ...shm.protocol.pops import MOST_POPPED, MOST_SETTLED, Look, Pop, Settle, Settling
from ...shm.protocol.request import Answered, Request
from ...store.errors import StoreError
from .._bell import Bell
from ..consuming.message_view import MessageView
from ..consuming.store_view import StoreView
from ..consuming.wanted_columns import WantedColumns
from ..errors import StoreClosed
from ..liveness import Liveness
from ..producing.send_result import SendResult
from ..session import Connection, HungUp
from .group_reader import TICK_S
from .lease_reader import LeaseReader, with_times
from .popped_batches import batch_of, popped_parts
from .popped_messages import (
    ACKNOWLEDGED,
    UNSEEN,
    HandedOut,
    LeaseName,
    Popped,
    PoppedPart,
    Rows,
    Settlings,
    after_ms,
    not_out,
    place_of,
    popped,
    size_of,
)
from .retry import Returns
from .subscription import Selection, Subscription, filter_expressions

if TYPE_CHECKING:
    import pyarrow as pa

    from ._assigned_queue import AssignedQueue

#: An iteration pops so many messages ahead, and its acknowledgements wait so long (s).
_AHEAD, _ACK_S = 32, 0.1
_BURY_MS = 30_000  # so long a message is leased that goes to the dead letters


class PopReader:
    """Pops as a member of a group. `GroupConsumer` explains the arguments and errors."""

    missed = 0

    def __init__(
        self,
        store: str,
        group: str,
        subscribe: Subscription,
        *,
        start: Literal["earliest", "latest"],
        invisible_ms: int,
        max_reconsume_times: int | None,
        check_crc: bool,
    ) -> None:
        self.store = store
        self.group = group
        self._invisible_ms = invisible_ms
        self._start = start
        self._lock = threading.RLock()
        filters = filter_expressions(subscribe)
        self._selections = {topic: Selection(*wanted) for topic, wanted in filters.items()}
        self.out = HandedOut()
        self._ahead: deque[Popped] = deque()
        self.settlings = Settlings()
        self._turn = random.randrange(1 << 20)  # noqa: S311 - members begin at different topics
        self._returns = Returns(store, group)
        self._closed = False
        self._error: StoreError | None = None  # of a message that could not be read
        self._bell: Bell | None = None
        self._own = OwnedWord(mmap.mmap(-1, mmap.PAGESIZE), 0)
        self._own_times = max_reconsume_times
        self.max_reconsume_times = max_reconsume_times or 0
        self._link = Connection(store, client="GroupConsumer")
        self._liveness = Liveness(
            self._link, f"the store at {self._link.shown} was killed, or ended this session"
        )
        try:
            self._view = StoreView(self._link, check_crc=check_crc)
            for topic in self._selections:
                self._link.request(Look(group, topic, -1, start=start))
            self._leases = LeaseReader(self._link, self._view, self._selections)
        except BaseException:
            self._closed = True
            self._link.close()
            raise

    # -- what GroupConsumer asks

    @property
    def lock(self) -> threading.RLock:
        """Guards everything here. In a forked child it may be held for ever: ForkedChild."""
        self.check_process()
        return self._lock

    @property
    def queues(self) -> list[AssignedQueue]:
        """None is assigned to a member that pops."""
        return []

    def check_process(self) -> None:
        """Raises ForkedChild in a forked child of the process that opened this reader."""
        self._link.check_process()

    @property
    def is_open(self) -> bool:
        """Whether `close` was not called, and this process is no forked child."""
        return not (self._closed or self._link.forked)

    def poll(self, limit: int, timeout: float, max_bytes: int = sys.maxsize) -> list[MessageView]:
        """Up to `limit` messages, as `GroupConsumer.poll`."""
        with self.lock:
            self._give_back_ahead()
        found = self.pop_parts(limit, timeout, max_bytes)
        with self.lock:
            self.out.add_parts(found)
        return [message for part in found for message in part.messages]

    def read_ahead(self, timeout: float) -> bool:
        """Whether messages are ready for `next_message`. Waits up to `timeout` seconds for them."""
        if not self._ahead:
            parts = self.pop_parts(_AHEAD, timeout, sys.maxsize)
            self._ahead.extend(one for part in parts for one in part.singles())
        return bool(self._ahead)

    def next_message(self, done: MessageView | None = None) -> MessageView | None:
        """The next message that was read ahead, for an iteration; acknowledges the message `done`.
        A message of which half the time is over is given back: another member may have it.
        """
        self._link.check_process()
        with self._lock:
            if done is not None:
                self.settle(done, ACKNOWLEDGED)
            if self.settlings and time.monotonic() - self.settlings.since > _ACK_S:
                self.say()
            if self._ahead and self._ahead[0].half < time.monotonic():
                self._give_back_ahead()
            if not self._ahead:
                return None
            found = self._ahead.popleft()
            self.out.add(found)
            return found.message

    def poll_arrow(self, wanted: WantedColumns, timeout: float) -> pa.RecordBatch:
        """A batch as `GroupConsumer.poll_arrow`. If it cannot be made, what was popped comes again
        when its time is over.
        """
        with self.lock:
            self._give_back_ahead()
        found = popped_parts(self.pop_parts, wanted, timeout)
        with self.lock:
            batch = batch_of(found, wanted, self._view.log)
            self.out.add_parts(found)
            return batch

    # -- waiting

    def pop_parts(self, limit: int, timeout: float, max_bytes: int) -> list[PoppedPart]:
        """Pops until something is found, `timeout` seconds are over, or `wake` is called."""
        deadline = time.monotonic() + timeout
        rests = self._bell is not None
        while True:
            with self.lock:
                self._check_open()
                words = [self._link.notice, self._own, *self._leases.words]
                seen = values(words)
                found, next_s = self._pop(limit, max_bytes, wait=timeout > 0 or rests)
            left = deadline - time.monotonic()
            if found or (left <= 0 and not rests):
                return found
            if left <= 0:
                rests = False
                self._rest()
                continue
            longest = self._liveness.patience(TICK_S)
            with self.lock:
                self._view.release_lease()
            wait_any(words, seen, max(0.0, min(left, next_s, longest)))
            if self._own.load() != seen[1] and not self._closed:
                return []

    def wake(self) -> None:
        """Wakes the thread that waits in this reader."""
        self._own.add(1)
        self._own.wake()

    def fileno(self) -> int:
        """As `GroupConsumer.fileno`."""
        with self.lock:
            self._check_open()
            if self._bell is None:
                self._bell = self._link.own_bell()
                self._leases.watch_with(self._bell)
            return self._bell.fd

    def _rest(self) -> None:
        """Arms the bell, because nothing was found; the caller looks once more."""
        with self.lock:
            assert self._bell is not None
            if not self._bell.drain():
                self._check_alive()
            self._view.release_lease()
            self._bell.arm(Reason.ARRIVALS | Reason.NOTICES)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("this consumer is closed")

    def _check_alive(self) -> None:
        """Raises StoreClosed or SessionLost when this reader or the store cannot be used."""
        self._check_open()
        self._liveness.check()

    # -- popping

    def _pop(self, limit: int, max_bytes: int, *, wait: bool) -> tuple[list[PoppedPart], float]:
        """Messages of one topic after the other, and in how many seconds the next lease ends. With
        the lock held.
        """
        topics = list(self._selections)
        self._turn += 1
        turn = self._turn % len(topics)
        found: list[PoppedPart] = []
        next_s = float("inf")
        for topic in topics[turn:] + topics[:turn]:
            while limit > 0 and max_bytes > 0:
                more, leased, due_s = self._pop_topic(topic, limit, max_bytes, wait=wait)
                next_s = min(next_s, due_s)
                found += more
                limit -= sum(len(part.messages) for part in more)
                max_bytes -= sum(size_of(part.messages) for part in more)
                if more or not leased:  # a filter may have taken none of them
                    break
        return found, next_s

    def _pop_topic(
        self, topic: str, limit: int, max_bytes: int, *, wait: bool
    ) -> tuple[list[PoppedPart], bool, float]:
        request = Pop(
            self.group, topic, -1, min(limit, MOST_POPPED), self._invisible_ms, start=self._start,
            attempt=random.getrandbits(62) | 1,
            wait=wait, settled=self.settlings.take(MOST_SETTLED),
        )  # fmt: skip
        answer = self._ask(request)
        if self._own_times is None:
            self.max_reconsume_times = answer.retry_max_times
        found: list[PoppedPart] = []
        for lease in answer.leases:
            messages, error = self._leases.read_what_can_be(topic, lease, max_bytes, self.settlings)
            self._error = error or self._error
            max_bytes -= size_of(messages)
            alive = self._without_dead(topic, lease, messages)
            if alive:
                found.append(popped(topic, lease, alive, answer.now_ms))
        if self._error is not None and not found:
            error, self._error = self._error, None
            raise error
        due_s = (answer.next_ms - answer.now_ms) / 1000 if answer.next_ms else float("inf")
        return found, bool(answer.leases), due_s

    def _ask(self, request: Request[Answered]) -> Answered:
        """The registry's answer. Raises StoreClosed, SessionLost."""
        try:
            return self._link.request(request)
        except HungUp:
            self._check_alive()
            raise

    def _without_dead(
        self, topic: str, lease: PoppedLease, messages: list[MessageView]
    ) -> list[MessageView]:
        """The messages that have not come too often. Others go to the dead letters."""
        if lease.times <= 1:
            return messages
        alive = []
        name = (topic, lease.queue_id, lease.first, lease.popped_ms)
        for message in messages:
            if message.reconsume_times <= self.max_reconsume_times:
                alive.append(message)
            else:
                self._bury(name, with_times(message, -1))
        return alive

    def _bury(self, lease: LeaseName, message: MessageView) -> SendResult | None:
        """Puts a message into the dead letters, then acknowledges it. It is leased for long enough
        first; None if another member has it. Raises as `Producer.send`: then it comes again.
        """
        bit = 1 << (message.queue_offset - lease[2])
        (held,) = self._ask(Settle(self.group, [Settling(*lease, bit, _BURY_MS)])).settled
        if not held.mask:
            return None
        result = self._returns.send_back(message, -1, max_reconsume_times=0)
        self.settlings.add((*lease[:2], held.first, held.popped_ms), 1, ACKNOWLEDGED)
        return result

    # -- settling

    def begin_poll(self) -> None:
        """As `ack_polled`, at the latest with the next pop."""
        with self.lock:
            self._check_open()
            self.out.settle_all(self.settlings, ACKNOWLEDGED)

    def ack_polled(self) -> None:
        """Acknowledges everything that was returned so far: not what was read ahead."""
        with self.lock:
            self.begin_poll()
            self.say()

    def ack(self, messages: Iterable[MessageView] | Rows) -> int:
        """Acknowledges messages. Returns how many of them this member still had."""
        with self.lock:
            self._check_open()
            self.say()
            for found in self.out.take_each(messages):
                self.settlings.add(found.lease, found.bit, ACKNOWLEDGED)
            return self.say()

    def nack(self, message: MessageView, delay_level: int) -> SendResult:
        """As `GroupConsumer.nack`."""
        with self.lock:
            self._check_open()
            if message not in self.out:
                raise not_out(message)
            self.say()  # so that the count below is this message's
            result = place_of(message, self._link.config.store_host)
            if delay_level < 0:
                found = self.out.take(message)
                assert found is not None
                buried = self._bury(found.lease, message)
                if buried is None:
                    raise not_out(message)
                result = buried
            else:
                self.settle(message, after_ms(delay_level, message.reconsume_times))
            if not self.say():
                raise not_out(message)
        return result

    def settle(self, message: MessageView, after_ms: int) -> None:
        found = self.out.take(message)
        if found is not None:
            self.settlings.add(found.lease, found.bit, after_ms)

    def say(self) -> int:
        """Tells the store what is to be said. Returns how many messages that has settled."""
        count = 0
        while self.settlings:
            answer = self._ask(Settle(self.group, self.settlings.take(MOST_SETTLED)))
            count += sum(one.mask.bit_count() for one in answer.settled)
        return count

    def _give_back_ahead(self) -> None:
        """Gives back what was read ahead: nobody has seen it. With the lock held."""
        for one in self._ahead:
            self.settlings.add(one.lease, one.bit, UNSEEN)
        self._ahead.clear()

    def close(self) -> None:
        """Gives back what this member has, and ends its session. May be called again."""
        if not self.is_open:
            return
        with self._lock:
            self._give_back_ahead()
            self.out.settle_all(self.settlings, 0)
            with contextlib.suppress(StoreError, OSError):
                self.say()
            self._closed = True
        self.wake()
        self._link.close()
        with self._lock:
            self._view.close()
        self._returns.close()
