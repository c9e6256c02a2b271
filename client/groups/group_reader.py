"""`GroupReader`: reads, acknowledges and sends back for one member of a consumer group.
`GroupConsumer` polls through it, and `Listener` reads through it for its callbacks.

`lock` guards the assigned queues and their cursors. A method whose docstring says "with the lock
held" expects the caller to hold it; all others take it themselves.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, TypeVar

from ...shm._words import values, wait_any
from ...shm.bell import Reason
from ...shm.protocol.answers import Joined
from ...shm.protocol.requests import Join
from ...store.errors import Corrupt, CorruptRange, IllegalUse
from ...store.groups.ack_file import Queue
from ...store.names import retry_topic
from .._bell import Bell
from ..consuming.message_view import MessageView
from ..consuming.store_view import StoreView
from ..consuming.wanted_columns import WantedColumns
from ..errors import StoreClosed
from ..liveness import Liveness
from ..producing.send_result import SendResult
from ..session import Connection, HungUp
from ..times import Start
from ._assigned_queue import AssignedQueue
from .arrow_batches import next_batch
from .membership import Membership, Watch
from .messages_ahead import MessagesAhead
from .popped_messages import Rows
from .quick_reading import QuickReading
from .retry import Returns, not_handed_out
from .subscription import Selection, Subscription, filter_expressions, start_request

if TYPE_CHECKING:
    import pyarrow as pa

_Found = TypeVar("_Found")

#: A sleeping member checks this often (s) that the store is alive: a killed store wakes no reader.
TICK_S = 15.0
#: A member that cannot give a revoked queue back yet tries again after this time (s).
_RELEASE_RETRY_S = 0.01
#: Iteration reads up to this many messages ahead.
_AHEAD = 256


class GroupReader:
    """Joins the group `group` of the store in folder `store`, and reads as its member.

    `GroupConsumer` explains the arguments and the errors. `max_reconsume_times` of None stands for
    the group's own value.
    """

    def __init__(
        self,
        store: str,
        group: str,
        subscribe: Subscription,
        *,
        model: Literal["clustering", "broadcasting"],
        instance: str,
        start: Start,
        max_reconsume_times: int | None,
        check_crc: bool,
    ) -> None:
        self.store = store
        self.group = group
        self._lock = threading.RLock()
        self._filters = filter_expressions(subscribe)
        self._selections = {topic: Selection(*wanted) for topic, wanted in self._filters.items()}
        self._selections[retry_topic(group)] = Selection("TAG", "*")
        self._polled: set[AssignedQueue] = set()  # for `ack_polled`; quick turns add to this set
        # Between `read_ahead` and `next_message`; whoever reads otherwise takes them back first.
        self._ahead = MessagesAhead()
        self._ask_release: Callable[[list[Queue]], bool] | None = None
        self._returns = Returns(store, group)
        self._closed = False
        self._bell: Bell | None = None
        self._link = Connection(store, client="GroupConsumer")
        self._liveness = Liveness(
            self._link,
            f"group {group} of the store at {self._link.shown} has lost this member: the store was "
            "killed, the process stopped, or it did not give back a queue in time",
        )
        try:
            self._view = StoreView(self._link, check_crc=check_crc)
        except BaseException:
            self._link.close()
            raise
        self.membership = Membership(self._link, self._view)
        self.quick = QuickReading(
            self._lock, self._view, self.membership, self._liveness, self._selections
        )
        try:
            where = start_request(start, self._filters, self._link, self._view)
            join = Join(self.group, model, self._filters, where, instance)
            answer: Joined = self._link.request(join)
            self.membership.answer_when_busy()
        except BaseException:
            self.close()
            raise
        self.max_reconsume_times: int = (
            answer.retry_max_times if max_reconsume_times is None else max_reconsume_times
        )

    @property
    def lock(self) -> threading.RLock:
        """Guards the assigned queues. In a forked child it may be held for ever: ForkedChild."""
        self._link.check_process()
        return self._lock

    def check_process(self) -> None:
        """Raises ForkedChild in a forked child of the process that opened this reader."""
        self._link.check_process()

    @property
    def is_open(self) -> bool:
        """Whether `close` was not called, and this process is no forked child."""
        return not (self._closed or self._link.forked)

    # -- the assignment

    @property
    def queues(self) -> list[AssignedQueue]:
        """The queues that this member reads. With the lock held."""
        return self.membership.queues

    @property
    def missed(self) -> int:
        """How many messages the store removed before this member read them."""
        return self.membership.missed

    def take_assignment(self) -> Watch:
        """Takes the newest assignment, if the store has changed it, and gives revoked queues back.
        With the lock held, and before the queues are read. Raises StoreClosed, SessionLost.
        """
        try:
            return self.membership.take_assignment(self._release)
        except (HungUp, OSError):
            self._check_alive()
            raise

    def before_release(self, ask: Callable[[list[Queue]], bool] | None) -> None:
        """Has `ask` called, with the lock held, before revoked queues are given back (None: no
        longer). It must begin no more work on them, and return whether all work on them has ended.
        """
        self._ask_release = ask

    def _release(self, queues: list[Queue]) -> bool:
        """Whether revoked queues can be given back now."""
        if self._ask_release is not None and not self._ask_release(queues):
            return False
        self._polled -= {assigned for assigned in self._polled if assigned.queue in queues}
        self._ahead.drop(queues)
        return True

    def wait_for(
        self, take: Callable[[], _Found], is_enough: Callable[[_Found], bool], timeout: float
    ) -> _Found:
        """Calls `take`, with the lock held, until it finds enough or `timeout` seconds have passed.
        Returns what `take` found last. Sleeps between two calls. Raises StoreClosed, SessionLost.
        """
        deadline, rests = time.monotonic() + timeout, self._bell is not None
        while True:
            with self.lock:
                self._check_open()
                watch = self.take_assignment()
                try:
                    found = take()
                except CorruptRange as hole:
                    self.pass_hole(hole)
                    raise
            left = deadline - time.monotonic()
            if is_enough(found) or (left <= 0 and not rests):
                return found
            if left <= 0:
                rests = False
                self._rest()
            else:
                self.sleep(watch, left)

    def fileno(self) -> int:
        """As `GroupConsumer.fileno`."""
        with self.lock:
            self._check_open()
            if self._bell is None:
                bell = self._link.own_bell()
                self.membership.watch_with(bell)
                self._bell = bell
            return self._bell.fd

    def _rest(self) -> None:
        """Arms the bell, because nothing was found; the caller looks once more. Raises StoreClosed,
        SessionLost.
        """
        with self.lock:
            assert self._bell is not None
            if not self._bell.drain():
                self._check_alive()
            self._view.release_lease()
            self._bell.arm(Reason.ARRIVALS | Reason.NOTICES)

    def pass_hole(self, hole: CorruptRange) -> None:
        """Goes on behind a declared hole of a queue. With the lock held."""
        if assigned := self.membership.assigned.get((str(hole.topic), int(hole.queue_id or 0))):
            assigned.pass_hole(hole)

    def sleep(self, watch: Watch, timeout_s: float) -> None:
        """Sleeps until a word of `watch` has changed, another thread calls `wake`, or `timeout_s`
        has passed. Sleeps only 10 ms at a time while callbacks still work on a revoked queue. Keeps
        the lease if one has changed already. Raises StoreClosed, SessionLost.
        """
        self._check_open()
        longest = self._liveness.patience(TICK_S if watch.settled else _RELEASE_RETRY_S)
        with self._lock:
            if values(watch.words) == watch.seen:
                self._view.release_lease()
        wait_any(watch.words, watch.seen, min(timeout_s, longest))

    def wake(self) -> None:
        """Wakes the thread that sleeps in this reader."""
        self.membership.wake()

    def _check_open(self) -> None:
        """Raises StoreClosed when `close` was called. With the lock held."""
        if self._closed:
            raise StoreClosed("this consumer is closed")

    def _check_alive(self) -> None:
        """Raises StoreClosed or SessionLost when this reader or the store cannot be used."""
        self._check_open()
        self._liveness.check()

    # -- reading

    def poll(self, limit: int, timeout: float, max_bytes: int = sys.maxsize) -> list[MessageView]:
        """Up to `limit` messages of all queues, as `GroupConsumer.poll`. They are handed out until
        they are acknowledged, one by one or by `ack_polled`.
        """
        deadline = time.monotonic() + timeout
        if self._bell is None and not self._ahead:
            self.check_process()
            found = self.quick.poll(self._polled, limit, max_bytes, deadline)
            if found is not None:
                return found

        def take() -> list[MessageView]:
            self._ahead.take_back(self.membership.assigned)
            return self._read_in_turn(limit, max_bytes)

        return self.wait_for(take, bool, max(0.0, deadline - time.monotonic()))

    def read_ahead(self, timeout: float) -> bool:
        """Whether messages are ready for `next_message`. Waits up to `timeout` seconds for them."""
        if timeout > 0 and self._bell is None and not self._ahead:
            self.check_process()
            if self.quick.read_ahead(self._ahead, self._polled, _AHEAD):
                return True

        def take() -> MessagesAhead:
            if not self._ahead:
                self._ahead.extend(self._read_in_turn(_AHEAD, sys.maxsize))
            return self._ahead

        return bool(self.wait_for(take, bool, timeout))

    def next_message(self, done: MessageView | None = None) -> MessageView | None:
        """The next message that was read ahead, for an iteration; acknowledges the message `done`.
        What the iteration does not take is read again by any other method that reads.
        """
        self._link.check_process()
        with self._lock:
            if done is not None and not self._closed:
                self._acknowledge(done)
            return self._ahead.popleft() if self._ahead else None

    def poll_arrow(self, wanted: WantedColumns, timeout: float) -> pa.RecordBatch:
        """A batch as `GroupConsumer.poll_arrow`. `ack_polled` acknowledges it."""

        def take() -> pa.RecordBatch:
            self._ahead.take_back(self.membership.assigned)
            order = self.membership.next_turn()
            batch, read = next_batch(order, self._selections, wanted)
            self._polled.update(read)
            return batch

        return self.wait_for(take, lambda batch: batch.num_rows > 0, timeout)

    def _read_in_turn(self, limit: int, max_bytes: int) -> list[MessageView]:
        """Messages that are there now, of one queue after the other. With the lock held."""
        found: list[MessageView] = []
        for assigned in self.membership.next_turn():
            try:
                messages = self.read(assigned, limit - len(found), max_bytes)
            except (Corrupt, CorruptRange):
                if not found:
                    raise
                break  # return what was read before it; the next call raises
            except BaseException:  # the caller gets none of them, so they come again
                MessagesAhead(found).take_back(self.membership.assigned)
                raise
            if not messages:
                continue
            self._polled.add(assigned)
            found = found + messages if found else messages
            if max_bytes != sys.maxsize:
                max_bytes -= sum(message.size for message in messages)
            if len(found) >= limit or max_bytes <= 0:
                break
        return found

    def count_miss(self) -> None:
        """Counts a read that found none."""
        self._link.reads.find(None)

    def read(self, assigned: AssignedQueue, limit: int, max_bytes: int) -> list[MessageView]:
        """As `AssignedQueue.take`, with the filter of its topic. With the lock held."""
        return assigned.take(self._selections[assigned.queue[0]], limit, max_bytes)

    # -- acknowledging

    def ack(self, messages: Iterable[MessageView] | Rows) -> int:
        """Acknowledges messages. Returns how many of them were handed out and not acknowledged
        before. Raises IllegalUse for rows.
        """
        if isinstance(messages, Rows):
            raise IllegalUse('rows are acknowledged with mode="pop" alone: ack_polled takes all')
        with self.lock:
            self._check_open()
            return sum(map(self._acknowledge, messages))

    def _acknowledge(self, message: MessageView) -> bool:
        assigned = self.membership.assigned.get(message.queue)
        return assigned is not None and assigned.acknowledge(message.queue_offset)

    def ack_in(self, assigned: AssignedQueue, message: MessageView) -> None:
        """Acknowledges a message of a known queue, unless the queue was given back since."""
        with self._lock:
            if self._is_mine(assigned):
                assigned.acknowledge(message.queue_offset)

    def _is_mine(self, assigned: AssignedQueue) -> bool:
        """Whether the queue was not given back since. With the lock held."""
        return not self._closed and self.membership.assigned.get(assigned.queue) is assigned

    def ack_polled(self) -> None:
        """Acknowledges everything that was read so far and is with the caller: not what was read
        ahead. Queues in which another thread is sending a message back are left for the next call.
        """
        with self.lock:
            self._check_open()
            self._ahead.take_back(self.membership.assigned)
            self._polled -= {each for each in self._polled if each.acknowledge_all()}

    def nack(self, message: MessageView, delay_level: int) -> SendResult:
        """Sends a message back to the group, then acknowledges it, as `GroupConsumer.nack`.

        Not before: a message whose sending fails, or is cut short by a kill, must come again. The
        acknowledgement is in the ack file at once, so that it does not come twice.
        """
        at = message.queue_offset
        with self.lock:
            self._check_open()
            assigned = self.membership.assigned.get(message.queue)
            if assigned is None or not assigned.begin_return(at):
                raise not_handed_out(message, has_queue=assigned is not None)
        sent = False
        try:
            times = self.max_reconsume_times
            result = self._returns.send_back(message, delay_level, max_reconsume_times=times)
            sent = True
        finally:
            with self.lock:
                if self._is_mine(assigned):
                    assigned.end_return(at, sent=sent)
        return result

    def close(self) -> None:
        """Leaves the group, and wakes the thread that sleeps here. Messages that were read stay
        readable. May be called again.
        """
        if not self.is_open:
            return
        with self._lock:  # from now on no thread reads or acknowledges
            self._closed = True
            self.quick.close()
            self._ahead.clear()
        self.wake()
        self.membership.end()
        self._link.close()
        with self._lock:
            self._view.close()
        self._returns.close()
