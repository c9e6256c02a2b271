"""`Waking`: how a producer sleeps without a thread: with `fileno`, and in event loops.

The session has a bell of its own (`shm/bell.py`) from the first `fileno` or `await` on. Append
rings it for answers, and flush for syncs. The bell lies in an epoll, whose descriptor stays the
same when the store restarts and the session gets another bell.

Several loops may wait in several threads, and the descriptor wakes them all. Whoever comes first
takes the answers of all, and arms the bell anew. A future is resolved in its own loop, through a
callback.
"""

from __future__ import annotations

import contextlib
import functools
import select
import threading
import weakref
from typing import TYPE_CHECKING, Protocol

from ...store.disk.forks import NO_FORK
from ...store.errors import StoreError, limited_by_open_files
from ..loop_reader import LoopReaders, resolve
from ._future import unwatch, watch

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from .._bell import Bell
    from ..loop_reader import Loop, LoopReader, Ready
    from ._future import SendFuture
    from ._ring import Ring

#: So often (s) a loop that waits looks whether the store is there, and append is not stuck.
_TICK_S = 1.0


class Session(Protocol):
    """What is needed of a SendSession."""

    @property
    def ring(self) -> Ring:
        """The ring."""

    def own_bell(self) -> Bell:
        """The bell of the present connection. Raises StoreError."""

    @property
    def waking(self) -> Waking:
        """What this class is to the session."""

    def settle(self) -> None:
        """Settles what the ring has resolved."""

    def look_beside(self) -> bool:
        """Looks whether the store is there, and does not wait. False while a thread reconnects."""

    def serve_callbacks(self) -> None:
        """Has a thread resolve futures with callbacks."""


class Waking:
    """Wakes those who wait for answers of `session`, to which it refers weakly."""

    def __init__(self, session: Session) -> None:
        self._session = found = weakref.ref(session)
        self._changing = threading.Lock()
        self._epoll: select.epoll | None = None
        self._bell: Bell | None = None
        self._readers = LoopReaders(functools.partial(_take_answers, found))
        self._timers: dict[Loop, asyncio.TimerHandle] = {}

    @property
    def in_use(self) -> bool:
        """Whether somebody has asked for the descriptor, or has awaited a future."""
        return self._epoll is not None

    def fileno(self, session: Session) -> int:
        """The descriptor. The first call asks the store for the bell. Raises as `own_bell`,
        TooManyOpenFiles.
        """
        with self._changing:
            if self._epoll is None:
                bell = session.own_bell()
                with limited_by_open_files(), NO_FORK:
                    self._epoll = select.epoll()
                self._use(session, bell)
            return self._epoll.fileno()

    def renew(self, session: Session) -> None:
        """Goes over to the bell of another connection, which was asked for before."""
        with self._changing:
            if self._epoll is not None:
                self._use(session, session.own_bell())

    def _use(self, session: Session, bell: Bell) -> None:
        assert self._epoll is not None
        self._bell = bell
        self._epoll.register(bell.fd, select.EPOLLIN)
        session.ring.use_bell(bell)

    def look(self, session: Session) -> None:
        """Takes the answers that have come, and arms the bell for the next ones. Runs callbacks. A
        bell that has hung up may mean the end of the session.
        """
        bell = session.ring.own_bell
        rings = session.ring.rest()
        try:
            session.settle()
        finally:
            if not rings and not session.look_beside():
                self._leave(bell)

    def _leave(self, bell: Bell | None) -> None:
        """Ignores a bell that has hung up, unless the thread that reconnects has already gone over
        to the next one.
        """
        with self._changing:
            if self._epoll is not None and bell is not None and self._bell is bell:
                self._bell = None
                with contextlib.suppress(OSError, ValueError):  # closed meanwhile
                    self._epoll.unregister(bell.fd)

    # -- in event loops

    async def wait(self, session: Session, future: SendFuture) -> None:
        """Waits until `future` is resolved. Without a bell, which the store may refuse for want of
        descriptors, the thread of callbacks resolves it.
        """
        try:
            reader = self._readers.here(self.fileno(session))
        except StoreError:
            await self._wait_for_thread(session, future)
            return
        ready = reader.enter()
        finish = _finisher(reader.loop, ready)
        watch(future, finish)
        try:
            session.ring.listen()
            session.settle()
            self._set_timer(session, reader)
            await ready
        finally:
            unwatch(future, finish)
            reader.leave(ready)

    @staticmethod
    async def _wait_for_thread(session: Session, future: SendFuture) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        watch(future, _finisher(loop, ready))
        session.serve_callbacks()
        await ready

    def take_answers(self, session: Session, reader: LoopReader) -> None:
        """Called when the descriptor is readable in a reader's loop."""
        self.look(session)
        self._set_timer(session, reader)

    def _set_timer(self, session: Session, reader: LoopReader) -> None:
        """Has the loop look at the session once a second while somebody waits in it, and when the
        next wait for a sync times out.
        """
        loop = reader.loop
        due = loop.time() + min(_TICK_S, session.ring.patience_s)
        timer = self._timers.get(loop)
        if timer is None or timer.when() > due:
            if timer is not None:
                timer.cancel()
            self._timers = {one: t for one, t in self._timers.items() if not one.is_closed()}
            self._timers[loop] = loop.call_at(due, _tick, self._session, reader)

    def tick(self, session: Session, reader: LoopReader) -> None:
        """Called when the time of `_set_timer` has come."""
        self._timers.pop(reader.loop, None)
        if reader.waiting:
            self.look(session)
            session.look_beside()
            self._set_timer(session, reader)

    # -- the end

    def close(self) -> None:
        """Closes the descriptors, those of loops as soon as nobody waits in them."""
        self._readers.close()
        self.abandon()

    def abandon(self) -> None:
        """Closes the epoll. In a forked child the readers close themselves."""
        with NO_FORK:
            if self._epoll is not None:
                self._epoll.close()


def _take_answers(found: weakref.ref[Session], reader: LoopReader) -> None:
    session = found()
    if session is not None:
        session.waking.take_answers(session, reader)


def _tick(found: weakref.ref[Session], reader: LoopReader) -> None:
    session = found()
    if session is not None:
        session.waking.tick(session, reader)


def _finisher(loop: Loop, ready: Ready) -> Callable[[object], None]:
    """A callback for a SendFuture, which any thread may call: it wakes who waits for `ready`."""
    thread = threading.get_ident()

    def finish(_: object) -> None:
        if loop.is_closed():  # and with it everything that could wait
            return
        if threading.get_ident() == thread:
            resolve(ready)
            return
        try:
            loop.call_soon_threadsafe(resolve, ready)
        except RuntimeError:
            if not loop.is_closed():
                raise

    return finish
