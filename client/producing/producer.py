"""`Producer`: sends messages to a store on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from .. import arguments
from ..arguments import OWN, Own
from ..session import Connection
from ._sender import Sender, session_of
from .cancelling import cancel
from .replying import Request, reply
from .resend import RESTART_CHOICES
from .send_result import SendResult
from .send_session import SendSession

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._future import SendFuture
    from ._message import Message


class Producer(Sender):
    """Sends messages to the store in folder `store`.

    `ring_size` is in bytes, a multiple of 4096, by default the store's `ring_size`. It limits the
    bytes that the store has not answered yet; half of it limits a message or batch. `timeout`
    (seconds) is how long a call waits for space in the ring or for an answer, unless the call has
    its own `timeout`. By default it is 7 s longer than the store takes to notice a frozen process
    (`heartbeat_timeout_ms`), together 10 s: a process that is replaced is a stall, not an error.
    None is no limit, in every time-out.

    A producer does not notice when single processes of the store are restarted. When the whole
    store stops, unanswered messages fail with StoreClosed if `on_restart` is `"error"`. With
    `"retry"` the producer waits up to `reconnect_timeout` seconds for the store and sends them
    again. A message may then be stored twice, with the same UNIQ_KEY.

    Threads may share a producer: each call is one step, and messages of a queue are in the order of
    the calls. A child made by `fork` cannot use its parent's producer.

    Raises StoreClosed when no store runs in the folder, IllegalMessage for a `ring_size` that the
    store does not allow. Every call raises IllegalType or IllegalArgument for an argument that it
    cannot use (`client/arguments.py`).
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        *,
        ring_size: int | None = None,
        timeout: float | Own | None = OWN,
        on_restart: Literal["error", "retry"] = "error",
        reconnect_timeout: float | None = 30.0,
    ) -> None:
        folder = arguments.store(store)
        size = -1 if ring_size is None else arguments.whole("ring_size", ring_size, least=1)
        session = SendSession(
            lambda: Connection(folder, size, client="Producer"),
            timeout_s=None if timeout is OWN else arguments.seconds("timeout", timeout),
            on_restart=arguments.choice("on_restart", on_restart, RESTART_CHOICES),
            reconnect_timeout_s=arguments.seconds("reconnect_timeout", reconnect_timeout),
        )
        super().__init__(session)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def store(self) -> str:
        """The store's folder, as it was given."""
        return session_of(self).folder

    @property
    def timeout(self) -> float:
        """Seconds that a call waits for space or for an answer, unless the call has its own
        `timeout`.
        """
        return session_of(self).timeout_s

    @property
    def in_flight(self) -> int:
        """Bytes of the ring, padding included, that the store has not answered yet."""
        return session_of(self).in_flight

    @property
    def rejected(self) -> int:
        """The number of sends that the store has refused in this session, those of `send_oneway`
        among them. A batch counts once.
        """
        return session_of(self).ring.rejected

    def open_topic(self, topic: str) -> int:
        """Opens a topic before the first message is sent to it, and makes it if the store may.
        Returns how many queues can be written to.

        Call it again to learn of changes, such as a topic's number of queues. Each send opens a
        topic that is new to it. Raises IllegalMessage, StoreClosed.
        """
        return len(session_of(self).open_topic(arguments.text("topic", topic)).slots)

    def cancel(self, message: SendResult | str, *, timeout: float | Own | None = OWN) -> SendResult:
        """Cancels a message that waits for its time: one that was sent with `deliver_at` or
        `delay_ms`. `message` is its SendResult, or the `recall_handle` of that.

        The cancel is a message itself, and survives what its answer says. A message is never
        delivered if its cancel was stored, and in the queues, before it was due. A cancel that is
        stored within the last milliseconds before may come too late; then nothing happens.

        Raises IllegalMessage (WHEEL_TIMER_MSG_ILLEGAL) when the message is due already,
        IllegalQuery for a message that cannot be cancelled or a text that is no handle, and what
        `send` raises.
        """
        return cancel(self, message, timeout)

    def reply(
        self,
        request: Request,
        body: Buffer | str | Message,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        timeout: float | Own | None = OWN,
    ) -> SendResult:
        """Replies to a message that somebody has sent as a request (`RequestProducer.request`, or
        RocketMQ's `MQProducer.request`), and waits for the store's answer, not for the requester.

        The reply is a message in rmq_sys_silomq_replies. A client of the store that waits for it
        reads it there; the broker pushes it to one on the network. If nobody waits any more,
        nothing happens. Whoever consumes a request twice may reply twice: the first reply counts.

        Raises IllegalArgument for a message that is no request; the other arguments and errors are
        those of `send`.
        """
        sent = self.reply_async(
            request,
            body,
            tags=tags,
            keys=keys,
            properties=properties,
            flag=flag,
            timeout=timeout,
        )
        return sent.result(timeout)

    def reply_async(
        self,
        request: Request,
        body: Buffer | str | Message,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        timeout: float | Own | None = OWN,
    ) -> SendFuture:
        """Replies to a request as `reply` does, and returns a SendFuture as `send_async` does: many
        replies may be under way.
        """
        return reply(
            self,
            request,
            body,
            tags=tags,
            keys=keys,
            properties=properties,
            flag=flag,
            timeout=timeout,
        )

    def flush(self, timeout: float | Own | None = OWN) -> None:
        """Waits until all messages sent so far are answered, and under SYNC_FLUSH are durable.

        Raises SendTimeout after `timeout` seconds (by default the producer's), StoreClosed.
        """
        session = session_of(self)
        session.flush(
            session.timeout_s if timeout is OWN else arguments.seconds("timeout", timeout)
        )

    def fileno(self) -> int:
        """A descriptor for select, poll, epoll or an event loop: readable when there may be answers
        to take, or the store has stopped. After a `poll`, or a `done` of a future that returned
        False, it is readable again when there may be something new. It may be readable without
        that, and is at first. It stays the same until `close`.

        A sync that takes too long (FLUSH_DISK_TIMEOUT) does not make it readable: look again after
        `sync_flush_timeout_ms`. When the store stops with `on_restart="retry"`, the producer's own
        thread reconnects. Raises StoreClosed; IllegalMessage and TooManyOpenFiles when descriptors
        are short.
        """
        return session_of(self).fileno()

    def poll(self) -> bool:
        """Takes the answers that have come: futures are resolved, and their callbacks run. Does not
        wait. Returns whether there are messages without an answer, or a sync that is awaited.

        Raises StoreClosed when the producer is closed, or the store has stopped.
        """
        return session_of(self).poll()

    def close(self) -> None:
        """Ends the session. Messages that were published are still appended; futures that are open
        fail with StoreClosed. May be called again.
        """
        session_of(self).close()
