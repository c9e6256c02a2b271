"""`GroupConsumer`: reads topics as a member of a consumer group."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from ...shm._words import Word, wait_any
from ...shm.control import StoreState
from ...store.errors import Corrupt
from ...store.groups.ack_file import Queue
from ...store.names import retry_topic
from ...store.reading.columns import COLUMNS, arrow, mask_of
from ..consuming.cursors import Source
from ..consuming.message_view import MessageView
from ..errors import SessionLost, StoreClosed, TopicDeleted
from ..producing.producer import Producer
from ..session import Connection, HungUp
from .arrow_batches import next_batch
from .assigned_queue import AssignedQueue
from .iterating import TICK_S, Iterated
from .listener import Listener
from .membership import Membership
from .retry import send_back
from .subscription import Selection, Subscription, expressions, start_request

if TYPE_CHECKING:
    import pyarrow as pa

_Found = TypeVar("_Found")


class GroupConsumer(Iterated):
    """A member of the consumer group `group` of the store in folder `store`.

    `subscribe` is a topic, several, or a mapping from topic to filter: a tag expression (`"a ||
    b"`, `"*"`) or `Sql("price > 10")`. All members of a group subscribe to the same. With the model
    `"clustering"` each queue is with one member; `"broadcasting"` gives every queue to every
    member, and keeps a member's progress under its `instance` (without one, nowhere). `start` says
    where a group begins that is new to a topic: `"earliest"`, `"latest"`, or a time (epoch ms).

    Messages are acknowledged one by one (`ack`), in any order, or with `auto_ack` by the next call
    of `poll`. What is acknowledged survives whatever is killed, and never comes again; what a
    member had and did not acknowledge goes to whoever has the queue next. `nack` sends a message
    back: it comes again later, and after `max_reconsume_times` goes to the group's dead letters
    (`%DLQ%group`).

    May be used by several threads; `poll` by one at a time. Raises StoreClosed when no store runs
    there, IllegalMessage when the group or a topic is refused, FilterError for a bad filter.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        group: str,
        subscribe: Subscription,
        *,
        model: Literal["clustering", "broadcasting"] = "clustering",
        instance: str = "",
        start: Literal["earliest", "latest"] | int = "latest",
        auto_ack: bool = True,
        max_reconsume_times: int | None = None,
        check_crc: bool = False,
    ) -> None:
        self.store = os.fspath(store)
        self.group = group
        self.auto_ack = auto_ack
        self._wanted = expressions(subscribe)
        self._selections = {topic: Selection(*wanted) for topic, wanted in self._wanted.items()}
        self._selections[retry_topic(group)] = Selection("TAG", "*")
        self.lock = threading.RLock()
        self.order: list[AssignedQueue] = []
        self._turn = 0
        self._read: list[AssignedQueue] = []  # by the last poll, acknowledged by the next
        self._producer: Producer | None = None
        self._listener: Listener | None = None
        self._closed = False
        self._link = Connection(store)
        self._source = Source(self._link, check_crc=check_crc)
        self._member = Membership(self._link, self._source)
        try:
            answer = self._join(model, instance, start)
            self.max_reconsume_times: int = (
                answer["retry_max_times"] if max_reconsume_times is None else max_reconsume_times
            )
        except BaseException:
            self.close()
            raise

    def _join(self, model: str, instance: str, start: str | int) -> dict[str, Any]:
        return self._link.request(
            {
                "do": "join",
                "group": self.group,
                "model": model,
                "instance": instance,
                "filters": self._wanted,
                "start": start_request(start, self._wanted, self._link, self._source),
            }
        )

    # -- the assignment

    def has_news(self) -> bool:
        """Whether the store has another assignment for this member."""
        return self._member.has_news()

    def keep_up(self) -> tuple[list[Word], list[int], bool]:
        """Takes the assignment that the store has given meanwhile, if there is a new one: the words
        to sleep on and what they said before anything is read; False if a callback is still at work
        on a queue to be given back. For the lock. Raises StoreClosed, SessionLost.
        """
        member = self._member
        try:
            settled = member.keep_up(self._let_go)
        except (HungUp, OSError):
            self._check_alive()
            raise
        self.order = member.order
        words = member.words
        heard = member.heard if settled else words[0].load()
        return words, [heard, *(word.load() for word in words[1:])], settled

    def _let_go(self, queues: list[Queue]) -> bool:
        if self._listener is not None and not self._listener.let_go(queues):
            return False
        self._read = [held for held in self._read if held.queue not in queues]
        return True

    @property
    def assignment(self) -> list[Queue]:
        """(topic, queue id) of the queues that this member has now."""
        with self.lock:
            return sorted(self._member.held)

    @property
    def missed(self) -> int:
        """Messages that the store removed before this member came to them."""
        return self._member.missed + sum(held.cursor.missed for held in self.order)

    # -- reading

    def poll(
        self, max_messages: int = 32, timeout: float = 0.0, *, max_bytes: int = sys.maxsize
    ) -> list[MessageView]:
        """Up to `max_messages` messages, of the queues in turn, and up to `max_bytes` bytes of
        records (but always one message); waits up to `timeout` seconds for the first.

        Within a queue they come in order. Raises StoreClosed when the store stopped and all that
        it had was read, SessionLost when the group has put this member out, Corrupt at a damaged
        message, when those before it and of other queues were given.
        """
        if max_messages < 1:
            raise ValueError(f"max_messages={max_messages}: at least 1")
        self._begin_poll()
        return self._fetch(max_messages, timeout, max_bytes, hand_out=not self.auto_ack)

    def _begin_poll(self) -> None:
        if self._listener is not None:
            raise RuntimeError("this consumer listens: its messages go to the callback")
        if self.auto_ack:
            self.ack_polled()

    def poll_arrow(
        self,
        max_messages: int = 16_384,
        timeout: float = 0.0,
        *,
        columns: Iterable[str] = COLUMNS,
        max_bytes: int = 4 << 20,
    ) -> pa.RecordBatch:
        """As `poll`, but a pyarrow.RecordBatch with a row for each message, made without a Python
        object for any: see `Consumer.poll_arrow`. It is acknowledged as a whole, by the next call
        (`poll` or this) with `auto_ack`, by `ack_polled` else. Filters apply as everywhere; tags
        cost little, and an SQL expression is evaluated row by row in Python.
        """
        if max_messages < 1 or max_bytes < 1:
            raise ValueError(f"max_messages={max_messages}, max_bytes={max_bytes}: at least 1")
        arrow()
        names = tuple(columns)
        mask_of(names)
        self._begin_poll()

        def take() -> pa.RecordBatch:
            order = self._next_turn()
            batch, read = next_batch(order, self._selections, names, max_messages, max_bytes)
            self._read += read
            return batch

        return self._until(take, lambda batch: batch.num_rows > 0, timeout)

    def _fetch(
        self, limit: int, timeout: float, max_bytes: int = sys.maxsize, *, hand_out: bool
    ) -> list[MessageView]:
        def take() -> list[MessageView]:
            return self._gather(limit, max_bytes, hand_out=hand_out)

        return self._until(take, bool, timeout)

    def _until(
        self, take: Callable[[], _Found], is_enough: Callable[[_Found], bool], timeout: float
    ) -> _Found:
        """What `take` finds, as soon as that is enough, or time is up."""
        deadline = time.monotonic() + timeout
        while True:
            with self.lock:
                words, seen, settled = self.keep_up()
                found = take()
            left = deadline - time.monotonic()
            if is_enough(found) or left <= 0:
                return found
            self.sleep(words, seen, left if settled else 0.01)

    def sleep(self, words: list[Word], seen: list[int], timeout_s: float) -> None:
        """Until a message may be there, there is news, or time is up. Raises StoreClosed,
        SessionLost.
        """
        self._check_alive()
        with self.lock:
            self._source.relax()
        wait_any(words, seen, min(timeout_s, TICK_S))

    def rouse(self) -> None:
        """Wakes who sleeps on this consumer."""
        self._member.ring()

    def _check_alive(self) -> None:
        if self._closed:
            raise StoreClosed("this consumer is closed")
        if self._link.control.load("state") == StoreState.STOPPED:
            raise StoreClosed(f"the store at {self.store} stopped; everything in it was read")
        if not self._link.is_alive():
            raise SessionLost(
                f"group {self.group} of the store at {self.store} has lost this member: the store "
                "was killed, or the member did not give back a queue in time"
            )

    def _gather(self, limit: int, max_bytes: int, *, hand_out: bool) -> list[MessageView]:
        found: list[MessageView] = []
        for held in self._next_turn():
            try:
                messages = self.read(held, limit - len(found), max_bytes, hand_out=hand_out)
            except (Corrupt, FileNotFoundError):
                if not found:
                    raise
                break  # it is met again; what was read counts as handed out
            if not messages:
                continue
            self._read.append(held)
            found = found + messages if found else messages
            if max_bytes != sys.maxsize:
                max_bytes -= sum(message.size for message in messages)
            if len(found) >= limit or max_bytes <= 0:
                break
        return found

    def _next_turn(self) -> list[AssignedQueue]:
        """The queues, each time another one first."""
        turn = self._turn % max(1, len(self.order))
        self._turn += 1
        return self.order[turn:] + self.order[:turn]

    def read(
        self, held: AssignedQueue, limit: int, max_bytes: int, *, hand_out: bool = True
    ) -> list[MessageView]:
        """The next messages of one queue that pass its filter; with `hand_out` each is to be
        acknowledged. For the lock.
        """
        selection = self._selections[held.queue[0]]
        while True:
            before = held.cursor.next
            try:
                messages = selection.chosen(held.read(limit, selection.codes, max_bytes))
            except TopicDeleted:
                return []  # the store is about to take the queue back
            if messages and hand_out:
                held.hand_out(messages)
            if messages or held.cursor.next == before:
                return messages
            if not held.out:
                held.settle()

    def ack(self, messages: MessageView | Iterable[MessageView]) -> int:
        """Acknowledges: they never come again to this group. How many that was the first time for;
        messages of queues that have gone to another member do not count.
        """
        if isinstance(messages, MessageView):
            messages = (messages,)
        count = 0
        with self.lock:
            for message in messages:
                held = self._member.held.get((message.topic, message.queue_id))
                count += held is not None and held.acknowledge(message.queue_offset)
        return count

    def ack_in(self, held: AssignedQueue, message: MessageView) -> None:
        """`ack` for a message of a queue that is known."""
        with self.lock:
            if self._member.held.get(held.queue) is held:
                held.acknowledge(message.queue_offset)

    def ack_polled(self) -> None:
        """Acknowledges everything that was read so far."""
        with self.lock:
            for held in self._read:
                held.acknowledge_all()
            self._read = []

    def nack(self, message: MessageView, *, delay_level: int = 0) -> bool:
        """Sends a message back to the group and acknowledges it. It comes again after the delay
        level (0: from 10 s on, later each time), or goes to the dead letters if it came
        `max_reconsume_times` times, or at once with level -1. False, and nothing is done, if the
        message is acknowledged or its queue has gone to another member.
        """
        with self.lock:
            held = self._member.held.get((message.topic, message.queue_id))
            if held is None or not held.is_out(message.queue_offset):
                return False
        send_back(
            self.producer(),
            message,
            self.group,
            delay_level=delay_level,
            max_reconsume_times=self.max_reconsume_times,
        )
        self.ack_in(held, message)
        return True

    def producer(self) -> Producer:
        """The session through which messages go back; opened when one does."""
        with self.lock:
            if self._producer is None:
                self._producer = Producer(self.store)
            return self._producer

    def listen(
        self,
        callback: Callable[[MessageView], object],
        *,
        concurrency: int = 1,
        orderly: bool = False,
        **options: Any,
    ) -> Listener:
        """Calls `callback` for each message, from now on, in threads of this object: see
        `Listener`.
        """
        with self.lock:
            if self._listener is not None:
                raise RuntimeError("this consumer listens already")
            self._listener = Listener(
                self, callback, concurrency=concurrency, orderly=orderly, **options
            )
        self._listener.start()
        return self._listener

    def close(self) -> None:
        """Leaves the group. Messages that were polled with `auto_ack` and not followed by another
        poll are not acknowledged: they come again.
        """
        if self._closed:
            return
        if self._listener is not None:
            self._listener.stop()
        self._closed = True
        self.rouse()
        self._link.close()
        self._source.close()
        if self._producer is not None:
            self._producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
