"""`RequestProducer`: sends requests, and waits for their replies."""

from __future__ import annotations

import functools
import os
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from ...store.errors import StoreError
from ...store.record.properties import encode_properties
from ...store.record.requests import (
    CLUSTER,
    CORRELATION_ID,
    LOCAL,
    MOST_TTL_MS,
    REPLY_TO_CLIENT,
    TTL,
    reply_queue,
)
from .. import arguments
from ..arguments import OWN, Own
from ..errors import StoreClosed
from ..producing._sender import session_of
from ..producing._with_pairs import send_with_pairs
from ..producing.producer import Producer
from ..producing.replying import REPLIES
from .reply_future import ReplyFuture
from .reply_reader import ReplyReader
from .waiting_requests import WaitingRequests

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ..consuming.message_view import MessageView
    from ..producing._future import SendFuture
    from ..producing._message import Message
    from ..producing.send_result import SendResult

#: RocketMQ's default time-out of a call.
_TIMEOUT_S = 3.0


class RequestProducer(Producer):
    """A Producer that also asks: it sends a message as a request, and waits for the reply of
    whoever consumes it (RocketMQ: `MQProducer.request`). Its arguments are those of Producer.

    Repliers may be clients of the store (`Producer.reply`), or clients of RocketMQ's that are
    connected to the store's broker. Threads may share it, and each may have a request under way.
    The first request opens a second session with the store, which reads the replies in a thread.

    Requests are messages: one that was stored is consumed, whether somebody waits for its reply or
    not. With `on_restart="retry"` a request waits on through a restart of the store.
    """

    _asking: _Asking | None = None

    def __init__(
        self,
        store: str | os.PathLike[str],
        *,
        ring_size: int | None = None,
        timeout: float | Own | None = OWN,
        on_restart: Literal["error", "retry"] = "error",
        reconnect_timeout: float | None = 30.0,
    ) -> None:
        self._opening = threading.Lock()
        super().__init__(
            store,
            ring_size=ring_size,
            timeout=timeout,
            on_restart=on_restart,
            reconnect_timeout=reconnect_timeout,
        )

    def request(
        self,
        topic: str,
        body: Buffer | str | Message,
        *,
        timeout: float | None = _TIMEOUT_S,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        queue: int | None = None,
        shard_key: str | None = None,
        born_timestamp: int | None = None,
    ) -> MessageView:
        """Sends a request and returns its reply, a MessageView. `timeout` (seconds, None: no limit)
        is for both. The other arguments are those of `send`; a request cannot be delayed.

        Raises RequestTimeout when there is no reply in time, StoreClosed when the store stops
        first, and what `send` raises. Like a message of a Consumer, a reply that is kept for long
        should be copied.
        """
        deadline = time.monotonic() + arguments.seconds("timeout", timeout)
        asking, future, sent = self._ask(
            topic,
            body,
            timeout,
            tags=tags,
            keys=keys,
            properties=properties,
            flag=flag,
            queue=queue,
            shard_key=shard_key,
            born_timestamp=born_timestamp,
        )
        try:
            result = sent.result(max(0.0, deadline - time.monotonic()))
            asking.waiting.note_place(future.correlation_id, _place(result))
            return future.result()
        except BaseException as error:  # an interrupt, too, ends the wait
            asking.waiting.fail(future.correlation_id, error)
            raise

    def request_async(
        self,
        topic: str,
        body: Buffer | str | Message,
        *,
        timeout: float | None = _TIMEOUT_S,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        queue: int | None = None,
        shard_key: str | None = None,
        born_timestamp: int | None = None,
    ) -> ReplyFuture:
        """Publishes a request and returns its ReplyFuture, which can be awaited. Arguments and
        errors are those of `request`; errors that come later are the future's.
        """
        asking, future, sent = self._ask(
            topic,
            body,
            timeout,
            tags=tags,
            keys=keys,
            properties=properties,
            flag=flag,
            queue=queue,
            shard_key=shard_key,
            born_timestamp=born_timestamp,
        )
        sent.add_done_callback(functools.partial(_answered, asking.waiting, future))
        return future

    def _ask(
        self, topic: str, body: Buffer | str | Message, timeout: float | None, **more: Any
    ) -> tuple[_Asking, ReplyFuture, SendFuture]:
        seconds = arguments.seconds("timeout", timeout)
        asking = self._opened()
        future = ReplyFuture(arguments.text("topic", topic), str(uuid.uuid4()))
        pairs = {
            CORRELATION_ID: future.correlation_id,
            REPLY_TO_CLIENT: asking.client_id,
            TTL: str(int(min(seconds * 1000, MOST_TTL_MS))),
            CLUSTER: session_of(self).cluster,
        }
        asking.reader.expect_until(asking.waiting.add(future, seconds))
        try:
            sent = send_with_pairs(
                self, topic, body, encode_properties(pairs), timeout=timeout, **more
            )
        except BaseException as error:
            asking.waiting.fail(future.correlation_id, error)
            raise
        return asking, future, sent

    def _opened(self) -> _Asking:
        """The thread that reads replies, and what waits for it. Raises as `send`, and what opening
        a Consumer raises.
        """
        session = session_of(self)
        if session.closed is not None:
            raise session.closed
        asking = self._asking
        if asking is None or asking.reader.ended:
            with self._opening:
                asking = self._asking
                if asking is None or asking.reader.ended:
                    asking = self._asking = _Asking(self)
        return asking

    def close(self) -> None:
        """Ends the session, as `Producer.close`. Requests that wait fail with StoreClosed."""
        super().close()
        if self._asking is not None:
            self._asking.waiting.fail_all(StoreClosed("the producer is closed"))
            self._asking.reader.stop()

    def __del__(self) -> None:
        if self._asking is not None:
            self._asking.reader.release()


class _Asking:
    """What a producer has from its first request on."""

    def __init__(self, producer: RequestProducer) -> None:
        session = session_of(producer)
        queues = len(session.open_topic(REPLIES).slots)
        retries = session.on_restart == "retry"
        self.client_id = f"{LOCAL}{uuid.uuid4().hex}"
        self.waiting = WaitingRequests()
        self.reader = ReplyReader(
            session.folder,
            self.client_id,
            reply_queue(self.client_id, queues),
            self.waiting,
            reconnect_s=session.reconnect_timeout_s if retries else 0.0,
        )


def _answered(waiting: WaitingRequests, future: ReplyFuture, sent: SendFuture) -> None:
    """Called when the store has answered a request: the reply may have come before."""
    try:
        result = sent.result(0)
    except StoreError as error:
        waiting.fail(future.correlation_id, error)
    else:
        waiting.note_place(future.correlation_id, _place(result))


def _place(sent: SendResult) -> str:
    return f"{sent.topic}[{sent.queue_id}]@{sent.queue_offset}"
