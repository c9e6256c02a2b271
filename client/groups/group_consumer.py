"""`GroupConsumer`: reads topics as a member of a consumer group."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from ...store.errors import IllegalUse
from ...store.groups.ack_file import Queue
from ...store.reading.columns import COLUMNS, ColumnName, arrow
from .. import arguments
from ..consuming.message_view import MessageView
from ..consuming.wanted_columns import WantedColumns
from ..errors import SessionLost, StoreClosed
from ..loop_reader import LoopReaders, wake_all
from ..producing.send_result import SendResult
from ..times import Start
from .given_messages import (
    check_pops,
    given_message,
    given_messages,
    given_mode,
    given_model,
    invisible_ms,
    start_of_pops,
)
from .group_reader import TICK_S, GroupReader
from .listener import Listener
from .pop_listener import PopListener
from .pop_reader import PopReader
from .queue_listener import QueueListener
from .subscription import Subscription

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_THREADS = 1024


class GroupConsumer:
    """A member of the consumer group `group` of the store in folder `store` (RocketMQ's
    `DefaultMQPushConsumer`).

    `subscribe` is a topic, several topics, or a mapping from topic to filter: a tag expression
    (`"a || b"`, `"*"`) or `Sql("price > 10")`. All members of a group must have the same
    subscription. In the model `"clustering"` each queue is assigned to one member. In
    `"broadcasting"` every member reads every queue, and its progress is kept under its `instance`
    name; without a name it is not kept. `start` says where a group begins in a topic that is new to
    it: `"earliest"`, `"latest"`, or the first message stored at a time or later (RocketMQ's
    `ConsumeFromWhere`). A time is a `datetime`, milliseconds since 1970, or text like "15min ago"
    or "2026-11-21 09:15" (the forms of `client/times.py`).

    With `mode="pop"` any number of members share all queues (RocketMQ's POP). A message is the
    member's for `invisible` seconds, then any member's. `poll_arrow` is not for them.

    Messages are acknowledged one by one in any order (`ack`), or with `auto_ack` (the default) by
    the next call for messages, which acknowledges everything that the last one returned. An
    acknowledgement survives the death of every process, here and in the store: the message never
    comes again. Messages that a member had and did not acknowledge go to the member that gets the
    queue next. `nack` sends a message back, so that it comes again later. After
    `max_reconsume_times` times (default: the group's own number) it goes to the group's dead
    letters (`%DLQ%group`). With `check_crc` every message is checked before it is returned, as in
    `Consumer`.

    A consumer is a context manager. With `auto_ack` the normal end of a `with` block acknowledges
    the messages of the last call. After an exception they come again, and also after `close`
    without a `with` block. A consumer is an iterable and an asynchronous iterable too. Several
    threads may use it, but only one at a time may poll or iterate.

    Raises one of:

    - StoreClosed when no store runs there;
    - IllegalMessage when the store refuses the group, a topic, or a subscription that differs from
      the other members';
    - FilterError for a filter that cannot be parsed;
    - IllegalArgument without a topic or for a bad `start`, IllegalType.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        group: str,
        subscribe: Subscription,
        *,
        model: Literal["clustering", "broadcasting"] = "clustering",
        instance: str = "",
        start: Start = "latest",
        mode: Literal["pull", "pop"] = "pull",
        invisible: float = 60.0,
        auto_ack: bool = True,
        max_reconsume_times: int | None = None,
        check_crc: bool = False,
    ) -> None:
        self._auto_ack = arguments.switch("auto_ack", auto_ack)
        times = max_reconsume_times
        if times is not None:
            times = arguments.whole("max_reconsume_times", times)
        self._listener: Listener | None = None
        self._readers = LoopReaders(wake_all)
        # With `auto_ack`: the message that an iteration gave out last, until it is acknowledged.
        self._in_hand: MessageView | None = None
        place, name = arguments.store(store), arguments.text("group", group)
        check_crc = arguments.switch("check_crc", check_crc)
        self._reader: GroupReader | PopReader
        if given_mode(mode) == "pop":
            check_pops(model, instance)
            self._reader = PopReader(
                place, name, subscribe, start=start_of_pops(start), check_crc=check_crc,
                invisible_ms=invisible_ms(invisible), max_reconsume_times=times,
            )  # fmt: skip
        else:
            self._reader = GroupReader(
                place, name, subscribe, model=given_model(model),
                instance=arguments.text("instance", instance), start=start,
                max_reconsume_times=times, check_crc=check_crc,
            )  # fmt: skip

    @property
    def store(self) -> str:
        """The store's folder, as it was given."""
        return self._reader.store

    @property
    def group(self) -> str:
        """The group's name."""
        return self._reader.group

    @property
    def auto_ack(self) -> bool:
        """Whether a poll acknowledges the messages that the last poll returned."""
        return self._auto_ack

    @property
    def max_reconsume_times(self) -> int:
        """How often a message may come again before it goes to the dead letters."""
        return self._reader.max_reconsume_times

    @property
    def assignment(self) -> list[Queue]:
        """(topic, queue id) of each queue that is assigned to this member now. In the model
        "clustering" queues of `%RETRY%group` are among them.
        """
        with self._reader.lock:
            return [assigned.queue for assigned in self._reader.queues]

    @property
    def missed(self) -> int:
        """How many messages the store removed before this member read them."""
        return self._reader.missed

    # -- reading

    def poll(
        self, max_messages: int = 32, timeout: float | None = 0.0, *, max_bytes: int = sys.maxsize
    ) -> list[MessageView]:
        """Up to `max_messages` messages, from the queues in turn. Their records have up to
        `max_bytes` bytes together, but one message always comes. Waits up to `timeout` seconds for
        the first message (None: without limit); returns an empty list when none came in that time.

        Within a queue messages come in order. With `auto_ack` this call first acknowledges the
        messages that the last poll returned. Raises one of:

        - StoreClosed when the store stopped: what was not acknowledged comes at its next start;
        - SessionLost when the store has removed this member from the group, or was killed;
        - Corrupt at a damaged message, after the messages before it and those of other queues were
          returned;
        - CorruptRange at a hole that `silo repair --holes` has declared, in the same order. The
          hole counts as acknowledged, and the next poll goes on behind it;
        - IllegalArgument for a number below 1, IllegalUse when this consumer listens.
        """
        most = arguments.whole("max_messages", max_messages, 1)
        max_bytes = arguments.whole("max_bytes", max_bytes, 1)
        patience = arguments.seconds("timeout", timeout)
        self._begin_poll()
        return self._reader.poll(most, patience, max_bytes)

    def _begin_poll(self) -> None:
        """Acknowledges what the caller has, with `auto_ack`, because it asks for more. Raises
        IllegalUse.
        """
        self._check_idle()
        if self._auto_ack:
            self._ack_in_hand()
            if isinstance(self._reader, PopReader):
                self._reader.begin_poll()
            else:
                self._reader.ack_polled()

    def _check_idle(self) -> None:
        if self._listener is not None:
            raise IllegalUse(
                "this consumer listens, or has listened: its messages go to the callback; open "
                "another one to read in another way"
            )

    def _ack_in_hand(self) -> None:
        message, self._in_hand = self._in_hand, None
        if message is not None:
            self._reader.ack((message,))

    def poll_arrow(
        self,
        max_messages: int = 16_384,
        timeout: float | None = 0.0,
        *,
        columns: Iterable[ColumnName] = COLUMNS,
        max_bytes: int = 4 << 20,
        raw_bodies: bool = False,
        body_views: bool = False,
    ) -> pa.RecordBatch:
        """As `poll`, but returns a pyarrow.RecordBatch with one row for each message.
        `Consumer.poll_arrow` explains the arguments and the type.

        A batch is acknowledged as a whole: with `auto_ack` by the next `poll` or `poll_arrow`,
        otherwise by `ack_polled`. With `mode="pop"` also rows of it: `ack(batch.filter(...))`.
        Rows cannot be sent back. Tag filters cost little here; an SQL expression is evaluated in
        Python, row by row. Raises as `Consumer.poll_arrow`.
        """
        arrow()
        wanted = WantedColumns.of(
            columns, max_messages, max_bytes, raw_bodies=raw_bodies, body_views=body_views
        )
        patience = arguments.seconds("timeout", timeout)
        self._begin_poll()
        return self._reader.poll_arrow(wanted, patience)

    def __iter__(self) -> Iterator[MessageView]:
        """All messages, without end: waits for new ones. Ends when the store stops.

        With `auto_ack` a message is acknowledged when the next one is asked for, here or by another
        call. An iteration that was left may be continued by a new one, or by `poll`: no message is
        left out. Raises as `poll`, except StoreClosed.
        """
        self._begin_poll()
        while True:
            while (message := self._next()) is None:
                try:
                    self._reader.read_ahead(TICK_S)
                except SessionLost:
                    raise
                except StoreClosed:
                    return
            yield message

    async def __aiter__(self) -> AsyncIterator[MessageView]:
        """Asynchronous iteration, otherwise as iteration. It waits in the event loop, without a
        thread. A task may be cancelled while it waits: no message is lost by that.
        """
        import asyncio  # loaded here, because it would slow down the start of every client

        self._begin_poll()
        while True:
            await asyncio.sleep(0)  # other tasks have their turn, also while messages come and come
            while (message := self._next()) is not None:
                yield message
            try:
                fd = self._reader.fileno()
                while not self._reader.read_ahead(0.0):
                    await self._readers.readable(fd)
            except SessionLost:
                raise
            except StoreClosed:
                return

    def fileno(self) -> int:
        """A descriptor for select, poll, epoll or an event loop: readable when there may be
        messages or another assignment, or the store has stopped.

        After a `poll` that returned nothing it is readable again when there may be something new.
        It may be readable without that, and is at first. It stays the same until `close`. A member
        that does not poll when it is readable may lose its queues. Raises StoreClosed;
        IllegalMessage and TooManyOpenFiles when descriptors are short.
        """
        return self._reader.fileno()

    def _next(self) -> MessageView | None:
        """A message for an iteration, if one was read ahead. The one before it is acknowledged."""
        message = self._reader.next_message(self._in_hand)
        self._in_hand = message if self._auto_ack else None
        return message

    def listen(
        self,
        callback: Callable[[MessageView], object],
        *,
        concurrency: int = 1,
        orderly: bool = False,
        suspend_ms: int = 1000,
        delay_level: int = 0,
        max_pending: int = 1000,
        max_pending_bytes: int = 100 << 20,
    ) -> Listener:
        """Calls `callback` for each message from now on, in `concurrency` threads of this object.
        From then on this consumer must not poll or iterate.

        A message is consumed, and is acknowledged, when its callback returns anything but False. It
        is not consumed when the callback returns False or raises: then it is sent back as by `nack`
        with `delay_level`. With `orderly` (not for `mode="pop"`) the messages of a queue come
        strictly one after the other, and one that was not consumed blocks its queue. It is tried
        again after `suspend_ms` milliseconds, and goes to the dead letters after
        `max_reconsume_times` more tries. (RocketMQ: the three classes of `ConsumeMessageService`.)

        At most `max_pending` messages, with records of `max_pending_bytes` bytes together, wait for
        a thread. With one thread the callback runs in the thread that reads.

        With `auto_ack` this call acknowledges messages that were polled before. A callback may
        itself call `ack` or `nack`. A consumer that listens lives until `Listener.stop` or `close`
        is called, even if nothing refers to it any more.

        Raises IllegalUse when this consumer listens already, IllegalArgument for a number below 1
        or a negative `suspend_ms`.
        """
        arguments.function("callback", callback)
        concurrency = arguments.whole("concurrency", concurrency, 1, _MOST_THREADS)
        orderly = arguments.switch("orderly", orderly)
        suspend_ms = arguments.whole("suspend_ms", suspend_ms)
        delay_level = arguments.whole("delay_level", delay_level, -(2**31), 2**31 - 1)
        max_pending = arguments.whole("max_pending", max_pending, 1)
        max_pending_bytes = arguments.whole("max_pending_bytes", max_pending_bytes, 1)
        reader = self._reader
        if orderly and isinstance(reader, PopReader):
            raise IllegalUse('mode="pop" has no order: listen without orderly')
        with reader.lock:
            if self._listener is not None:
                raise IllegalUse("this consumer listens already, or has listened: open another one")
            self._begin_poll()
            if isinstance(reader, PopReader):
                self._listener = PopListener(
                    reader, callback, concurrency, delay_level, (max_pending, max_pending_bytes)
                )
            else:
                self._listener = QueueListener(
                    reader, callback, concurrency=concurrency, orderly=orderly,
                    suspend_ms=suspend_ms, delay_level=delay_level,
                    max_pending=max_pending, max_pending_bytes=max_pending_bytes,
                )  # fmt: skip
        return self._listener

    # -- acknowledging

    def ack(self, messages: MessageView | Iterable[MessageView] | pa.RecordBatch) -> int:
        """Acknowledges messages: they never come to this group again. Returns how many of them were
        handed out and not acknowledged before. A message whose queue has gone to another member
        does not count, and that member gets it again. Rows need the column `physical_offset`.
        """
        return self._reader.ack(given_messages(messages))

    def ack_polled(self) -> None:
        """Acknowledges everything that polls and iterations have returned so far."""
        self._reader.ack_polled()

    def nack(self, message: MessageView, *, delay_level: int = 0) -> SendResult:
        """Sends a message back to the group, then acknowledges it (RocketMQ: `sendMessageBack`).
        Returns where the store has put it.

        It comes again after the delay level (0: after 10 s the first time, later each time). It
        goes to the dead letters if it has come again `max_reconsume_times` times, or at once with
        level -1.

        A message can be sent back while the caller has it: since `poll`, an iteration or a
        listener returned it, and until it is acknowledged, sent back, or its queue has gone to
        another member. After that this raises NotHandedOut. Rows of `poll_arrow` cannot be sent
        back. Also raises as `Producer.send`; then the message was not acknowledged.

        With `mode="pop"` it comes again from its place, after RocketMQ's popDelayLevel (10 s, ...).
        """
        message = given_message(message)
        level = arguments.whole("delay_level", delay_level, -(2**31), 2**31 - 1)
        return self._reader.nack(message, level)

    def close(self) -> None:
        """Leaves the group; a listener is stopped first. Within a callback of the listener this
        takes effect when the callbacks have returned. This does not acknowledge the messages of
        the last call, not even with `auto_ack`: they come again. The normal end of a `with` block
        does acknowledge them.
        """
        self._readers.close()
        if self._listener is not None:
            self._listener.close()
        else:
            self._reader.close()

    __reduce_ex__ = arguments.no_copy

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and self._auto_ack and self._reader.is_open:
            self._ack_in_hand()
            self._reader.ack_polled()
        self.close()
