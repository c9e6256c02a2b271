"""The store's own clients, as a worker: `Producer` and `GroupConsumer`."""

from __future__ import annotations

import contextlib
import threading
import time
from array import array
from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Any, Literal

from .... import __version__
from ....client.admin.admin import Admin
from ....client.errors import SendTimeout, StoreClosed
from ....client.groups.group_consumer import GroupConsumer
from ....client.producing._message import Message
from ....client.producing.producer import Producer
from ..load.columns import Columns
from ..load.protocol import STAMP
from ..load.worker import main

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ....client.consuming.message_view import MessageView
    from ....client.producing._future import SendFuture
    from ....client.producing.send_result import SendResult
    from ..load.client import Acknowledged, Bytes
    from ..load.protocol import Order

_TIMEOUT_S = 30.0
_JOIN_S = 20.0
#: At a higher rate, messages a second, each send looks at what is durable. At this or a lower one a
#: thread does: at a high rate it would hold up the sends, because it can lose its core while it has
#: the interpreter's lock.
_LOW_RATE = 1000.0
#: The longest sleep between two looks at what is durable.
_NOTICE_S = 0.05
_MOST_VIEWED = 64 << 20


class SiloSender:
    """A `Producer`. Under ASYNC_FLUSH it also tells when acknowledged messages are on the disk:
    when the store's `flushed` has passed them.
    """

    def __init__(self, order: Order, acknowledged: Acknowledged) -> None:
        store = order.endpoint["store"]
        self._producer = Producer(store, timeout=_TIMEOUT_S)
        self._acknowledged = acknowledged
        self._open: deque[tuple[SendFuture, int, int]] = deque()
        #: When each message that is not durable yet was due, and where it ends.
        self._dues, self._ends = array("q"), array("q")
        self._tells = threading.Lock()
        self._is_closed = False
        self._admin: Admin | None = None
        self._noticing: threading.Thread | None = None
        if order.endpoint["flush"] == "async" and order.call != "oneway":
            self._admin = Admin(store)
            self._flushed = self._admin.control.word("flushed")
            if 0 < order.rate < _LOW_RATE:
                self._noticing = threading.Thread(target=self._notice, daemon=True)
                self._noticing.start()
        for topic in order.topics:
            self._producer.open_topic(topic)

    def oneway(self, topic: str, body: bytes, tag: str, key: str) -> None:
        self._producer.send_oneway(topic, body, tags=tag or None, keys=key or None)

    def send(self, topic: str, body: bytes, tag: str, key: str) -> None:
        result = self._producer.send(topic, body, tags=tag or None, keys=key or None)
        if self._admin is not None:
            self._watch(result, int.from_bytes(body[:STAMP], "big"), len(body))

    def begin(self, topic: str, body: bytes, tag: str, key: str, due: int) -> None:
        future = self._producer.send_async(topic, body, tags=tag or None, keys=key or None)
        self._open.append((future, due, len(body)))
        self._take()

    def wait(self, timeout_s: float) -> None:
        if self._open:
            with contextlib.suppress(SendTimeout):
                self._open[0][0].exception(timeout_s)
            self._take()

    def _take(self) -> None:
        """Takes the answers that are there."""
        while self._open and self._open[0][0].done():
            future, due, size = self._open.popleft()
            error = future.exception(0)
            self._acknowledged(due, "" if error is None else repr(error))
            if error is None and self._admin is not None:
                self._watch(future.result(0), due, size)

    def batch(self, topic: str, bodies: list[bytes], tag: str, key: str) -> None:
        members: list[bytes] | list[Message] = bodies
        if tag or key:
            members = [Message(body, tags=tag or None, keys=key or None) for body in bodies]
        result = self._producer.send_batch(topic, members)
        if self._admin is not None:
            self._watch_batch(result, bodies)

    def _watch_batch(self, result: SendResult, bodies: list[bytes]) -> None:
        """`_watch` for a batch, which is durable as a whole."""
        dues = {body[:STAMP] for body in (bodies[0], bodies[-1])}
        if len(dues) == 1:
            self._dues.extend([int.from_bytes(bodies[0][:STAMP], "big")] * len(bodies))
        else:
            self._dues.extend(int.from_bytes(body[:STAMP], "big") for body in bodies)
        end = result.physical_offset + sum(map(len, bodies))
        self._ends.extend([end] * len(bodies))
        if self._ends[0] <= self._flushed.load():
            self._tell()

    def _watch(self, result: SendResult, due: int, size: int) -> None:
        """Remembers a message that is not durable yet, and tells of those that are by now."""
        self._dues.append(due)
        self._ends.append(result.physical_offset + size)
        if self._ends[0] <= self._flushed.load():
            self._tell()

    def _notice(self) -> None:
        """A thread's work: tells what is durable as soon as it is, also while nothing is sent."""
        while not self._is_closed:
            flushed = self._flushed.load()
            self._tell()
            self._flushed.wait(flushed, _NOTICE_S)

    def _tell(self) -> None:
        with self._tells:
            count = bisect_right(self._ends, self._flushed.load())
            if count:
                # All at once: one by one would hold the other thread up for milliseconds.
                self._acknowledged.durable(self._dues[:count].tobytes())
                del self._ends[:count], self._dues[:count]

    def finish(self, timeout_s: float) -> None:
        self._producer.flush(timeout_s)
        if rejected := self._producer.rejected:
            raise RuntimeError(f"the store has refused {rejected} messages")

    def close(self) -> None:
        self._producer.close()
        if self._admin is not None:
            self._is_closed = True
            if self._noticing is not None:
                self._noticing.join()
            self._admin.close()


