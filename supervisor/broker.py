"""The broker: keeps a duplicate of every session's descriptors, and forwards messages about
sessions between the store's processes (`shm/protocol/sessions.py`).

A new process inherits from the supervisor every connection, ring and bell that it serves.
"""

from __future__ import annotations

import socket
from typing import Final

import msgspec

from ..actors.actor import OWN_SESSIONS, Session, World
from ..actors.descriptors import HOW_TO_RAISE
from ..conf.logging import get_logger
from ..shm import mail
from ..shm.bell import BellEnds
from ..shm.protocol.sessions import (
    Attach,
    AttachBell,
    Began,
    Belled,
    ChangeAsked,
    Closing,
    Detach,
    DetachBell,
    Detached,
    Gone,
)
from .changes import Changes
from .outbox import Outbox, Sleeper

#: Beside append and the registry, these ring the bells of sessions.
RINGERS: Final = ("reput", "flush")
_MAIL: Final[msgspec.json.Decoder[Began | Belled | Closing | Detached | ChangeAsked]] = (
    msgspec.json.Decoder(Began | Belled | Closing | Detached | ChangeAsked)
)


class Broker:
    """Reads and writes the supervisor's ends of the mail sockets. `changes` gets those that clients
    ask for.
    """

    def __init__(self, world: World, changes: Changes) -> None:
        self.world = world
        self.changes = changes
        #: Whether a session has begun, changed or ended since the keeper (`keeping.py`) has looked.
        self.changed = False
        control = world.control
        self.from_append = world.append_mail[0]
        self.from_registry = world.registry_mail[0]
        self.session_count = control.own("sessions")
        count = control.own("bell_mail")

        def sleeper(name: str, word: str) -> Sleeper:
            return Sleeper(control.word(word), control.word(f"{name}_asleep"), control.beat(name))

        self.append = Outbox(self.from_append, control.own("append_mail"))
        self.registry = Outbox(self.from_registry, None)
        self.ringers = (
            Outbox(world.reput_mail[0], count, sleeper("reput", world.dispatch_news)),
            Outbox(world.flush_mail[0], count, sleeper("flush", world.filed)),
        )

    @property
    def boxes(self) -> dict[str, Outbox]:
        """The mail to each process that gets some."""
        ringers = zip(RINGERS, self.ringers, strict=True)
        return {"append": self.append, "registry": self.registry, **dict(ringers)}

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
                case Belled():
                    self._add_bell(message.session, BellEnds(*fds))
                case Closing():
                    self._close(message.session)
                case Detached():
                    self._detached(message.session)
                case ChangeAsked():
                    self.changes.ask(message, fds[0])

    def _add(self, began: Began, fds: list[int]) -> None:
        connection, ring, bell = fds if len(fds) == 3 else (fds[0], -1, -1)
        session = Session(
            began.session, began.index, ring, began.capacity, bell, connection, began.uid
        )
        self.world.sessions[session.number] = session
        self.changed = True
        self._count()
        if ring >= 0:
            attach = Attach(session.number, session.index, session.capacity, session.uid)
            self.append.put(attach, (ring, bell))
            self.append.send()

    def _add_bell(self, number: int, bell: BellEnds) -> None:
        """Holds a session's bell, in the place of an older one, and has it rung."""
        session = self.world.sessions.get(number)
        if session is None:
            bell.close()
            return
        self._drop_bell(session)
        session.client_bell = bell
        self.changed = True
        boxes = (self.append, *self.ringers) if session.ring >= 0 else self.ringers
        for box in boxes:
            box.put(AttachBell(number), (bell.page, bell.store))
            box.send()

    def _drop_bell(self, session: Session) -> None:
        """Closes a session's bell. Mail that was to bring it is not sent any more."""
        bell, session.client_bell = session.client_bell, None
        if bell is not None:
            for box in (self.append, *self.ringers):
                box.drop((bell.page, bell.store))
            bell.close()

    def _cannot_hold(self, message: object) -> None:
        """Ends a session whose descriptors, or those of its bell, did not arrive, for want of
        descriptors in this process: the registry hangs up on its client.
        """
        if isinstance(message, ChangeAsked):  # its client sees that nobody listens
            get_logger().error("no descriptor for a change: nothing is done", advice=HOW_TO_RAISE)
            return
        assert isinstance(message, Began | Belled), "no other mail brings descriptors"
        number = message.session
        get_logger().error(
            "no descriptors for a session in the supervisor: it ends",
            session=number,
            advice=HOW_TO_RAISE,
        )
        if number in self.world.sessions:
            self._close(number)
        else:
            self.registry.put(Gone(number))
            self.registry.send()

    def _close(self, number: int) -> None:
        """Begins the end of a session whose client has closed its connection. Append first appends
        what the client published. A session without a ring ends at once.
        """
        session = self.world.sessions.get(number)
        if session is None:
            return
        session.closing = self.changed = True
        if session.ring < 0:
            self._detached(number)
        else:
            self.append.put(Detach(number))
            self.append.send()

    def _detached(self, number: int) -> None:
        session = self.world.sessions.pop(number, None)
        if session is None:
            return
        had_bell = session.client_bell is not None
        hang_up(session)
        self._drop_bell(session)
        fds = descriptors_of(session)
        self.append.drop(fds)
        mail.close_all(fds)
        self.changed = True
        self._count()
        if had_bell:
            for box in self.ringers:
                box.put(DetachBell(number))
        self.registry.put(Gone(number))
        self.send_waiting()

    def _count(self) -> None:
        """Publishes the number of clients' sessions."""
        own = set(OWN_SESSIONS.values())
        self.session_count.store(sum(number not in own for number in self.world.sessions))

    def send_waiting(self) -> None:
        """Sends waiting messages, as far as the sockets have room."""
        for box in self.boxes.values():
            box.send()

    def close_all(self) -> None:
        """Closes the descriptors of all sessions."""
        for session in self.world.sessions.values():
            hang_up(session)
            self._drop_bell(session)
            mail.close_all(descriptors_of(session))
        self.world.sessions.clear()


def hang_up(session: Session) -> None:
    """Lets a session's client see that it has ended, although the service manager may still have
    duplicates of its sockets.
    """
    ends = [session.connection, session.client_bell.store if session.client_bell else -1]
    for fd in ends:
        if fd >= 0:
            mail.hang_up(fd)


def descriptors_of(session: Session) -> list[int]:
    """Ring, eventfd and connection of a session, as far as it has them."""
    return [fd for fd in (session.ring, session.bell, session.connection) if fd >= 0]
