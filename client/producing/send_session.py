"""A producer's session: it owns connection, ring and encoder, and decides what to do when there is
no progress.

Calls run one way: `Sender` and `SendFuture` call the session, the session uses the ring and the
connection. They call

- `open_topic` for the route of a topic that is new to them,
- `before_put` while the ring is on hold, because the session has set one of its `holds`,
- `look_after` after each wait without progress,
- `settle` when the ring has resolved futures that have callbacks or were refused,
- `refuse` for the error of a refused message.

A message that is sent and answered needs none of them, except for the first message of a topic.
"""

from __future__ import annotations

import enum
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

from ...shm.protocol.requests import Open, OpenDelayed, OpenRetry
from ...store.errors import IllegalMessage, StoreError
from ...store.names import TIMER_TOPIC, dead_letter_topic, retry_topic
from ..errors import SendTimeout, StoreClosed
from ..session import Connection, StoreConfig
from . import refusals
from ._encode import Encoder
from ._future import fail, settle
from ._message import Route
from ._ring import Ring
from .message_properties import Delayed
from .resend import Frame, connect_again, may_resend, resend, session_lost

_sessions: weakref.WeakSet[SendSession] = weakref.WeakSet()


class Hold(enum.IntFlag):
    """Why the session must be asked before a frame is written."""

    CLOSED = 1
    #: A wait found append stuck in one batch.
    STALLED = 2
    #: Unanswered messages of an earlier session are being sent again, and must come first.
    RESENDING = 4


