"""`GroupConsumer`: reads topics as a member of a consumer group."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from ...store.groups.ack_file import Queue
from ...store.reading.columns import COLUMNS, ColumnName, arrow, mask_of
from ..consuming.message_view import MessageView
from ..errors import SessionLost, StoreClosed
from .group_reader import TICK_S, GroupReader
from .listener import Listener
from .subscription import Subscription

if TYPE_CHECKING:
    import pyarrow as pa

#: Iteration reads up to this many messages at once.
_BATCH = 256
#: Asynchronous iteration waits up to this long (s) in a thread, which outlives a cancelled task.
_ASYNC_WAIT_S = 1.0


class GroupConsumer:
    """A member of the consumer group `group` of the store in folder `store` (RocketMQ's
    `DefaultMQPushConsumer`).

    `subscribe` is a topic, several topics, or a mapping from topic to filter: a tag expression
    (`"a || b"`, `"*"`) or `Sql("price > 10")`. All members of a group must have the same
    subscription. In the model `"clustering"` each queue is assigned to one member. In
    `"broadcasting"` every member reads every queue, and its progress is kept under its `instance`
    name; without a name it is not kept. `start` says where a group begins in a topic that is new to
    it: `"earliest"`, `"latest"`, or the first message stored at a time (epoch ms) or later
    (RocketMQ's `ConsumeFromWhere`).

    Messages are acknowledged one by one in any order (`ack`), or by the next poll, which
    acknowledges everything that the last one returned (`auto_ack`, the default). An acknowledgement
    survives the death of every process, here and in the store: the message never comes again.
    Messages that a member had and did not acknowledge go to the member that gets the queue next.
    `nack` sends a message back, so that it comes again later. After `max_reconsume_times` times
    (default: the group's own number) it goes to the group's dead letters (`%DLQ%group`). With
    `check_crc` every message is checked before it is returned, as in `Consumer`.

    Several threads may use one consumer, but only one at a time may poll or iterate. A consumer is
    a context manager, an iterable and an asynchronous iterable.

    Raises one of:

    - StoreClosed when no store runs there;
    - IllegalMessage when the store refuses the group, a topic, or a subscription that differs from
      the other members';
    - FilterError for a filter that cannot be parsed;
    - ValueError without a topic or for a bad `start`.
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
        self._auto_ack = auto_ack
        self._listener: Listener | None = None
        self._reader = GroupReader(
            store,
            group,
            subscribe,
            model=model,
            instance=instance,
            start=start,
            max_reconsume_times=max_reconsume_times,
            check_crc=check_crc,
        )

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
        self, max_messages: int = 32, timeout: float = 0.0, *, max_bytes: int = sys.maxsize
    ) -> list[MessageView]:
        """Up to `max_messages` messages, from the queues in turn. Their records have up to
        `max_bytes` bytes together, but one message always comes. Waits up to `timeout` seconds for
        the first message; returns an empty list when none came in that time.

        Within a queue messages come in order. With `auto_ack` this call first acknowledges the
        messages that the last poll returned. Raises one of:

        - StoreClosed when the store stopped and everything in it was read;
        - SessionLost when the store has removed this member from the group, or was killed;
        - Corrupt at a damaged message, after the messages before it and those of other queues were
          returned;
        - ValueError for a number below 1, RuntimeError when this consumer listens.
        """
        if max_messages < 1:
            raise ValueError(f"max_messages={max_messages}: at least 1")
        self._begin_poll()
        return self._reader.poll(max_messages, timeout, max_bytes, hand_out=not self._auto_ack)

    def _begin_poll(self) -> None:
        if self._listener is not None:
            raise RuntimeError("this consumer listens: its messages go to the callback")
        if self._auto_ack:
            self.ack_polled()

    def poll_arrow(
        self,
        max_messages: int = 16_384,
        timeout: float = 0.0,
        *,
        columns: Iterable[ColumnName] = COLUMNS,
        max_bytes: int = 4 << 20,
    ) -> pa.RecordBatch:
        """As `poll`, but returns a pyarrow.RecordBatch with one row for each message.
        `Consumer.poll_arrow` explains `columns`, `max_bytes` and the type.

        A batch is acknowledged as a whole: with `auto_ack` by the next `poll` or `poll_arrow`,
        otherwise by `ack_polled`. Its messages cannot be sent back. Tag filters cost little here;
        an SQL expression is evaluated in Python, row by row.

        Raises as `poll`; ImportError without pyarrow (`pip install 'silomq[arrow]'`), ValueError
        for an unknown column.
        """
        if max_messages < 1 or max_bytes < 1:
            raise ValueError(f"max_messages={max_messages}, max_bytes={max_bytes}: at least 1")
        arrow()
        names = tuple(columns)
        mask_of(names)
        self._begin_poll()
        return self._reader.poll_arrow(names, max_messages, timeout, max_bytes)

    def __iter__(self) -> Iterator[MessageView]:
        """All messages, without end: waits for new ones. Ends when the store stops.

        With `auto_ack` a message is acknowledged when the next one is asked for. Raises SessionLost
        when the store has removed this member from the group, or was killed.
        """
        while True:
            try:
                found = self._reader.poll(_BATCH, TICK_S, hand_out=True)
            except SessionLost:
                raise
            except StoreClosed:
                return
            for message in found:
                yield message
                if self._auto_ack:
                    self.ack(message)

    async def __aiter__(self) -> AsyncIterator[MessageView]:
        """Asynchronous iteration, otherwise as iteration. It waits in a thread, so the event loop
        is not blocked.
        """
        import asyncio  # loaded here, because it would slow down the start of every client

        while True:
            try:
                found = self._reader.poll(_BATCH, 0.0, hand_out=True) or await asyncio.to_thread(
                    self._reader.poll, _BATCH, _ASYNC_WAIT_S, hand_out=True
                )
            except SessionLost:
                raise
            except StoreClosed:
                return
            for message in found:
                yield message
                if self._auto_ack:
                    self.ack(message)

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
        is not consumed when the callback returns False or raises. Without `orderly` such a message
        is sent back as by `nack` with `delay_level`. With `orderly` the messages of a queue come
        strictly one after the other, and a message that was not consumed blocks its queue. It is
        tried again after `suspend_ms` milliseconds, and goes to the dead letters after
        `max_reconsume_times` more tries. (RocketMQ: `ConsumeMessageConcurrentlyService`,
        `ConsumeMessageOrderlyService`.)

        At most `max_pending` messages, with records of `max_pending_bytes` bytes together, wait for
        a thread. With one thread the callback runs in the thread that reads.

        Raises RuntimeError when this consumer listens already, ValueError for a number below 1 or a
        negative `suspend_ms`.
        """
        with self._reader.lock:
            if self._listener is not None:
                raise RuntimeError("this consumer listens already")
            self._listener = Listener(
                self._reader,
                callback,
                concurrency=concurrency,
                orderly=orderly,
                suspend_ms=suspend_ms,
                delay_level=delay_level,
                max_pending=max_pending,
                max_pending_bytes=max_pending_bytes,
            )
        return self._listener

    # -- acknowledging

    def ack(self, messages: MessageView | Iterable[MessageView]) -> int:
        """Acknowledges messages: they never come to this group again. Returns how many of them were
        not acknowledged before. A message whose queue has gone to another member does not count,
        and that member gets it again.
        """
        return self._reader.ack((messages,) if isinstance(messages, MessageView) else messages)

    def ack_polled(self) -> None:
        """Acknowledges everything that was polled so far."""
        self._reader.ack_polled()

    def nack(self, message: MessageView, *, delay_level: int = 0) -> bool:
        """Sends a message back to the group, then acknowledges it (RocketMQ: `sendMessageBack`).

        It comes again after the delay level (0: after 10 s the first time, later each time). It
        goes to the dead letters if it has come again `max_reconsume_times` times, or at once with
        level -1. Returns False and does nothing if the message is acknowledged already or its queue
        has gone to another member. Raises as `Producer.send`.
        """
        return self._reader.nack(message, delay_level)

    def close(self) -> None:
        """Leaves the group; a listener is stopped first. This does not acknowledge the messages of
        the last poll, not even with `auto_ack`: they come again.
        """
        if self._listener is not None:
            self._listener.stop()
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
