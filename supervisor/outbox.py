"""`Outbox`: the supervisor's mail to one of its processes.

An actor that does not read must not block the supervisor. So mail waits here while the socket is
full, and is sent in a later turn of the loop.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from collections import deque
from collections.abc import Collection, Iterator
from typing import Final

from ..shm import mail
from ..shm._words import OwnedWord, Word
from ..shm.protocol.sessions import SessionMail

#: How often, and how far apart (s), a sleeper is woken until it is awake. It may be just about to
#: sleep, and would then sleep for up to a second.
_TRIES: Final = 40
_APART_S: Final = 0.00005


class Sleeper:
    """A process that sleeps on the word `word` while its word `asleep` is set. After each sleep it
    beats, then looks for mail.
    """

    def __init__(self, word: Word, asleep: Word, beat: Word) -> None:
        self._word = word
        self._asleep = asleep
        self._beat = beat

    def wake(self) -> None:
        """Wakes the process, if it sleeps."""
        seen = self._beat.load()
        for _ in range(_TRIES):
            if not self._asleep.load() or self._beat.load() != seen:
                return
            self._word.wake()
            time.sleep(_APART_S)


class Outbox:
    """Messages to the process at the other end of `end`. `count` counts them, in the control block.
    A process that does not wait for its socket is a `sleeper`; it may also sleep on `count`.
    """

    def __init__(
        self, end: socket.socket, count: OwnedWord | None, sleeper: Sleeper | None = None
    ) -> None:
        self.end = end
        self._count = count
        self._sleeper = sleeper
        self._waiting: deque[tuple[SessionMail, list[int]]] = deque()

    def put(self, message: SessionMail, fds: tuple[int, ...] = ()) -> None:
        """Adds a message. Its descriptors are not duplicated: before they are closed, the message
        must be dropped (`drop`).
        """
        self._waiting.append((message, list(fds)))

    def send(self) -> None:
        """Sends what the socket has room for."""
        sent = False
        with _until_full():
            while self._waiting:
                message, fds = self._waiting[0]
                mail.send(self.end, message, fds)
                self._waiting.popleft()
                sent = True
                if self._count is not None:
                    self._count.add(1)
        if sent and self._count is not None and self._sleeper is not None:
            self._count.wake()
            self._sleeper.wake()

    @property
    def waiting(self) -> list[tuple[SessionMail, list[int]]]:
        """The messages that wait, with their descriptors."""
        return list(self._waiting)

    def drop(self, closing: Collection[int]) -> None:
        """Drops messages that bring one of these descriptors."""
        kept = [(m, fds) for m, fds in self._waiting if not any(fd in closing for fd in fds)]
        self._waiting = deque(kept)


@contextlib.contextmanager
def _until_full() -> Iterator[None]:
    """Ends the block when a socket is full, or too many descriptors of this user are on their way
    (ETOOMANYREFS). What is left is sent in a later turn.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM):
            raise
