"""`GroupReader`: reads and acknowledges for one member of a consumer group.

`GroupConsumer` polls through it, and `Listener` reads through it for its callbacks. It keeps the
assignment up to date, reads the assigned queues in turn, sleeps until there is something to read,
acknowledges, and sends messages back.

`lock` guards the assigned queues and their cursors. A method whose docstring says "with the lock
held" expects the caller to hold it; all others take it themselves.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from ...shm._words import Word, wait_any
from ...shm.control import StoreState
from ...shm.protocol.answers import Joined
from ...shm.protocol.requests import Join
from ...store.errors import Corrupt
from ...store.groups.ack_file import Queue
from ...store.names import retry_topic
from ..consuming.cursors import StoreView
from ..consuming.message_view import MessageView
from ..errors import SessionLost, StoreClosed, TopicDeleted
from ..producing.producer import Producer
from ..session import Connection, HungUp
from .arrow_batches import next_batch
from .assigned_queue import AssignedQueue
from .membership import Membership
from .retry import send_back
from .subscription import Selection, Subscription, filter_expressions, start_request

if TYPE_CHECKING:
    import pyarrow as pa

_Found = TypeVar("_Found")

#: A sleeping member checks this often (s) that the store is alive: a killed store wakes no reader.
TICK_S = 15.0
#: A member that cannot give a revoked queue back yet tries again after this time (s).
_RELEASE_RETRY_S = 0.01


class Watch(NamedTuple):
    """Shared words with the values that they had before the queues were read: when one has changed,
    there is something new. `settled` is False while a revoked queue cannot be given back yet.
    """

    words: list[Word]
    seen: list[int]
    settled: bool


class GroupReader:
    """Joins the group `group` of the store in folder `store`, and reads as its member.

    `GroupConsumer` explains the arguments and the errors. `max_reconsume_times` of None stands for
    the group's own value.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        group: str,
        subscribe: Subscription,
        *,
        model: Literal["clustering", "broadcasting"],
        instance: str,
        start: Literal["earliest", "latest"] | int,
        max_reconsume_times: int | None,
        check_crc: bool,
    ) -> None:
        self.store = os.fspath(store)
        self.group = group
        self.lock = threading.RLock()
        self._filters = filter_expressions(subscribe)
        self._selections = {topic: Selection(*wanted) for topic, wanted in self._filters.items()}
        self._selections[retry_topic(group)] = Selection("TAG", "*")
        self._turn = 0
        self._polled: list[AssignedQueue] = []  # queues whose messages `ack_polled` acknowledges
        self._ask_release: Callable[[list[Queue]], bool] | None = None
        self._producer: Producer | None = None
        self._closed = False
        self._link = Connection(store)
        try:
            self._view = StoreView(self._link, check_crc=check_crc)
        except BaseException:
            self._link.close()
            raise
        self._membership = Membership(self._link, self._view)
        try:
            answer = self._join(model, instance, start)
        except BaseException:
            self.close()
            raise
        self.max_reconsume_times: int = (
            answer.retry_max_times if max_reconsume_times is None else max_reconsume_times
        )

    def _join(
        self,
        model: Literal["clustering", "broadcasting"],
        instance: str,
        start: Literal["earliest", "latest"] | int,
    ) -> Joined:
        where = start_request(start, self._filters, self._link, self._view)
        return self._link.request(Join(self.group, model, self._filters, where, instance))

    # -- the assignment

    @property
    def queues(self) -> list[AssignedQueue]:
        """The queues that this member reads. With the lock held."""
        return self._membership.queues

    @property
    def missed(self) -> int:
        """How many messages the store removed before this member read them."""
        return self._membership.missed

    def has_new_assignment(self) -> bool:
        """Whether the store has changed this member's assignment since it was last taken."""
        return self._membership.has_new_assignment()

    def take_assignment(self) -> Watch:
        """Takes the newest assignment, if the store has changed it, and gives revoked queues back.
        With the lock held, and before the queues are read. Raises StoreClosed, SessionLost.
        """
        membership = self._membership
        try:
            settled = membership.take_assignment(self._release)
        except (HungUp, OSError):
            self._check_alive()
            raise
        words = membership.words
        notice = membership.notice_seen if settled else words[0].load()
        return Watch(words, [notice, *(word.load() for word in words[1:])], settled)

    def before_release(self, ask: Callable[[list[Queue]], bool]) -> None:
        """Has `ask` called, with the lock held, before revoked queues are given back. `ask` must
        begin no more work on these queues, and return whether all work on them has ended.
        """
        self._ask_release = ask

    def _release(self, queues: list[Queue]) -> bool:
        """Whether revoked queues can be given back now."""
        if self._ask_release is not None and not self._ask_release(queues):
            return False
        self._polled = [assigned for assigned in self._polled if assigned.queue not in queues]
        return True

    # -- waiting

    def wait_for(
        self, take: Callable[[], _Found], is_enough: Callable[[_Found], bool], timeout: float
    ) -> _Found:
        """Calls `take`, with the lock held, until it finds enough or `timeout` seconds have passed.
        Returns what `take` found last. Sleeps between two calls. Raises StoreClosed, SessionLost.
        """
        deadline = time.monotonic() + timeout
        while True:
            with self.lock:
                watch = self.take_assignment()
                found = take()
            left = deadline - time.monotonic()
            if is_enough(found) or left <= 0:
                return found
            self.sleep(watch, left)

    def sleep(self, watch: Watch, timeout_s: float) -> None:
        """Sleeps until a word of `watch` has changed, another thread calls `wake`, or `timeout_s`
        has passed. Sleeps only 10 ms at a time while callbacks still work on a revoked queue.
        Raises StoreClosed, SessionLost.
        """
        self._check_alive()
        with self.lock:
            self._view.release_lease()
        longest = TICK_S if watch.settled else _RELEASE_RETRY_S
        wait_any(watch.words, watch.seen, min(timeout_s, longest))

    def wake(self) -> None:
        """Wakes the thread that sleeps in this reader."""
        self._membership.wake()

    def _check_alive(self) -> None:
        """Raises StoreClosed or SessionLost when this reader or the store cannot be used any
        more.
        """
        if self._closed:
            raise StoreClosed("this consumer is closed")
        if self._link.control.load("state") == StoreState.STOPPED:
            raise StoreClosed(f"the store at {self.store} stopped; everything in it was read")
        if not self._link.is_alive():
            raise SessionLost(
                f"group {self.group} of the store at {self.store} has lost this member: the store "
                "was killed, or the member did not give back a queue in time"
            )

    # -- reading

    def poll(
        self, limit: int, timeout: float, max_bytes: int = sys.maxsize, *, hand_out: bool
    ) -> list[MessageView]:
        """Up to `limit` messages of all queues, as `GroupConsumer.poll`. With `hand_out` each one
        is acknowledged by itself, otherwise all together by `ack_polled`.
        """

        def take() -> list[MessageView]:
            return self._read_in_turn(limit, max_bytes, hand_out=hand_out)

        return self.wait_for(take, bool, timeout)

    def poll_arrow(
        self, names: tuple[str, ...], limit: int, timeout: float, max_bytes: int
    ) -> pa.RecordBatch:
        """A batch with the columns `names`, as `GroupConsumer.poll_arrow`. `ack_polled`
        acknowledges it.
        """

        def take() -> pa.RecordBatch:
            order = self._next_turn()
            batch, read = next_batch(order, self._selections, names, limit, max_bytes)
            self._polled += read
            return batch

        return self.wait_for(take, lambda batch: batch.num_rows > 0, timeout)

    def _read_in_turn(self, limit: int, max_bytes: int, *, hand_out: bool) -> list[MessageView]:
        """Messages that are there now, of one queue after the other. With the lock held."""
        found: list[MessageView] = []
        for assigned in self._next_turn():
            try:
                messages = self.read(assigned, limit - len(found), max_bytes, hand_out=hand_out)
            except (Corrupt, FileNotFoundError):
                if not found:
                    raise
                break  # return what was read before it; the next call raises
            if not messages:
                continue
            self._polled.append(assigned)
            found = found + messages if found else messages
            if max_bytes != sys.maxsize:
                max_bytes -= sum(message.size for message in messages)
            if len(found) >= limit or max_bytes <= 0:
                break
        return found

    def _next_turn(self) -> list[AssignedQueue]:
        """The queues in an order that begins with another one at each call."""
        queues = self.queues
        turn = self._turn % max(1, len(queues))
        self._turn += 1
        return queues[turn:] + queues[:turn]

    def read(
        self, assigned: AssignedQueue, limit: int, max_bytes: int, *, hand_out: bool = True
    ) -> list[MessageView]:
        """The next messages of one queue that pass its filter. With `hand_out` each is acknowledged
        by itself. With the lock held.
        """
        selection = self._selections[assigned.queue[0]]
        while True:
            before = assigned.cursor.next
            try:
                messages = selection.select(assigned.read(limit, selection.codes, max_bytes))
            except TopicDeleted:
                return []  # the store is about to revoke the queue
            if messages and hand_out:
                assigned.hand_out(messages)
            if messages or assigned.cursor.next == before:
                return messages
            if not assigned.handed_out:
                assigned.advance()

    # -- acknowledging

    def ack(self, messages: Iterable[MessageView]) -> int:
        """Acknowledges messages. Returns how many of them were handed out and not acknowledged
        before.
        """
        count = 0
        with self.lock:
            find = self._membership.assigned.get
            for message in messages:
                assigned = find((message.topic, message.queue_id))
                count += assigned is not None and assigned.acknowledge(message.queue_offset)
        return count

    def ack_in(self, assigned: AssignedQueue, message: MessageView) -> None:
        """Acknowledges a message of a known queue, unless the queue was given back since."""
        with self.lock:
            if self._membership.assigned.get(assigned.queue) is assigned:
                assigned.acknowledge(message.queue_offset)

    def ack_polled(self) -> None:
        """Acknowledges everything that `poll` and `poll_arrow` read so far."""
        with self.lock:
            for assigned in self._polled:
                assigned.acknowledge_all()
            self._polled = []

    def nack(self, message: MessageView, delay_level: int) -> bool:
        """Sends a message back to the group, then acknowledges it, as `GroupConsumer.nack`."""
        with self.lock:
            assigned = self._membership.assigned.get((message.topic, message.queue_id))
            if assigned is None or not assigned.is_handed_out(message.queue_offset):
                return False
        send_back(
            self._open_producer(),
            message,
            self.group,
            delay_level=delay_level,
            max_reconsume_times=self.max_reconsume_times,
        )
        self.ack_in(assigned, message)
        return True

    def _open_producer(self) -> Producer:
        """The producer through which messages are sent back; opened when it is first needed."""
        with self.lock:
            if self._producer is None:
                self._producer = Producer(self.store)
            return self._producer

    def close(self) -> None:
        """Leaves the group, and wakes the thread that sleeps here. Messages that were read stay
        readable. May be called again.
        """
        if self._closed:
            return
        self._closed = True
        self.wake()
        self._link.close()
        self._view.close()
        if self._producer is not None:
            self._producer.close()