class SiloReader:
    """A member of a group: of one that pops for the call "pop"."""

    def __init__(self, order: Order) -> None:
        self._order = order
        mode: Literal["pull", "pop"] = "pop" if order.call == "pop" else "pull"
        self._automatic = order.acknowledge == "auto"
        self._consumer = GroupConsumer(
            order.endpoint["store"],
            order.group,
            order.topics,
            start="earliest",
            mode=mode,
            auto_ack=self._automatic,
        )
        #: A batch of views has as many as are wanted, a batch of copies 4 MiB of them.
        self._form: dict[str, Any] = {}
        if order.call == "arrow-views":
            self._form = {"body_views": True, "max_bytes": _MOST_VIEWED}
        self._had: list[MessageView] = []
        #: Messages that came while the group got its queues, which only a poll asks for.
        self._early: list[MessageView] = []
        self._thread: threading.Thread | None = None
        if mode == "pull":
            self._await_queues()

    def _await_queues(self) -> None:
        """Waits until a lone member has its queues, so that this is no part of the run. Members of
        one group divide the queues as they read.
        """
        deadline = time.monotonic() + _TIMEOUT_S
        while not self._consumer.assignment and self._order.workers == 1:
            if time.monotonic() > deadline:
                raise TimeoutError(f"group {self._order.group}: no queue for {_TIMEOUT_S:.0f} s")
            self._early += self._consumer.poll(1, 0.02)

    def read(self, timeout_s: float) -> Sequence[Bytes] | Columns:
        if self._early:
            self._had, self._early = self._early, []
            return [message.body for message in self._had]
        if self._order.call in ("arrow", "arrow-views"):
            batch = self._consumer.poll_arrow(
                self._order.most, timeout_s, columns=("body",), **self._form
            )
            return Columns(batch.column(0))
        if not self._automatic:
            for message in self._had:
                self._consumer.ack(message)
        found = self._had = self._consumer.poll(self._order.most, timeout_s)
        return [message.body for message in found]

    def listen(self, take: Callable[[Bytes], None]) -> None:
        for message in self._early:
            take(message.body)
        if self._order.call == "listen":
            self._consumer.listen(lambda message: take(message.body))
            return

        def iterate() -> None:
            with contextlib.suppress(StoreClosed):  # the end of this consumer
                for message in self._consumer:
                    take(message.body)

        self._thread = threading.Thread(target=iterate, daemon=True)
        self._thread.start()

    def close(self) -> None:
        if self._thread is None and self._order.call != "listen":
            self._consumer.ack_polled()
        self._consumer.close()
        if self._thread is not None:
            self._thread.join(_JOIN_S)


def open_sender(order: Order, acknowledged: Acknowledged) -> tuple[SiloSender, dict[str, str]]:
    """A producer of the store at the endpoint."""
    return SiloSender(order, acknowledged), {"silomq": __version__}


def open_reader(order: Order) -> tuple[SiloReader, dict[str, str]]:
    """A member of the order's group."""
    return SiloReader(order), {"silomq": __version__}


if __name__ == "__main__":
    main(open_sender, open_reader)
