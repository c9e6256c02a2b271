"""The registry's connections and sessions: their beginning, their take-over, and their end.

The supervisor gets a session's descriptors before the client gets its answer, so a session stays
alive when the registry dies. When a client has closed its connection, the registry tells the
supervisor. The session's index stays in use until append has detached the session's ring and the
supervisor reports it (`Gone`).
"""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import socket
import time
from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec

from ...shm import mail, parts, ring
from ...shm.control import StoreState
from ...shm.protocol.answer import Answer
from ...shm.protocol.answers import RegistryRestarted
from ...shm.protocol.requests import AnyRequest
from ...shm.protocol.sessions import Began, Closing, Gone
from ...store.status import PutMessageStatus
from ..actor import TICK_S, Session, World
from ..descriptors import HOW_TO_RAISE, SHORTAGES
from . import passed_descriptors
from .access import Access, Peer
from .bells import SessionBells
from .boards import Boards
from .quotas import Quotas
from .refusals import error, illegal, unavailable
from .shares import Shares
from .unsent import Unsent
from .waiting import Waiting

_REQUESTS: Final[msgspec.json.Decoder[AnyRequest]] = msgspec.json.Decoder(AnyRequest)
_GONE: Final[msgspec.json.Decoder[Gone]] = msgspec.json.Decoder(Gone)
# After a failed `accept` the registry waits so long: the listening socket would stay ready.
_ACCEPT_PAUSE_S = 0.1
# How long a client may take to send a request. One asks for 10 s, or somewhat longer.
_UNFINISHED_S = 30.0
# The least bytes of unsent answers that a user may have.
_UNSENT = 16 << 20
# An answer about a topic has so many bytes for each queue, and further ones.
_QUEUE, _OTHER = 8, 1 << 20