class SendSession:
    """The session of one Producer, also across restarts of the store.

    `connect` opens a connection that has a ring; it is called again after a restart. `on_restart`
    and `reconnect_timeout_s` are the Producer's. Any thread may call any method.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        *,
        timeout_s: float,
        on_restart: str,
        reconnect_timeout_s: float,
    ) -> None:
        self.timeout_s = timeout_s
        self.on_restart = on_restart
        self.reconnect_timeout_s = reconnect_timeout_s
        #: The error that every further call raises; None while the session is open.
        self.closed: StoreError | None = None
        #: Topic, or Delayed, -> Route. Valid for one connection, and until a refusal.
        self.routes: dict[str | Delayed, Route] = {}
        self.ring = Ring()
        self._connect = connect
        self._recovering = threading.Lock()
        self._unsent: deque[Frame] = deque()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._work = threading.Event()
        self._link = connect()
        self.encoder = Encoder(self._link.config)
        self._bind()
        _sessions.add(self)

    @property
    def folder(self) -> str:
        """The store's folder."""
        return self._link.path

    @property
    def config(self) -> StoreConfig:
        """The configuration that the store has sent."""
        return self._link.config

    @property
    def number(self) -> int:
        """The store's number for this session, unique within one run of the store."""
        return self._link.session

    def _bind(self) -> None:
        """Starts the ring and the encoder for the connection."""
        link, config = self._link, self._link.config
        assert link.ring is not None
        self.routes.clear()
        self.encoder.configure(config)
        self.ring.bind(
            link.ring,
            link.capacity,
            link.control.memory,
            link.bell,
            level=config.level,
            spin_ns=config.producer_spin_us * 1000,
            sync_timeout_ns=config.sync_flush_timeout_ms * 1_000_000,
        )

    # -- topics

    def open_topic(self, topic: str | Delayed) -> Route:
        """Asks the store for the right to write to a topic, or to delay messages for it. The store
        makes the topic if it may. Raises IllegalMessage, StoreClosed, and TypeError for a topic
        that is no str.
        """
        if self.closed is not None:
            raise self.closed
        if isinstance(topic, Delayed):
            timer = topic.system == TIMER_TOPIC
            answer = self._link.request(OpenDelayed(topic.topic, timer=timer))
            route = Route(topic.system, answer.delayed)
        elif isinstance(topic, str):
            route = Route(topic, self._link.request(Open(topic, write=True)).slots)
        else:
            raise TypeError(f"topic must be str, not {type(topic).__name__}")
        self.routes[topic] = route
        return route

    def open_retry(self, group: str, *, dead: bool) -> str:
        """Opens the retry topic of a consumer group, or its dead-letter topic, and makes it if it
        is not there. Returns its name.
        """
        name = dead_letter_topic(group) if dead else retry_topic(group)
        if name not in self.routes:
            self.routes[name] = Route(name, self._link.request(OpenRetry(group, dead=dead)).slots)
        return name

    def number_keys(self, prefix: str, first: int) -> None:
        """Makes the next UNIQ_KEYs of `prefix` (20 hexadecimal digits, capitals) and 12 digits that
        count from `first` (1 to 2^48 - 1).

        For a program that must recognize its messages after a restart. Raises ValueError.
        """
        self.encoder.number_keys(prefix, first)

    # -- called by the sender and its futures

    def before_put(self) -> None:
        """Returns when frames may be written again. Raises the error of a closed session, and
        IllegalMessage (OS_PAGE_CACHE_BUSY) while append is stuck: nothing was published.
        """
        if self.closed is not None:
            raise self.closed
        self._await_resent()
        if self.ring.holds & Hold.STALLED:
            stuck_ms = self._stuck_ms()
            if stuck_ms:
                raise refusals.page_cache_busy(stuck_ms, self.config.page_cache_busy_ms)
            self.ring.release(Hold.STALLED)

    def look_after(self) -> None:
        """Checks, after a wait without progress, whether the store is there and append is not
        stuck.

        Returns if the store is there, or after a new session replaced a lost one. Otherwise raises
        StoreClosed, as every later call does.
        """
        if self.closed is not None:
            raise self.closed
        why = self.ring.closed_by_store
        if why == 0 and self._link.is_alive():
            if self._stuck_ms():
                self.ring.hold(Hold.STALLED)
            else:
                self.ring.release(Hold.STALLED)
            return
        error = session_lost(self._link.path, why)
        if may_resend(self.on_restart, why):
            self._recover(error)
            return
        self.shut(error)
        raise error

    def settle(self) -> None:
        """Gives refused futures their errors, and runs the callbacks of those that are resolved."""
        settle(self.ring)

    def refuse(self, status: int) -> IllegalMessage:
        """The error for a message that the store refused. The next send opens its topic again,
        because the right to write to it may have been revoked.
        """
        self.routes.clear()
        return refusals.refusal(status, self._link.control.memory)

    def _stuck_ms(self) -> int:
        """For how many ms append is stuck in one batch, if that is longer than the store allows;
        else 0.
        """
        return refusals.append_stuck_ms(self._link.control, self.config.page_cache_busy_ms)

    # -- reconnecting

    def _recover(self, lost: StoreError) -> None:
        """Replaces the lost connection and sends the unanswered messages again. Raises `lost` when
        the store does not come back in time.
        """
        with self._recovering:
            if self.closed is not None:
                raise self.closed
            if not self._is_open():  # else another thread has done it
                # No thread may publish until all is sent again, neither in the old ring nor in the
                # new one.
                self.ring.hold(Hold.RESENDING)
                try:
                    deadline = time.monotonic() + self.reconnect_timeout_s
                    self._reconnect(lost, deadline)
                    while not self._resend(deadline):
                        self._reconnect(lost, deadline)
                finally:
                    self.ring.release(Hold.RESENDING)
        self.settle()

    def _reconnect(self, lost: StoreError, deadline: float) -> None:
        """Binds the ring to a new connection. Closes the session and raises `lost` if none can be
        made.
        """
        link = connect_again(self._connect, deadline, lambda: self.closed is None)
        if link is None:
            if self.closed is None:
                self.shut(lost)
            raise self.closed or lost
        old, self._link = self._link, link
        old.close()
        if self.closed is not None:  # `close` may have run before `_link` was set
            link.close()
            raise self.closed
        # Frames that the lost session had already sent again come before those that it had not.
        self._unsent.extendleft(reversed(self.ring.take_unanswered()))
        self._bind()

    def _resend(self, deadline: float) -> bool:
        """Sends the unanswered messages again. Returns False when the session is lost again. After
        an error or an interrupt some stay unsent, so the session is closed.
        """
        try:
            return resend(self._unsent, self.ring, self._route, self._is_open, deadline)
        except BaseException as error:
            why = f"what was unanswered was not sent again ({error!r})"
            self.shut(error if isinstance(error, StoreError) else StoreClosed(why))
            raise

    def _route(self, topic: str | Delayed) -> Route:
        return self.routes.get(topic) or self.open_topic(topic)

    def _is_open(self) -> bool:
        """Whether the store still holds the session and reads its ring."""
        return self.ring.closed_by_store == 0 and self._link.is_alive()

    def _await_resent(self) -> None:
        """Waits while another thread sends unanswered messages again."""
        if self.ring.holds & Hold.RESENDING:
            with self._recovering:
                pass

    # -- callbacks

    def serve_callbacks(self) -> None:
        """Starts the thread that resolves futures with callbacks, if it does not run yet."""
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._serve, name="silomq-callbacks", daemon=True
                    )
                    self._thread.start()
        self._work.set()

    def _serve(self) -> None:
        while self.closed is None:
            if not self.ring.watched:
                self._work.clear()
                if not self.ring.watched:
                    self._work.wait(1.0)
                continue
            try:
                self._progress()
            except StoreError:
                return

    def _progress(self) -> None:
        """Waits once for the next answers, and settles the futures that they resolve."""
        self._await_resent()
        if not self.ring.wait_progress():
            self.look_after()
        self.ring.look()
        self.settle()

    # -- flushing and closing

    @property
    def in_flight(self) -> int:
        """Bytes of the ring that the store has not answered yet."""
        self.ring.look()
        self.settle()
        return self.ring.head - self.ring.tail

    def flush(self, timeout_s: float) -> None:
        """Waits until all that was published before is answered, and under SYNC_FLUSH is durable.
        Raises SendTimeout, and StoreClosed when the session is closed first.
        """
        ring, deadline = self.ring, time.monotonic() + timeout_s
        generation, target = -1, 0
        while True:
            ring.look()
            self.settle()
            if ring.generation != generation:
                self._await_resent()
                generation, target = ring.generation, ring.head
            if ring.tail >= target and ring.synced:
                return
            if self.closed is not None:
                raise self.closed
            if time.monotonic() >= deadline:
                raise SendTimeout(
                    f"{max(0, target - ring.tail)} bytes were not answered within {timeout_s:g} s"
                )
            if not ring.wait_progress():
                self.look_after()

    def shut(self, error: StoreError) -> None:
        """Closes the session: every later call and every open future raises `error`."""
        self.closed = error
        self.ring.hold(Hold.CLOSED)
        fail(self.ring.take_open(), error)
        fail([pending for _, _, pending in list(self._unsent)], error)
        self.settle()

    def forbid(self, error: StoreError) -> None:
        """As `shut`, in a forked child: its parent's futures are not touched."""
        self.closed = error
        self.ring.hold(Hold.CLOSED)

    def close(self) -> None:
        """Ends the session. Messages that were published are still appended; open futures fail with
        StoreClosed.
        """
        if self.closed is None:
            self.shut(StoreClosed("the producer is closed"))
        self._work.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._link.close()


def _after_fork() -> None:
    for session in list(_sessions):
        session.forbid(StoreClosed("a producer cannot be used in a forked child: open one there"))


os.register_at_fork(after_in_child=_after_fork)
