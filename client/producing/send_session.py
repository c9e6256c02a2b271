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

import contextlib
import enum
import threading
import time
from collections import deque
from collections.abc import Callable

from ...store.errors import IllegalMessage, StoreError
from .._bell import Bell
from ..errors import SendTimeout, StoreClosed
from ..forks import abandon_in_child, forked_child
from ..session import Connection
from ..store_config import StoreConfig
from . import refusals
from ._encode import Encoder
from ._future import fail, settle
from ._message import Route
from ._ring import Ring
from .callbacks import CallbackThread
from .message_properties import Delayed
from .resend import Frame, connect_again, may_resend, resend, session_lost
from .topic_routes import TopicRoutes
from .waking import Waking


class Hold(enum.IntFlag):
    """Why the session must be asked before a frame is written."""

    CLOSED = 1
    #: A wait found append stuck in one batch.
    STALLED = 2
    #: Unanswered messages of an earlier session are being sent again, and must come first.
    RESENDING = 4


class SendSession(TopicRoutes):
    """The session of one Producer, also across restarts of the store.

    `connect` opens a connection that has a ring; it is called again after a restart. `timeout_s`
    (None: the store's), `on_restart` and `reconnect_timeout_s` are the Producer's. Any thread may
    call any method.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        *,
        timeout_s: float | None,
        on_restart: str,
        reconnect_timeout_s: float,
    ) -> None:
        self.on_restart = on_restart
        self.reconnect_timeout_s = reconnect_timeout_s
        self.closed = None
        self.routes = {}
        self.cluster = ""
        self.ring = Ring()
        self._connect = connect
        self._recovering = threading.Lock()
        self._unsent: deque[Frame] = deque()
        self._callbacks = CallbackThread(self)
        self._light = set()
        self._forked = False
        self._lost = False  # the thread of callbacks is to reconnect
        self.waking = Waking(self)
        self._link = connect()
        #: How long a call waits that has no time-out of its own.
        self.timeout_s = self._link.config.patience_s if timeout_s is None else timeout_s
        self.encoder = Encoder(self._link.config)
        self._bind()
        abandon_in_child(self)

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
        self.waking.renew(self)

    def number_keys(self, prefix: str, first: int) -> None:
        """Makes the next UNIQ_KEYs of `prefix` (20 hexadecimal digits, capitals) and 12 digits that
        count from `first` (1 to 2^48 - 1).

        For a program that must recognize its messages after a restart. Raises ValueError.
        """
        self.encoder.number_keys(prefix, first)

    # -- called by the sender and its futures

    def before_put(self) -> None:
        """Returns when frames may be written again. Raises the error of a closed session, and
        IllegalMessage while append is stuck (OS_PAGE_CACHE_BUSY), or lacks a file: nothing was
        published.
        """
        if self.closed is not None:
            raise self.closed
        self._await_resent()
        if self.ring.holds & Hold.STALLED:
            if error := self._stuck():
                raise error
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
            if self._stuck():
                self.ring.hold(Hold.STALLED)
            else:
                self.ring.release(Hold.STALLED)
            return
        error = session_lost(self._link.shown, why)
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

    def _stuck(self) -> IllegalMessage | None:
        """The error of puts while append does not work; None if it does."""
        return refusals.while_stuck(self._link.control, self.config.page_cache_busy_ms)

    # -- reconnecting

    def _recover(self, lost: StoreError) -> None:
        """Replaces the lost connection and sends the unanswered messages again. Raises `lost` when
        the store does not come back in time.
        """
        try:
            with self._recovering:
                self._replace_link(lost)
        finally:
            self.settle()  # without the lock, because a callback may close the session

    def _replace_link(self, lost: StoreError) -> None:
        if self.closed is not None:
            raise self.closed
        if self._is_open():
            return  # another thread has done it
        # No thread may publish until all is sent again, neither in the old ring nor in the new one.
        self.ring.hold(Hold.RESENDING)
        try:
            deadline = time.monotonic() + self.reconnect_timeout_s
            self._reconnect(lost, deadline)
            while not self._resend(deadline):
                self._reconnect(lost, deadline)
        finally:
            self.ring.release(Hold.RESENDING)

    def _reconnect(self, lost: StoreError, deadline: float) -> None:
        """Binds the ring to a new connection. Closes the session and raises `lost` if none can be
        made.
        """
        link = connect_again(self._connect_anew, deadline, lambda: self.closed is None)
        if link is None:
            if self.closed is None:
                self._fail_open(lost)
            raise self.closed or lost
        old, self._link = self._link, link
        old.close()
        if self.closed is not None:  # `close` may have run before `_link` was set
            link.close()
            raise self.closed
        # Frames that the lost session had already sent again come before those that it had not.
        self._unsent.extendleft(reversed(self.ring.take_unanswered()))
        self._bind()
        for name in self._light:
            # Without the right to write there the store refuses the message, which says so.
            with contextlib.suppress(IllegalMessage):
                self.open_topic(name)

    def _connect_anew(self) -> Connection:
        """A new connection, with a bell if the one before had one."""
        link = self._connect()
        if self.waking.in_use:
            try:
                link.own_bell()
            except BaseException:
                link.close()
                raise
        return link

    def _resend(self, deadline: float) -> bool:
        """Sends the unanswered messages again. Returns False when the session is lost again. After
        an error or an interrupt some stay unsent, so the session is closed.
        """
        try:
            return resend(self._unsent, self.ring, self._route, self._is_open, deadline)
        except BaseException as error:
            why = f"what was unanswered was not sent again ({error!r})"
            self._fail_open(error if isinstance(error, StoreError) else StoreClosed(why))
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
        """Has a thread resolve futures with callbacks. Called after each new one."""
        self._callbacks.wake()

    def callbacks_due(self) -> bool:
        """Whether a future without an answer has a callback, or the session is lost."""
        return self._lost or self.ring.watched > 0

    def progress(self) -> None:
        """Waits once for the next answers, and settles the futures that they resolve."""
        self._await_resent()
        lost, self._lost = self._lost, False
        if lost or not self.ring.wait_progress():
            self.look_after()
        self.ring.look()
        self.settle()

    # -- sleeping without a thread

    def own_bell(self) -> Bell:
        """The bell of the present connection. Raises IllegalMessage, StoreClosed."""
        return self._link.own_bell()

    def fileno(self) -> int:
        """The descriptor that is readable when there may be answers (`waking.py`)."""
        if self.closed is not None:
            raise self.closed
        return self.waking.fileno(self)

    def look_beside(self) -> bool:
        """As `look_after`, but neither waits nor raises. False if the session is lost, and the
        thread of callbacks reconnects.
        """
        if self.closed is None:
            if not self._is_open() and may_resend(self.on_restart, self.ring.closed_by_store):
                self._lost = True
                self.serve_callbacks()
                return False
            with contextlib.suppress(StoreError):
                self.look_after()
        return True

    def poll(self) -> bool:
        """As `Producer.poll`."""
        self.waking.look(self)
        if self.closed is not None:
            raise self.closed
        return self.ring.tail < self.ring.head or not self.ring.synced

    # -- flushing and closing

    @property
    def in_flight(self) -> int:
        """Bytes of the ring that the store has not answered yet."""
        if self._forked and self.closed is not None:
            raise self.closed
        self.ring.look()
        self.settle()
        return self.ring.head - self.ring.tail

    def flush(self, timeout_s: float) -> None:
        """Waits until all that was published before is answered, and under SYNC_FLUSH is durable.
        Raises SendTimeout, and StoreClosed when the session is closed first.
        """
        if self._forked and self.closed is not None:
            raise self.closed
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
        self._fail_open(error)
        self.settle()

    def _fail_open(self, error: StoreError) -> None:
        """Closes the session, but runs no callbacks yet (`settle`)."""
        self.closed = error
        self.ring.hold(Hold.CLOSED)
        fail(self.ring.take_open(), error)
        fail([pending for _, _, pending in list(self._unsent)], error)

    def abandon(self) -> None:
        """As `shut`, in a forked child (`client/forks.py`): the child's copies of the futures fail,
        and none of their callbacks is called.
        """
        self._forked = True
        self._fail_open(forked_child("Producer", self._link.shown))
        self.ring.take_told()
        self.waking.abandon()

    def close(self) -> None:
        """Ends the session. Messages that were published are still appended; open futures fail with
        StoreClosed.
        """
        if self._forked:
            return
        try:
            if self.closed is None:
                self.shut(StoreClosed("the producer is closed"))
        finally:
            self._callbacks.end()
            self.waking.close()
            self._link.close()