class Sessions:
    """All connections and sessions, by number.

    `left` is called with the number of a session whose client has closed its connection. `ended` is
    called when no process uses a session any more.
    """

    def __init__(
        self,
        world: World,
        logger: Any,
        selector: selectors.BaseSelector,
        left: Callable[[int], None],
        ended: Callable[[], None],
    ) -> None:
        self._world = world
        self._logger = logger
        self._settings = world.settings
        self._table = world.table
        self._state = world.control.word("state")
        self._selector = selector
        self._left = left
        self._ended = ended
        self._access = Access(world.settings)
        self._quotas = Quotas(world.settings, world.descriptors)
        self._refuses = passed_descriptors.are_refused(world.listener)
        most = world.descriptors.waiting
        closing = 0 if self._refuses else most // 4
        self._waiting = Waiting(most - closing)
        self._closer = passed_descriptors.Closer(closing)
        self._accepts_at = 0.0  # when to accept again after a failure, 0: now
        self.inbox = world.registry_mail[1]
        self._sessions = dict(world.sessions)
        self.bells = SessionBells(world, self._quotas, self._sessions)
        self.boards = Boards(world, self._quotas, self._sessions)
        self._by_connection: dict[int, int] = {}
        self._connections: dict[int, socket.socket] = {}
        self._peers: dict[int, Peer] = {}
        self._unsent = Unsent(selector)
        largest = _QUEUE * world.settings.max_queues + _OTHER
        self._answers_of = Shares(max(_UNSENT, largest))
        self._readers: dict[int, parts.Joiner[AnyRequest]] = {}
        self._requests_of = Shares(parts.MAX_REQUEST)
        self._looks_at = 0.0  # when to look again for clients that are too slow

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

    # -- users

    def uid_of(self, connection: socket.socket) -> int:
        """The user of a connection; -1 for one that is closed."""
        peer = self._peers.get(connection.fileno())
        return -1 if peer is None else peer.uid

    def peer_of(self, connection: socket.socket) -> Peer:
        """The user of an open connection."""
        return self._peers[connection.fileno()]

    @property
    def all(self) -> Collection[Session]:
        """All sessions, the store's own among them."""
        return self._sessions.values()

    def check_access(self, connection: socket.socket, request: AnyRequest, group: str) -> None:
        """Raises Refused if the connection's user may not make this request. `group` is the
        consumer group of its session.
        """
        self._access.check(self.peer_of(connection), request, own_group=group)

    # -- connections

    def accept(self) -> None:
        """Accepts one connection, if its user may use the store. Others get an error."""
        if not self._refuses and self._closer.is_full:
            self._pause()
            return
        try:
            connection, _ = self._world.listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as problem:
            if problem.errno not in SHORTAGES:
                raise
            self._logger.error("cannot accept a client", error=str(problem), advice=HOW_TO_RAISE)
            self._pause()
            return
        connection.setblocking(False)  # noqa: FBT003 - socket's own signature
        peer = self._access.peer(connection)
        if not peer.allowed:
            why = (
                "this user may not use the store: join the group that socket_group names, "
                "or run as its user"
            )
            self.answer(connection, error(PutMessageStatus.SERVICE_NOT_AVAILABLE, why))
            self._close(connection)
            return
        self._add(connection, peer)
        too_many = self._waiting.add(connection.fileno(), peer.uid)
        if too_many is not None:
            self.hang_up(self._connections[too_many])

    def _pause(self) -> None:
        """Stops accepting for a moment, for want of descriptors or memory. Clients wait in the
        socket's queue meanwhile.
        """
        self._selector.unregister(self._world.listener)
        self._accepts_at = time.monotonic() + _ACCEPT_PAUSE_S

    def tick(self) -> None:
        """Accepts again after a pause. Closes connections that have not said hello in time, or do
        not read their answers, and gives up requests that are not complete in time.
        """
        if self._accepts_at and time.monotonic() >= self._accepts_at:
            self._accepts_at = 0.0
            self._selector.register(self._world.listener, selectors.EVENT_READ)
        self._closer.tick()
        if time.monotonic() < self._looks_at:
            return
        self._looks_at = time.monotonic() + TICK_S
        for fd in [*self._waiting.overdue(), *self._unsent.overdue()]:
            self.hang_up(self._connections[fd])
        limit = time.monotonic() - _UNFINISHED_S
        for fd, reader in list(self._readers.items()):
            if 0 < reader.since < limit:
                reader.drop()
                why = f"the request was not complete within {_UNFINISHED_S:g} s: try again"
                self.answer_unavailable(self._connections[fd], why)

    def patience(self) -> float:
        """Seconds until `tick` is due, at least 0; infinite if it is not."""
        accepts = self._accepts_at - time.monotonic() if self._accepts_at else float("inf")
        return max(0.0, min(accepts, self._closer.patience()))

    def _add(self, connection: socket.socket, peer: Peer) -> None:
        self._connections[connection.fileno()] = connection
        self._peers[connection.fileno()] = peer
        self._selector.register(connection, selectors.EVENT_READ)

    def brings_descriptors(self, connection: socket.socket) -> bool:
        """Whether the next packet brings descriptors. Raises as `passed_descriptors.come_along`."""
        return not self._refuses and passed_descriptors.come_along(connection)

    def adopt_all(self) -> None:
        """Takes over the connections that the registry before this one served, and ends the leases
        of sessions that ended while there was no registry.
        """
        used = {session.index for session in self._sessions.values()}
        for index in range(self._settings.max_sessions):
            if index not in used:
                self._table.lease(index, None)
        for session in self._sessions.values():
            self._adopt(session)

    def _adopt(self, session: Session) -> None:
        if session.closing or session.connection < 0:
            mail.close_all([session.connection])  # nobody reads it any more
            session.connection = -1
            return
        connection = socket.socket(fileno=session.connection)
        connection.setblocking(False)  # noqa: FBT003 - socket's own signature
        self._add(connection, self._access.peer(connection))
        self._by_connection[connection.fileno()] = session.number
        # The socket may be full: of notices of earlier restarts, which an idle client has not read,
        # or of parts of an answer that the registry before this one did not finish.
        self._unsent.put(connection, parts.packets(RegistryRestarted()), None)
        self.send_rest(connection)

    def answer(self, connection: socket.socket, answer: Answer, fds: tuple[int, ...] = ()) -> None:
        """Sends an answer. Closes the connection of a client that has closed its end, or whose
        socket is full because it does not read.

        An answer in parts may be more than a socket takes at once. The rest is sent as the client
        reads (`unsent.py`).
        """
        packets = parts.packets(answer)
        assert len(packets) == 1 or not fds, "a long answer has no descriptors"
        peer = self._peers.get(connection.fileno())
        if len(packets) > 1 and peer is not None:
            if self._unsent.put(connection, packets, self._answers_of.of(peer)):
                self.send_rest(connection)
            else:
                self.answer_unavailable(
                    connection, "too many long answers wait for their readers: try again", answer.id
                )
            return
        try:
            mail.send_packet(connection, packets[0], fds)
        except OSError:
            self.hang_up(connection)

    def answer_unavailable(self, connection: socket.socket, why: str, number: int = 0) -> None:
        """Refuses the request `number` of a client, which may try it again. 0 is the request that
        waits for its answer, or whose parts are on their way.
        """
        refusal = error(PutMessageStatus.SERVICE_NOT_AVAILABLE, why)
        self.answer(connection, msgspec.structs.replace(refusal, id=number))

    def send_rest(self, connection: socket.socket) -> None:
        """Sends what the socket has room for of an answer. Once it has all, the client's requests
        are read again.
        """
        try:
            self._unsent.send(connection)
        except OSError:
            self.hang_up(connection)

    def reader(self, connection: socket.socket) -> parts.Joiner[AnyRequest]:
        """What decodes a client's requests, and keeps the parts of an unfinished one."""
        fd = connection.fileno()
        if fd not in self._readers:
            room = self._requests_of.of(self._peers[fd])
            self._readers[fd] = parts.Joiner(_REQUESTS, parts.MAX_REQUEST, room)
        return self._readers[fd]

    def hang_up(self, connection: socket.socket) -> None:
        """Closes a connection and begins the end of its session: the member leaves its group, the
        lease ends, and the supervisor is told. Does nothing for an unknown connection.
        """
        fd = connection.fileno()
        if fd < 0 or fd not in self._connections:
            return
        self._selector.unregister(connection)
        del self._connections[fd], self._peers[fd]
        self._waiting.remove(fd)
        self._unsent.drop(fd)
        if (reader := self._readers.pop(fd, None)) is not None:
            reader.drop()
        number = self._by_connection.pop(fd, None)
        if number is not None:
            self._sessions[number].closing = True
            self._left(number)
            self.boards.end(self._sessions[number])
            self._table.lease(self._sessions[number].index, None)
        self._close(connection, number)

    def _close(self, connection: socket.socket, number: int | None = None) -> None:
        """Closes a connection, then tells the supervisor that its session `number` ends."""
        if self._refuses:
            connection.close()
            self._report(number)
        else:
            then = None if number is None else functools.partial(self._report, number)
            self._closer.close(connection, then)

    def _report(self, number: int | None) -> None:
        """Tells the supervisor that the session `number`, if it is one, ends."""
        if number is not None:
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
        Refused when the store stops, has no room for it, or does not allow the size.
        """
        session = self.find(connection)
        if session is not None:
            return session
        if self._state.load() >= StoreState.DRAINING:
            raise unavailable("the store is stopping")
        peer = self._peers[connection.fileno()]
        capacity = self._quotas.capacity(ring_size)
        self._quotas.check(peer, ring=capacity, sessions=self._sessions.values())
        try:
            session = self._make(connection, peer.uid, capacity)
        except OSError as problem:
            raise unavailable(
                f"the store cannot make a session now: {problem.strerror}; {HOW_TO_RAISE}, or "
                "close other sessions"
            ) from problem
        self._sessions[session.number] = session
        self._by_connection[connection.fileno()] = session.number
        self._waiting.remove(connection.fileno())
        return session

    def _make(self, connection: socket.socket, uid: int, capacity: int) -> Session:
        """A new session, which the supervisor holds. Raises OSError, and then leaves nothing."""
        used = {session.index for session in self._sessions.values()}
        index = next(i for i in range(self._settings.max_sessions) if i not in used)
        # The session that had this index before may have ended while there was no registry.
        self._table.revoke_all(index)
        number = time.monotonic_ns()
        with contextlib.ExitStack() as undo:
            fds = [connection.fileno()]
            if capacity:
                fds.append(ring.create(capacity, number))
                undo.callback(os.close, fds[-1])
                fds.append(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))
                undo.callback(os.close, fds[-1])
            mail.post(self.inbox, Began(number, index, capacity, uid), fds)
            undo.pop_all()
        _, ring_fd, bell = fds if capacity else (fds[0], -1, -1)
        return Session(number, index, ring_fd, capacity, bell, connection.fileno(), uid)

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
        """Frees a session's index and grants, and closes its descriptors. The client of a session
        that append or the supervisor has ended is still connected, and may be in a group.
        """
        self.expel(number)
        session = self._sessions.pop(number, None)
        if session is None:
            return
        self._table.revoke_all(session.index)
        self._ended()
        self.bells.end(session)
        mail.close_all([fd for fd in (session.ring, session.bell) if fd >= 0])
