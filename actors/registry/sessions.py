"""The registry's connections and sessions: their beginning, their take-over, and their end.

The supervisor gets a session's descriptors before the client gets its answer, so a session stays
alive when the registry dies. When a client has closed its connection, the registry tells the
supervisor. The session's index stays in use until append has detached the session's ring and the
supervisor reports it (`Gone`).
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Callable
from typing import Final

import msgspec

from ...shm import mail, ring
from ...shm.control import StoreState
from ...shm.protocol.answers import Answer, Error, RegistryRestarted
from ...shm.protocol.sessions import Began, Closing, Gone
from ...store.status import PutMessageStatus
from ..actor import Session, World
from .access import Access
from .refusals import illegal, unavailable

_GONE: Final[msgspec.json.Decoder[Gone]] = msgspec.json.Decoder(Gone)
_MOST_WHY = 4000  # characters: an error may quote a long text that the client has sent
_PAGE = 4096


def error(status: PutMessageStatus, why: str) -> Error:
    """The answer to a refused request: a status, and why, cut off after 4,000 characters."""
    return Error(status=status.name, why=why if len(why) <= _MOST_WHY else why[:_MOST_WHY] + "...")


class Sessions:
    """All connections and sessions, by number.

    `left` is called with the number of a session whose client has closed its connection. `ended` is
    called when no process uses a session any more.
    """

    def __init__(
        self,
        world: World,
        selector: selectors.BaseSelector,
        left: Callable[[int], None],
        ended: Callable[[], None],
    ) -> None:
        self._world = world
        self._settings = world.settings
        self._table = world.table
        self._state = world.control.word("state")
        self._selector = selector
        self._left = left
        self._ended = ended
        self._access = Access(world.settings.socket_group)
        self.inbox = world.registry_mail[1]
        self._sessions = dict(world.sessions)
        self._by_connection: dict[int, int] = {}
        self._connections: dict[int, socket.socket] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._sessions

    def has_readers(self) -> bool:
        """Whether a client may sleep on a queue: such a client has a session without a ring."""
        return any(session.ring < 0 for session in self._sessions.values())

    def find(self, connection: socket.socket) -> Session | None:
        """The session of a connection, None before its `hello`."""
        number = self._by_connection.get(connection.fileno())
        return None if number is None else self._sessions[number]

    def of(self, connection: socket.socket) -> Session:
        """The session of a connection. Raises Refused before its `hello`."""
        session = self.find(connection)
        if session is None:
            raise illegal("the first request of a connection must be hello")
        return session

    # -- connections

    def accept(self) -> None:
        """Accepts one connection, if its user may use the store. Others get an error."""
        try:
            connection, _ = self._world.listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        connection.setblocking(False)  # noqa: FBT003 - socket's own signature
        if not self._access.allows(connection):
            why = (
                "this user may not use the store: join the group that socket_group names, "
                "or run as its user"
            )
            self.answer(connection, error(PutMessageStatus.SERVICE_NOT_AVAILABLE, why))
            connection.close()
            return
        self._connections[connection.fileno()] = connection
        self._selector.register(connection, selectors.EVENT_READ)

    def adopt_all(self) -> None:
        """Takes over the connections that the registry before this one served."""
        for session in self._sessions.values():
            self._adopt(session)

    def _adopt(self, session: Session) -> None:
        if session.closing or session.connection < 0:
            return
        connection = socket.socket(fileno=session.connection)
        connection.setblocking(False)  # noqa: FBT003 - socket's own signature
        self._connections[connection.fileno()] = connection
        self._by_connection[connection.fileno()] = session.number
        self._selector.register(connection, selectors.EVENT_READ)
        # A client that is idle for long has not read the notices of earlier restarts either, and
        # its socket may be full.
        with contextlib.suppress(OSError):
            mail.send(connection, RegistryRestarted())

    def answer(self, connection: socket.socket, answer: Answer, fds: tuple[int, ...] = ()) -> None:
        """Sends an answer. Closes the connection of a client that has closed its end, or whose
        socket is full because it does not read.
        """
        try:
            mail.send(connection, answer, fds)
        except OSError:
            self.hang_up(connection)

    def hang_up(self, connection: socket.socket) -> None:
        """Closes a connection and begins the end of its session: the member leaves its group, the
        lease ends, and the supervisor is told. Does nothing for an unknown connection.
        """
        fd = connection.fileno()
        if fd < 0 or fd not in self._connections:
            return
        self._selector.unregister(connection)
        del self._connections[fd]
        number = self._by_connection.pop(fd, None)
        connection.close()
        if number is not None:
            self._sessions[number].closing = True
            self._left(number)
            self._table.lease(self._sessions[number].index, None)
            mail.post(self.inbox, Closing(number))

    def expel(self, number: int) -> None:
        """Closes the connection of a session."""
        for fd, owner in list(self._by_connection.items()):
            if owner == number:
                self.hang_up(self._connections[fd])

    # -- sessions

    def begin(self, connection: socket.socket, ring_size: int) -> Session:
        """The connection's session, made at its first `hello`.

        `ring_size` is in bytes: 0 for no ring, negative for the size that the settings name. Raises
        Refused when the store stops, has no index left, or does not allow the size.
        """
        session = self.find(connection)
        if session is not None:
            return session
        if self._state.load() >= StoreState.DRAINING:
            raise unavailable("the store is stopping")
        index = self._free_index()
        number = time.monotonic_ns()
        capacity, ring_fd, bell = 0, -1, -1
        if ring_size:
            capacity = self._ring_capacity(ring_size)
            ring_fd = ring.create(capacity, number)
            bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        session = Session(number, index, ring_fd, capacity, bell, connection.fileno())
        self._sessions[number] = session
        self._by_connection[connection.fileno()] = number
        fds = [connection.fileno()] + ([ring_fd, bell] if capacity else [])
        mail.post(self.inbox, Began(number, index, capacity), fds)
        return session

    def _free_index(self) -> int:
        used = {session.index for session in self._sessions.values()}
        limit = self._settings.max_sessions
        index = next((i for i in range(limit) if i not in used), -1)
        if index < 0:
            raise unavailable(f"the store has its {limit} sessions: raise max_sessions")
        return index

    def _ring_capacity(self, wanted: int) -> int:
        if wanted < 0:
            wanted = self._settings.ring_size
        wanted = (wanted + _PAGE - 1) // _PAGE * _PAGE
        limit = self._settings.ring_size_max
        if not ring.MIN_CAPACITY <= wanted <= limit:
            raise unavailable(
                f"ring_size {wanted}: {ring.MIN_CAPACITY} to {limit} bytes (ring_size_max)"
            )
        return wanted

    def read_mail(self) -> None:
        """Reads which sessions are over for all processes."""
        while True:
            try:
                message, fds = mail.receive(self.inbox, _GONE)
            except BlockingIOError:
                return
            mail.close_all(fds)
            if message is None:
                return
            self._end(message.session)

    def _end(self, number: int) -> None:
        """Frees a session's index and grants, and closes its descriptors."""
        session = self._sessions.pop(number, None)
        if session is None:
            return
        self._table.revoke_all(session.index)
        self._ended()
        mail.close_all([fd for fd in (session.ring, session.bell) if fd >= 0])
        for fd, owner in list(self._by_connection.items()):
            if owner == number:
                del self._by_connection[fd]
                self.hang_up(self._connections[fd])
