"""`Listener`: a callback that gets the messages of a consumer group's member, in threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from ...store.errors import StoreError
from .. import arguments
from ..consuming.message_view import MessageView
from ..errors import StoreClosed


class Reader(Protocol):
    """What a listener asks of a member's reader."""

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""

    def check_process(self) -> None:
        """Raises ForkedChild."""

    def wake(self) -> None:
        """Wakes the thread that waits in it."""

    def close(self) -> None:
        """Leaves the group."""


class Listener:
    """Calls a callback for each message of a member of a consumer group. `GroupConsumer.listen`
    makes it and explains its options. It listens as soon as it is made.

    Its main thread reads messages, and its workers call the callback. (RocketMQ:
    `ConsumeMessageService`.)
    """

    def __init__(self, reader: Reader, callback: Callable[[MessageView], object]) -> None:
        self._member = reader
        self._callback = callback
        self._error: Exception | None = None
        self._stopping = self._closing = False
        self._log = logging.getLogger("silomq")
        self._main = threading.Thread(target=self._run, name="silomq-listen", daemon=True)
        self._workers: list[threading.Thread] = []

    @property
    def error(self) -> Exception | None:
        """What ended the listener; None while it runs, or when `stop` ended it."""
        return self._error

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the listener has ended, at most `timeout` seconds (None: without limit).
        Returns whether it has. Raises what ended it, for instance StoreClosed or SessionLost.
        """
        self._member.check_process()
        limit = arguments.seconds("timeout", timeout)
        self._main.join(min(limit, threading.TIMEOUT_MAX))
        if self._error is not None:
            raise self._error
        return not self._main.is_alive()

    def stop(self) -> None:
        """Ends the listener when the callbacks that run now have returned. Messages whose callback
        has not begun come again. Within a callback this does not wait.
        """
        if not self._member.is_open:
            return
        self._end()
        if self._runs_this():
            return
        for thread in (self._main, *self._workers):
            while thread.is_alive():
                self._member.wake()
                thread.join(0.05)

    def close(self) -> None:
        """Ends the listener, then closes its consumer. Within a callback this does not wait: two
        callbacks that do so would wait for each other.
        """
        if self._runs_this():
            self._closing = True
            self._end()
        else:
            self.stop()
            self._member.close()

    def _runs_this(self) -> bool:
        """Whether a thread of this listener calls."""
        return threading.current_thread() in (self._main, *self._workers)

    def _end(self) -> None:
        """Has all threads end."""
        raise NotImplementedError

    def _run(self) -> None:
        """What the main thread does: `_take_turns`, then what the end needs."""
        raise NotImplementedError

    def _turn(self) -> None:
        """Reads once, and has the workers call back."""
        raise NotImplementedError

    def _work(self) -> None:
        """What a worker does, until the listener ends."""
        raise NotImplementedError

    __reduce_ex__ = arguments.no_copy

    # -- for the threads

    def _start(self, workers: int) -> None:
        """Starts the main thread, and so many workers."""
        self._workers = [
            threading.Thread(target=self._work, name=f"silomq-listen-{i}", daemon=True)
            for i in range(workers)
        ]
        for thread in (self._main, *self._workers):
            thread.start()

    def _take_turns(self) -> None:
        """Takes turns until the listener is to end, and notes the error that ends it earlier."""
        try:
            while not self._stopping:
                self._turn()
        except Exception as error:  # noqa: BLE001 - `wait` raises it, whatever it is
            if not (self._stopping and isinstance(error, StoreClosed)):
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Notes what ends the listener. What is no fault of the store goes to the log as well."""
        self._error = self._error or error
        if not isinstance(error, StoreError | OSError):
            self._log.error("the listener ends, because of an error of its own", exc_info=error)

    def _call(self, message: MessageView) -> bool:
        """Whether the callback has consumed the message. Not if it raised anything, SystemExit and
        KeyboardInterrupt among them: this thread must serve the other messages.
        """
        try:
            return self._callback(message) is not False
        except BaseException:  # noqa: BLE001 - whatever it is, the message was not consumed
            self._note_failure(message)
            return False

    def _note_failure(self, message: MessageView) -> None:
        """Logs what the callback has raised."""
        self._log.exception("the callback failed for %r", message)
