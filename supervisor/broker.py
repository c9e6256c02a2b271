"""The broker: keeps a duplicate of every session's descriptors, and passes news between registry
and append.

That is what makes registry and append replaceable: whatever combination of them dies, the successor
inherits every ring, bell and connection.
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from typing import Any

from ..actors.actor import SCHEDULE_SESSION, Session, World
from ..shm import mail


class Broker:
    """The supervisor's end of both mail sockets."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.from_append = world.append_mail[0]
        self.from_registry = world.registry_mail[0]
        self.to_append: deque[tuple[dict[str, Any], list[int]]] = deque()
        self.to_registry: deque[dict[str, Any]] = deque()
        self.mail_count = world.control.own("append_mail")
        self.session_count = world.control.own("sessions")

    def read(self, end: socket.socket) -> None:
        """Handles everything that has arrived at one end."""
        while True:
            try:
                message, fds = mail.receive(end)
            except BlockingIOError:
                return
            if message is None:
                return
            if end is self.from_append:
                self._detached(message["session"])
            elif message["do"] == "session":
                self._add(message, fds)
            else:
                self._close(message["session"])

    def _add(self, message: dict[str, Any], fds: list[int]) -> None:
        connection, ring, bell = fds if len(fds) == 3 else (fds[0], -1, -1)
        session = Session(
            message["session"], message["index"], ring, message["capacity"], bell, connection
        )
        self.world.sessions[session.number] = session
        self._count()
        if ring >= 0:
            self._tell_append(
                {
                    "do": "attach",
                    "session": session.number,
                    "index": session.index,
                    "capacity": session.capacity,
                },
                [ring, bell],
            )

    def _close(self, number: int) -> None:
        """A client is gone. What it published is appended first; a session without a ring is gone
        at once.
        """
        session = self.world.sessions.get(number)
        if session is None:
            return
        session.closing = True
        if session.ring < 0:
            self._detached(number)
        else:
            self._tell_append({"do": "detach", "session": number}, [])

    def _detached(self, number: int) -> None:
        session = self.world.sessions.pop(number, None)
        if session is None:
            return
        mail.close_all([fd for fd in (session.ring, session.bell, session.connection) if fd >= 0])
        self._count()
        self.to_registry.append({"do": "gone", "session": number})
        self.send_waiting()

    def _count(self) -> None:
        """Publishes how many clients there are."""
        clients = [s for s in self.world.sessions.values() if s.number != SCHEDULE_SESSION]
        self.session_count.store(len(clients))

    def _tell_append(self, message: dict[str, Any], fds: list[int]) -> None:
        self.to_append.append((message, fds))
        self.send_waiting()

    def send_waiting(self) -> None:
        """Sends what there was no room for: an actor that does not read must not stop the
        supervisor. A session that is gone by now is not worth attaching.
        """
        with contextlib.suppress(BlockingIOError):
            while self.to_append:
                message, fds = self.to_append[0]
                if message["session"] in self.world.sessions:
                    mail.send(self.from_append, message, fds)
                    self.mail_count.add(1)
                self.to_append.popleft()
        with contextlib.suppress(BlockingIOError):
            while self.to_registry:
                mail.send(self.from_registry, self.to_registry[0])
                self.to_registry.popleft()

    def close_all(self) -> None:
        for session in self.world.sessions.values():
            mail.close_all(
                [fd for fd in (session.ring, session.bell, session.connection) if fd >= 0]
            )
        self.world.sessions.clear()
