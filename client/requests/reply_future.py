"""`ReplyFuture`: the reply to one request."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from .. import arguments
from ..errors import RequestTimeout

if TYPE_CHECKING:
    from ..consuming.message_view import MessageView

_log = logging.getLogger("silomq")


class ReplyFuture:
    """The reply to one `request_async`, which may not be there yet. Any thread may use it, and any
    event loop may await it. `topic` and `correlation_id` say what was asked.

    It has a reply or an error when the time-out of its request is over, at the latest.
    """

    def __init__(self, topic: str, correlation_id: str) -> None:
        self._topic = topic
        self._correlation_id = correlation_id
        self._reply: MessageView | None = None
        self._error: BaseException | None = None
        self._done = False
        # Without locks of its own, because a fork may happen at any time: each step is one call of
        # a list. Whoever waits has a lock that nobody else waits for.
        self._waiting: list[Callable[[], object]] = []

    @property
    def topic(self) -> str:
        """The topic of the request."""
        return self._topic

    @property
    def correlation_id(self) -> str:
        """The CORRELATION_ID of the request and its reply."""
        return self._correlation_id

    def done(self) -> bool:
        """Whether there is a reply or an error."""
        return self._done

    def result(self, timeout: float | None = None) -> MessageView:
        """The reply. Waits for it as long as its request does, or up to `timeout` seconds.

        Raises RequestTimeout when there is none in time, and the errors of the request:
        IllegalMessage, StoreClosed, SendTimeout.
        """
        seconds = arguments.seconds("timeout", timeout)
        if not self._done:
            self._wait(seconds)
        if self._error is not None:
            raise self._error
        assert self._reply is not None
        return self._reply

    def _wait(self, seconds: float) -> None:
        released = threading.Lock()
        released.acquire()
        release = released.release
        self._when_done(release)
        if released.acquire(timeout=-1 if seconds > threading.TIMEOUT_MAX else seconds):
            return
        with contextlib.suppress(ValueError):
            self._waiting.remove(release)
        raise RequestTimeout(
            f"no reply to request {self._correlation_id} for {seconds:g} s: it may still come, as "
            "long as the request waits"
        )

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error that `result` would raise when the request has ended, or None. Waits as
        `result` does; raises RequestTimeout if it does not end in time.
        """
        try:
            self.result(timeout)
        except Exception as error:
            if error is not self._error:
                raise
        return self._error

    def add_done_callback(self, callback: Callable[[ReplyFuture], object]) -> None:
        """Calls `callback(future)` once: at once if the future is done, otherwise in the thread
        that reads replies. Its exception goes to the log `silomq`. It must not wait for a reply.
        """
        arguments.function("callback", callback)

        def call() -> None:
            try:
                callback(self)
            except Exception:  # noqa: BLE001 - of the user's own; nobody could catch it
                _log.exception("a ReplyFuture's callback failed: %s", arguments.named(callback))

        self._when_done(call)

    def __await__(self) -> Generator[Any, None, MessageView]:
        if not self._done:
            import asyncio  # loaded here, because it would slow down the start of every client

            loop = asyncio.get_running_loop()
            ready = loop.create_future()

            def wake() -> None:
                if not ready.done():
                    ready.set_result(None)

            def wake_there() -> None:
                try:
                    loop.call_soon_threadsafe(wake)
                except RuntimeError:  # the loop was closed, and with it everything that could wait
                    if not loop.is_closed():
                        raise

            self._when_done(wake_there)
            yield from ready.__await__()
        return self.result(math.inf)

    __reduce_ex__ = arguments.no_copy

    def _when_done(self, call: Callable[[], object]) -> None:
        self._waiting.append(call)
        if self._done:
            _call_all(self._waiting)


def set_outcome(
    future: ReplyFuture, reply: MessageView | None = None, error: BaseException | None = None
) -> None:
    """Gives a future its reply, or its error: once. `wake` follows."""
    future._reply, future._error = reply, error  # noqa: SLF001 - of this module
    future._done = True  # noqa: SLF001


def wake(future: ReplyFuture) -> None:
    """Wakes those who wait for a future that is done, and calls its callbacks."""
    _call_all(future._waiting)  # noqa: SLF001 - of this module


def _call_all(waiting: list[Callable[[], object]]) -> None:
    """Takes each call out once, whoever else does so at the same time."""
    while waiting:
        try:
            call = waiting.pop(0)
        except IndexError:
            return
        call()
