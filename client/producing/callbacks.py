"""`CallbackThread`: the thread of a producer that takes answers for futures with callbacks."""

from __future__ import annotations

import logging
import queue
import threading
import weakref
from typing import Protocol

_log = logging.getLogger("silomq")


class Session(Protocol):
    """What the thread needs of a SendSession."""

    @property
    def closed(self) -> Exception | None:
        """The error that closed the session; None while it is open."""

    def callbacks_due(self) -> bool:
        """Whether a future without an answer has a callback."""

    def progress(self) -> None:
        """Waits once for the next answers, and runs the callbacks of those that have come."""


class CallbackThread:
    """Resolves the futures of `session` that have callbacks, until the session is closed or
    collected. The thread starts when it is first needed, and sleeps while no callback is due.

    It holds the session only while one is due, so it does not keep a session that nobody else has.
    No error ends it, because all later callbacks would be lost.
    """

    def __init__(self, session: Session) -> None:
        # An Event's lock could be taken twice, when the session is collected within a call of the
        # event. A SimpleQueue allows that.
        self._work = work = queue.SimpleQueue[None]()
        self._session = weakref.ref(session, lambda _: work.put(None))
        self._asleep = False
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Called after each new callback."""
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    thread = threading.Thread(
                        target=self._run, name="silomq-callbacks", daemon=True
                    )
                    thread.start()
                    self._thread = thread
        if self._asleep:
            self._asleep = False
            self._work.put(None)

    def end(self) -> None:
        """Waits until the thread has ended, after its session was closed. A callback that calls
        this does not wait for itself.
        """
        self._work.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while (session := self._session()) is not None and session.closed is None:
            self._serve(session)
            del session
            self._work.get()

    def _serve(self, session: Session) -> None:
        while session.closed is None:
            self._asleep = True  # before the look, so that no wake is missed
            if not session.callbacks_due():
                return
            self._asleep = False
            try:
                session.progress()
            except BaseException as error:  # noqa: BLE001 - also a callback's SystemExit
                if error is not session.closed:
                    _log.error("a producer's thread of callbacks goes on after", exc_info=error)
