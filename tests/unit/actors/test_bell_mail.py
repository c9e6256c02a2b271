"""The bells of reput and flush: inherited ones, and those that mail brings and ends."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from support.bells import is_readable
from support.open_files import nothing_stays_open

from silomq.actors.actor import Session
from silomq.actors.bell_mail import BellMail
from silomq.shm import bell, mail
from silomq.shm.bell import BellEnds
from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.shm.protocol.sessions import AttachBell, DetachBell

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from silomq.actors.actor import World


class Rig:
    """What such an actor has of its world, and the supervisor's end of its mail."""

    def __init__(self) -> None:
        self.control = Control(bytearray(SIZE), STARTUP)
        self.ends: tuple[socket.socket, socket.socket] = mail.pair()
        self.sessions: dict[int, Session] = {}
        self.clients: list[int] = []

    def made(self) -> BellEnds:
        """A bell whose client's end the rig keeps."""
        ends = bell.create(1)
        self.clients.append(ends.client)
        ends.client = -1
        return ends

    def inherit(self, number: int) -> int:
        """A session that has a bell before the actor begins; the client's end."""
        self.sessions[number] = Session(number, 0, -1, 0, -1, -1, 0, client_bell=self.made())
        return self.clients[-1]

    def attach(self, number: int) -> int:
        """Mail that brings a bell; the client's end."""
        ends = self.made()
        mail.send(self.ends[0], AttachBell(number), [ends.page, ends.store])
        ends.close()
        self.control.own("bell_mail").add(1)
        return self.clients[-1]

    def detach(self, number: int) -> None:
        mail.send(self.ends[0], DetachBell(number))
        self.control.own("bell_mail").add(1)

    def begin(self) -> BellMail:
        world = SimpleNamespace(control=self.control, sessions=self.sessions)
        return BellMail(cast("World", world), self.ends[1])

    def close(self) -> None:
        for end in self.ends:
            end.close()
        for client in self.clients:
            os.close(client)


@pytest.fixture
def rig() -> Iterator[Rig]:
    with nothing_stays_open():
        found = Rig()
        yield found
        found.close()


def is_over(client: int) -> bool:
    """Whether the store has hung up on this end. Takes the rings."""
    while is_readable(client):
        if not os.read(client, 64):
            return True
    return False


def test_inherited_bells_are_rung_at_once(rig: Rig) -> None:
    client = rig.inherit(5)
    found = rig.begin()
    assert is_readable(client)
    assert len(found.bells) == 1
    assert not rig.sessions, "this process uses nothing else of them"


def test_mail_that_a_killed_actor_did_not_read_counts(rig: Rig) -> None:
    old, new = rig.inherit(5), rig.attach(5)
    rig.attach(6)
    rig.detach(6)
    found = rig.begin()
    assert len(found.bells) == 1
    assert is_over(old)
    assert not is_over(new)


def test_mail_is_read_when_its_count_has_changed(rig: Rig) -> None:
    found = rig.begin()
    client = rig.attach(5)
    found.read()
    assert is_readable(client)
    found.read()
    rig.detach(5)
    found.read()
    assert is_over(client)
    rig.detach(5)
    found.read()
    assert len(found.bells) == 0
