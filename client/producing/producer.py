"""`Producer`: sends messages to a store on this machine."""

from __future__ import annotations

import os
import threading
import time
import weakref
from types import TracebackType
from typing import Literal, Self

from ...shm.ring import RingClosed
from ...store.errors import StoreError
from ...store.names import SCHEDULE_TOPIC, TIMER_TOPIC, dead_letter_topic, retry_topic
from ...store.record.format import decode_record
from ...store.record.properties import REAL_TOPIC
from ..errors import SessionLost, StoreClosed
from ..session import Connection, StoreConfig
from . import refusals
from ._message import Route
from ._sender import Sender
from .message_properties import Delayed

_producers: weakref.WeakSet[Producer] = weakref.WeakSet()


class Producer(Sender):
    """A session with the store in folder `store`, through which messages are sent.

    May be shared by threads: each call is one step, messages are in the order of the calls. A child
    made by `fork` cannot use its parent's producer. `ring_size` (bytes) bounds what can be under
    way, and half of it the longest message or batch. `timeout` (seconds) is how long a call waits
    for room or for an answer.

    A restart of any of the store's processes is not noticed. When the whole store stops,
    `on_restart="error"` raises StoreClosed for what was not answered; `"retry"` waits up to
    `reconnect_timeout` seconds for it to come back and sends again what was not answered (which may
    then be stored twice, with the same UNIQ_KEY).
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        *,
        ring_size: int | None = None,
        timeout: float = 3.0,
        on_restart: Literal["error", "retry"] = "error",
        reconnect_timeout: float = 30.0,
    ) -> None:
        if on_restart not in ("error", "retry"):
            raise ValueError(f"on_restart={on_restart!r}: 'error' or 'retry'")
        self.store = os.fspath(store)
        self.ring_size = -1 if ring_size is None else ring_size
        self.on_restart = on_restart
        self.reconnect_timeout = reconnect_timeout
        self._reconnecting = threading.RLock()
        self._thread: threading.Thread | None = None
        self._work = threading.Event()
        self._connection = Connection(store, self.ring_size)
        super().__init__(self._connection.config, send_timeout_s=timeout)
        self._bind()
        _producers.add(self)

    def _bind(self) -> None:
        link = self._connection
        assert link.ring is not None
        self.configure(link.config)
        self.stalled = False
        self.bind(link.ring, link.capacity, link.control.memory, link.bell)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open_topic(self, topic: str | Delayed) -> Route:
        """Asks for the right to write to a topic, or to delay messages for it; the store makes it
        if it may. Called once a topic by `send`.
        """
        if isinstance(topic, Delayed):
            timer = topic.system == TIMER_TOPIC
            request = {"do": "open_delayed", "topic": topic.topic, "timer": timer}
            route = Route(topic.system, tuple(self._connection.request(request)["delayed"]))
        elif isinstance(topic, str):
            answer = self._connection.request({"do": "open", "topic": topic, "write": True})
            route = Route(topic, tuple(answer["slots"]))
        else:
            raise TypeError(f"topic must be str, not {type(topic).__name__}")
        self.routes[topic] = route
        return route

    def open_retry(self, group: str, *, dead: bool) -> str:
        """Opens the retry topic of a consumer group, or its dead-letter topic, and makes it if it
        is not there: its name.
        """
        name = dead_letter_topic(group) if dead else retry_topic(group)
        if name not in self.routes:
            request = {"do": "open_retry", "group": group, "dead": dead}
            self.routes[name] = Route(name, tuple(self._connection.request(request)["slots"]))
        return name

    @property
    def config(self) -> StoreConfig:
        """What the store has said of itself."""
        return self._connection.config

    @property
    def session(self) -> int:
        """The store's number for this session: no other of the same run of the store has it."""
        return self._connection.session

    def flush(self, timeout: float | None = None) -> None:
        """Waits until everything sent so far was answered. Raises SendTimeout."""
        self.wait_answered(self.send_timeout_s if timeout is None else timeout)

    def close(self) -> None:
        """Ends the session. What was published is still appended; futures that are open fail with
        StoreClosed.
        """
        if self.closed is None:
            self.shut(StoreClosed("the producer is closed"))
        self._work.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._connection.close()

    # -- called by the kernel

    def check_alive(self) -> None:
        """After a wait without progress: is the store still there? Raises StoreClosed, or
        reconnects.
        """
        if self.closed is not None:
            raise self.closed
        why = self.closed_by_store
        if why == 0 and self._connection.is_alive():
            self.stalled = self._stuck_ms() > 0
            return
        if why == RingClosed.BAD_FRAME:
            error: StoreError = SessionLost(
                "the store closed this session because its ring made no sense: is another program "
                "writing to this process's memory?"
            )
        else:
            error = StoreClosed(
                f"the store at {self.store} stopped with messages of this producer unanswered"
            )
        if self.on_restart == "retry" and why != RingClosed.BAD_FRAME:
            self._reconnect(error)
            return
        self.shut(error)
        raise error

    def _stuck_ms(self) -> int:
        """For how long append is stuck in one batch, if that is longer than the store allows."""
        link = self._connection
        return refusals.append_stuck_ms(link.control, link.config.page_cache_busy_ms)

    def check_stalled(self) -> None:
        """Before a put, when a wait has found append stuck. Raises IllegalMessage while it is:
        nothing of the message was published.
        """
        stuck_ms = self._stuck_ms()
        if stuck_ms:
            raise refusals.page_cache_busy(stuck_ms, self._connection.config.page_cache_busy_ms)
        self.stalled = False

    def serve_callbacks(self) -> None:
        """Starts the thread that resolves futures with callbacks, at the first of them."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._serve, name="silomq-callbacks", daemon=True
            )
            self._thread.start()
        self._work.set()

    def _serve(self) -> None:
        while self.closed is None:
            if not self.waiting:
                self._work.clear()
                if not self.waiting:
                    self._work.wait(1.0)
                continue
            try:
                self.progress(0.05)
            except StoreError:
                return

    def _reconnect(self, error: StoreError) -> None:
        """A new session in place of the lost one; then sends again, in order, what was not
        answered.
        """
        with self._reconnecting:
            if self.closed_by_store == 0 and self._connection.is_alive():
                return  # another thread did it
            open_frames = self.unanswered()
            old = self._connection
            deadline = time.monotonic() + self.reconnect_timeout
            while True:
                try:
                    self._connection = Connection(self.store, self.ring_size)
                    break
                except StoreError:
                    if time.monotonic() > deadline:
                        self.shut(error)
                        raise error from None
                    time.sleep(0.05)
            old.close()
            self.forget_pending()
            self._bind()
            for records, count, future in open_frames:
                record = decode_record(records, check_crc=False)
                topic: str | Delayed = record.topic
                if topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
                    topic = Delayed(record.topic, record.properties[REAL_TOPIC])
                slot = self.open_topic(topic).slots[record.queue_id]
                self.resubmit(records, count, slot, future, self.reconnect_timeout)


def _after_fork() -> None:
    for producer in list(_producers):
        producer.forbid(StoreClosed("a producer cannot be used in a forked child: open one there"))


os.register_at_fork(after_in_child=_after_fork)
