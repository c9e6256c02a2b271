"""`ReplyReader`: a thread that reads the replies to one producer."""

from __future__ import annotations

import logging
import math
import os
import select
import threading
import time
from typing import TYPE_CHECKING, Final

from ...store.disk.forks import NO_FORK
from ...store.errors import Corrupt, CorruptRange, StoreError
from ...store.names import REPLIES_TOPIC
from ...store.record.requests import CORRELATION_ID, REPLY_TO_CLIENT
from ..consuming.consumer import Consumer
from ..errors import StoreClosed
from ..forks import abandon_in_child, forked_child

if TYPE_CHECKING:
    from ..consuming.message_view import MessageView
    from .waiting_requests import WaitingRequests

_BATCH: Final = 256
#: So often it tries to meet a store that was restarted (s).
_AGAIN_S: Final = 0.05
_log = logging.getLogger("silomq")


class ReplyReader:
    """Reads queue `queue` of the replies in a store, from its present end on, and hands those to
    `client_id` to the requests that wait. `reconnect_s` is how long it waits for a store that has
    stopped; 0 ends all requests then.

    The thread runs until `stop`, and after `release` while requests wait. Raises what opening a
    Consumer raises.
    """

    def __init__(
        self,
        store: str,
        client_id: str,
        queue: int,
        waiting: WaitingRequests,
        *,
        reconnect_s: float,
    ) -> None:
        self._store = store
        self._client_id = client_id
        self._queue = queue
        self._waiting = waiting
        self._reconnect_s = reconnect_s
        self._next: int | None = None  # queue offset of the next reply
        self._stopping = False
        self._released = False
        self._wakes_at = -math.inf  # when the sleeping thread looks by itself (monotonic)
        with NO_FORK:
            self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            abandon_in_child(self)
        self._begun = threading.Event()
        self._refused: list[Exception] = []
        self._thread = threading.Thread(target=self._run, name="silomq-replies", daemon=True)
        self._thread.start()
        self._begun.wait()
        for error in self._refused:
            self._thread.join()
            raise error

    @property
    def ended(self) -> bool:
        """Whether nobody reads any more."""
        return not self._thread.is_alive()

    def expect_until(self, deadline: float) -> None:
        """Sees to it that the thread looks at `deadline` (monotonic)."""
        if deadline < self._wakes_at:
            self._ring()

    def release(self) -> None:
        """Ends the thread when no request waits. Does not wait for that."""
        self._released = True
        self._ring()

    def stop(self) -> None:
        """Ends the thread. A callback that calls this does not wait for itself."""
        self._stopping = True
        self._ring()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def abandon(self) -> None:
        """Ends the requests in a forked child, which has no thread that reads."""
        self._stopping = True
        self._close()
        self._waiting.abandon(forked_child("RequestProducer", self._store))

    def _ring(self) -> None:
        with NO_FORK:  # the thread closes the descriptor when it ends
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def _close(self) -> None:
        with NO_FORK:
            wake, self._wake = self._wake, -1
            if wake >= 0:
                os.close(wake)

    # -- the thread

    def _ends(self) -> bool:
        return self._stopping or (self._released and not self._waiting)

    def _run(self) -> None:
        try:
            self._read_all()
        except Exception as error:  # noqa: BLE001 - those that wait get it
            if not self._begun.is_set():
                self._refused.append(error)
            elif not isinstance(error, StoreError):
                _log.exception("replies are read no longer")
            self._waiting.fail_all(error)  # otherwise they would wait for ever
        finally:
            self._begun.set()
            self._close()

    def _read_all(self) -> None:
        """Reads until the end; after a restart of the store it goes on where it was. Raises
        StoreError when there is no store any more.
        """
        lost_at = -math.inf
        while not self._ends():
            try:
                with Consumer(self._store, REPLIES_TOPIC, queues=[self._queue]) as consumer:
                    self._begin(consumer)
                    self._begun.set()
                    lost_at = -math.inf
                    self._follow(consumer)
            except StoreError as error:
                if not self._begun.is_set():
                    raise
                now = time.monotonic()
                lost_at = max(lost_at, now) if lost_at == -math.inf else lost_at
                if now - lost_at >= self._reconnect_s:
                    raise StoreClosed(
                        f"the store at {self._store} ended before the reply came: whether the "
                        f"request was consumed is not known ({error})"
                    ) from error
                self._sleep(min(self._waiting.end_late(), now + _AGAIN_S), -1)

    def _begin(self, consumer: Consumer) -> None:
        """Goes to the queue's end at first, and later to where the thread was. A store of an older
        state may end before that.
        """
        consumer.seek(self._queue, "latest")
        (end,) = consumer.positions().values()
        if self._next is not None and self._next < end:
            consumer.seek(self._queue, self._next)
        else:
            self._next = end

    def _follow(self, consumer: Consumer) -> None:
        while not self._ends():
            found = self._read(consumer)
            (self._next,) = consumer.positions().values()
            for message in found:
                self._match(message)
            due = self._waiting.end_late()
            if not found and not self._ends():
                self._sleep(due, consumer.fileno())

    def _read(self, consumer: Consumer) -> list[MessageView]:
        """The next replies. What is damaged or lost is passed: somebody gets no reply."""
        try:
            return consumer.poll(_BATCH)
        except CorruptRange as hole:
            _log.error("replies are lost: %s", hole)
        except Corrupt as damage:
            _log.error("a reply is damaged: %s", damage)
            (at,) = consumer.positions().values()
            consumer.seek(self._queue, at + 1)
        return []

    def _match(self, message: MessageView) -> None:
        try:
            properties = message.properties
        except StoreError as damage:
            _log.error("a reply is damaged: %s", damage)
            return
        if properties.get(REPLY_TO_CLIENT) != self._client_id:
            return
        key = properties.get(CORRELATION_ID, "")
        if not self._waiting.reply(key, message):
            _log.info("a reply to request %s came late, or twice: dropped", key)

    def _sleep(self, due: float, fd: int) -> None:
        """Sleeps until `due`, or a call of `_ring`, or `fd` is readable."""
        self._wakes_at = due
        # A request that was added before `_wakes_at` was set did not ring.
        left = min(due, self._waiting.end_late()) - time.monotonic()
        poll = select.poll()
        for one in (self._wake, fd):
            if one >= 0:
                poll.register(one, select.POLLIN)
        poll.poll(None if left == math.inf else math.ceil(max(0.0, left) * 1000))
        self._wakes_at = -math.inf
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            return
