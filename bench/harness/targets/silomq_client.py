"""The store's own clients, as a worker: `Producer` and `GroupConsumer`."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any, Literal

from .... import __version__
from ....client.admin.admin import Admin
from ....client.errors import StoreClosed
from ....client.groups.group_consumer import GroupConsumer
from ....client.producing._message import Message
from ....client.producing.producer import Producer
from ..load.columns import Columns
from ..load.worker import main
from ._awaited import Answers, OneWay, Unsynced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ....client.consuming.message_view import MessageView
    from ....shm._words import Word
    from ..load._fates import Fates
    from ..load.client import Bytes
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

    def __init__(self, order: Order, fates: Fates) -> None:
        store = order.endpoint["store"]
        self._producer = Producer(store, timeout=_TIMEOUT_S)
        self.oneway = OneWay(self._producer.send_oneway)
        self._is_closed = False
        self._admin: Admin | None = None
        self._unsynced: Unsynced | None = None
        self._noticing: threading.Thread | None = None
        if order.endpoint["flush"] == "async" and not order.call.endswith("oneway"):
            self._admin = Admin(store)
            flushed = self._admin.control.word("flushed")
            self._unsynced = Unsynced(fates, flushed)
            if 0 < order.rate < _LOW_RATE:
                self._noticing = threading.Thread(
                    target=self._notice, args=(self._unsynced, flushed), daemon=True
                )
                self._noticing.start()
        self._answers = Answers(fates, self._unsynced, order.window)
        for topic in order.topics:
            self._producer.open_topic(topic)

    def send(self, topic: str, body: bytes, tag: str, key: str) -> None:
        result = self._producer.send(topic, body, tags=tag or None, keys=key or None)
        if self._unsynced is not None:
            self._unsynced.add(body, result.physical_offset)

    def begin(self, topic: str, body: bytes, tag: str, key: str, due: int) -> None:
        future = self._producer.send_async(topic, body, tags=tag or None, keys=key or None)
        self._answers.add(future, due)

    def wait(self, timeout_s: float) -> None:
        self._answers.wait(timeout_s)

    def batch(self, topic: str, bodies: list[bytes], tag: str, key: str) -> None:
        result = self._producer.send_batch(topic, _members(bodies, tag, key))
        if self._unsynced is not None:
            self._unsynced.add_batch(bodies, result.physical_offset)

    def batch_oneway(self, topic: str, bodies: list[bytes], tag: str, key: str) -> None:
        self._producer.send_batch_oneway(topic, _members(bodies, tag, key))

    def _notice(self, unsynced: Unsynced, flushed: Word) -> None:
        """A thread's work: tells what is durable as soon as it is, also while nothing is sent."""
        while not self._is_closed:
            seen = flushed.load()
            unsynced.tell()
            flushed.wait(seen, _NOTICE_S)

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


def _members(bodies: list[bytes], tag: str, key: str) -> list[bytes] | list[Message]:
    """The messages of a batch; bodies alone if they have neither tag nor key."""
    if not tag and not key:
        return bodies
    return [Message(body, tags=tag or None, keys=key or None) for body in bodies]


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
        if order.call in ("arrow", "arrow-views"):
            Columns.load()
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


def open_sender(order: Order, fates: Fates) -> tuple[SiloSender, dict[str, str]]:
    """A producer of the store at the endpoint."""
    return SiloSender(order, fates), {"silomq": __version__}


def open_reader(order: Order) -> tuple[SiloReader, dict[str, str]]:
    """A member of the order's group."""
    return SiloReader(order), {"silomq": __version__}


if __name__ == "__main__":
    main(open_sender, open_reader)
