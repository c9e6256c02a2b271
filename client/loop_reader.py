"""A client's descriptor in event loops of asyncio, without a thread.

asyncio is imported where a coroutine runs, and never before: it would slow down the start of every
client.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ..store.disk.forks import NO_FORK
from ..store.errors import limited_by_open_files
from .forks import abandon_in_child

if TYPE_CHECKING:
    import asyncio

    Loop: TypeAlias = asyncio.AbstractEventLoop
    Ready: TypeAlias = asyncio.Future[None]


def resolve(ready: Ready) -> None:
    """Wakes who waits for this future, in its loop's thread."""
    if not ready.done():
        ready.set_result(None)


class LoopReader:
    """Calls `ready(self)` in `loop` when a descriptor is readable, while somebody waits.

    It has a duplicate of `fd`. Another thread may close the client while the loop waits, and the
    number of a closed descriptor would soon be another file's. Only `close` and `abandon` may be
    called by other threads than the loop's. Raises TooManyOpenFiles.
    """

    def __init__(self, loop: Loop, fd: int, ready: Callable[[LoopReader], None]) -> None:
        self._fd = -1  # first, because `__del__` looks at it
        self.loop = loop
        self.waiting: set[Ready] = set()
        self._ready = ready
        self._closing = False
        with limited_by_open_files(), NO_FORK:
            self._fd = os.dup(fd)

    def enter(self) -> Ready:
        """A future for one more who waits, until `leave`."""
        if not self.waiting:
            self.loop.add_reader(self._fd, self._ready, self)
        ready = self.loop.create_future()
        self.waiting.add(ready)
        return ready

    def leave(self, ready: Ready) -> None:
        """Whoever waited for `ready` does not wait any more."""
        self.waiting.discard(ready)
        if not self.waiting and self._fd >= 0:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.loop.remove_reader(self._fd)
            if self._closing:
                self.abandon()

    def close(self) -> None:
        """Closes the descriptor, as soon as nobody waits."""
        self._closing = True
        if not self.waiting or self.loop.is_closed():
            self.abandon()

    def abandon(self) -> None:
        """Closes the descriptor and leaves the loop alone. A forked child must not touch the loop:
        its epoll is the parent's too.
        """
        with NO_FORK:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)

    def __del__(self) -> None:
        self.abandon()


def wake_all(reader: LoopReader) -> None:
    """Wakes all who wait in a reader's loop."""
    for ready in list(reader.waiting):
        resolve(ready)


class LoopReaders:
    """The readers of one client: one for each event loop in which somebody has waited.

    `ready` is called in a loop's thread with the reader of that loop.
    """

    def __init__(self, ready: Callable[[LoopReader], None]) -> None:
        self._ready = ready
        self._readers: dict[Loop, LoopReader] = {}
        abandon_in_child(self)

    def here(self, fd: int) -> LoopReader:
        """The reader of `fd` in the loop that runs in this thread. Raises TooManyOpenFiles."""
        import asyncio

        loop = asyncio.get_running_loop()
        found = self._readers.get(loop)
        if found is None:
            for old in [other for other in self._readers if other.is_closed()]:
                self._readers.pop(old).abandon()
            found = self._readers[loop] = LoopReader(loop, fd, self._ready)
        return found

    async def readable(self, fd: int) -> None:
        """Waits until `fd` is readable, or closed by `Bell.hang_up`."""
        reader = self.here(fd)
        ready = reader.enter()
        try:
            await ready
        finally:
            reader.leave(ready)

    def close(self) -> None:
        """Closes all descriptors, as soon as nobody waits."""
        for reader in self._take():
            reader.close()

    def abandon(self) -> None:
        """Closes all descriptors, in a forked child (`client/forks.py`)."""
        for reader in self._take():
            reader.abandon()

    def _take(self) -> list[LoopReader]:
        readers, self._readers = self._readers, {}
        return list(readers.values())
