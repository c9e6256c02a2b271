"""The broker: keeps a duplicate of every session's descriptors, and forwards messages about
sessions between registry and append (`shm/protocol/sessions.py`).

A new registry or append inherits every ring, bell and connection from the supervisor.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from ..actors.actor import SCHEDULE_SESSION, Session, World
from ..actors.descriptors import HOW_TO_RAISE
from ..conf.logging import get_logger
from ..shm import mail
from ..shm.protocol.sessions import Attach, Began, Closing, Detach, Detached, Gone

_MAIL: Final[msgspec.json.Decoder[Began | Closing | Detached]] = msgspec.json.Decoder(
    Began | Closing | Detached
)


class Broker:
    """Reads and writes the supervisor's ends of the two mail sockets."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.from_append = world.append_mail[0]
        self.from_registry = world.registry_mail[0]
        self.to_append: deque[tuple[Attach | Detach, list[int]]] = deque()
        self.to_registry: deque[Gone] = deque()
        self.mail_count = world.control.own("append_mail")
        self.session_count = world.control.own("sessions")

    def read(self, end: socket.socket) -> None:
        """Handles all messages that have arrived at one end."""
        while True:
            try:
                message, fds = mail.receive(end, _MAIL)
            except BlockingIOError:
                return
            except mail.DescriptorsLost as lost:
                self._cannot_hold(lost.message)
                continue
            match message:
                case None:
                    return
                case Began():
                    self._add(message, fds)
                case Closing():
                    self._close(message.session)
                case Detached():
                    self._detached(message.session)

    def _add(self, began: Began, fds: list[int]) -> None:
        connection, ring, bell = fds if len(fds) == 3 else (fds[0], -1, -1)
        session = Session(
            began.session, began.index, ring, began.capacity, bell, connection, began.uid
        )
        self.world.sessions[session.number] = session
        self._count()
        if ring >= 0:
            attach = Attach(session.number, session.index, session.capacity, session.uid)
            self._tell_append(attach, [ring, bell])

    def _cannot_hold(self, began: object) -> None:
        """Ends a session whose descriptors did not arrive, for want of descriptors in this process:
        the registry hangs up on its client.
        """
        assert isinstance(began, Began), "no other mail brings descriptors"
        get_logger().error(
            "no descriptors for a session: it ends", session=began.session, advice=HOW_TO_RAISE
        )
        self.to_registry.append(Gone(began.session))
        self.send_waiting()

    def _close(self, number: int) -> None:
        """Begins the end of a session whose client has closed its connection. Append first appends
        what the client published. A session without a ring ends at once.
        """
        session = self.world.sessions.get(number)
        if session is None:
            return
        session.closing = True
        if session.ring < 0:
            self._detached(number)
        else:
            self._tell_append(Detach(number), [])

    def _detached(self, number: int) -> None:
        session = self.world.sessions.pop(number, None)
        if session is None:
            return
        mail.close_all(_descriptors(session))
        self._count()
        self.to_registry.append(Gone(number))
        self.send_waiting()

    def _count(self) -> None:
        """Publishes the number of clients' sessions."""
        clients = [s for s in self.world.sessions.values() if s.number != SCHEDULE_SESSION]
        self.session_count.store(len(clients))

    def _tell_append(self, message: Attach | Detach, fds: list[int]) -> None:
        self.to_append.append((message, fds))
        self.send_waiting()

    def send_waiting(self) -> None:
        """Sends waiting messages, as far as the sockets have room. An actor that does not read must
        not block the supervisor. Messages to append about sessions that have ended are dropped.
        """
        with _until_full():
            while self.to_append:
                message, fds = self.to_append[0]
                if message.session in self.world.sessions:
                    mail.send(self.from_append, message, fds)
                    self.mail_count.add(1)
                self.to_append.popleft()
        with _until_full():
            while self.to_registry:
                mail.send(self.from_registry, self.to_registry[0])
                self.to_registry.popleft()

    def close_all(self) -> None:
        """Closes the descriptors of all sessions."""
        for session in self.world.sessions.values():
            mail.close_all(_descriptors(session))
        self.world.sessions.clear()


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


def _descriptors(session: Session) -> list[int]:
    return [fd for fd in (session.ring, session.bell, session.connection) if fd >= 0]
