"""Clients that are slow hold no memory of the registry for long, and no more than their share."""

from __future__ import annotations

import selectors
import socket
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from silomq.actors.descriptors import Descriptors
from silomq.actors.registry.access import Peer
from silomq.actors.registry.sessions import Sessions
from silomq.actors.registry.shares import Shares
from silomq.conf.settings import Settings
from silomq.shm import mail, parts
from silomq.shm.metrics import SIZE as METRICS_SIZE
from silomq.shm.metrics import Metrics
from silomq.shm.ownership import STARTUP
from silomq.shm.protocol.answers import Report
from silomq.shm.protocol.requests import DeleteGroup

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS = 100.0


class Rig:
    """The sessions of a registry, and one client with a session."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = SECONDS
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(path / "socket"))
        self.listener.listen()
        self.mail = mail.pair()
        self.left: list[int] = []
        nothing = SimpleNamespace(load=lambda: 0)
        world: Any = SimpleNamespace(
            settings=Settings(store_path=path),
            table=SimpleNamespace(revoke_all=lambda _index: None, lease=lambda _index, _to: None),
            control=SimpleNamespace(word=lambda _name: nothing),
            metrics=Metrics(bytearray(METRICS_SIZE), STARTUP),
            store_id="none",
            descriptors=Descriptors(1024),
            listener=self.listener,
            registry_mail=self.mail,
            sessions={},
        )
        self.selector = selectors.DefaultSelector()
        self.sessions = Sessions(world, None, self.selector, self.left.append, lambda: None)
        self.client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.client.settimeout(10)
        self.client.connect(self.listener.getsockname())
        self.sessions.accept()
        (key,) = self.selector.get_map().values()
        assert isinstance(key.fileobj, socket.socket)
        self.connection = key.fileobj
        monkeypatch.setattr(time, "monotonic_ns", lambda: 7)
        self.sessions.begin(self.connection, 0)

    def wait(self, seconds: float) -> None:
        """Turns of the registry's loop, one each second."""
        for _ in range(int(seconds)):
            self.now += 1.0
            self.sessions.tick()

    def close(self) -> None:
        for end in (self.listener, *self.mail, self.client, self.connection, self.selector):
            end.close()


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    found = Rig(tmp_path, monkeypatch)
    yield found
    found.close()


def test_a_request_that_is_not_completed_is_given_up_and_its_client_told(rig: Rig) -> None:
    sent = parts.packets(DeleteGroup("x" * (3 * parts.PART)))
    reader = rig.sessions.reader(rig.connection)
    for packet in sent[:2]:
        rig.client.send(packet)
        with pytest.raises(parts.Incomplete):
            mail.receive(rig.connection, reader)
        rig.wait(15)
    assert reader.since
    rig.wait(2)
    assert not reader.since
    assert b"not complete within 30 s: try again" in rig.client.recv(1000)
    rig.client.send(sent[2])
    with pytest.raises(parts.Incomplete):  # the rest is ignored
        mail.receive(rig.connection, reader)
    rig.wait(100)
    assert not rig.left


def test_a_client_that_reads_nothing_of_its_answer_loses_its_session(rig: Rig) -> None:
    rig.sessions.answer(rig.connection, Report(report={"x": "y" * 2_000_000}))
    rig.wait(20)
    for _ in range(3):
        rig.client.recv(mail.MAX_PACKET)
    rig.sessions.send_rest(rig.connection)
    rig.wait(20)
    assert not rig.left  # it has read something
    rig.wait(12)
    assert rig.left == [7]


def test_answers_that_are_not_read_have_bounds(rig: Rig) -> None:
    long = Report(report={"x": "y" * (65 << 20)}, id=3)
    rig.sessions.answer(rig.connection, long)
    said = rig.client.recv(1000)
    assert b'"id":3' in said
    assert b"too many long answers wait for their readers: try again" in said
    room = rig.sessions._answers_of.of(rig.sessions._peers[rig.connection.fileno()])
    size = room.left
    for read in (True, False):
        rig.sessions.answer(rig.connection, Report(report={"x": "y" * (40 << 20)}))
        assert rig.selector.get_key(rig.connection).events == selectors.EVENT_WRITE
        assert room.left < 25 << 20
        while read and rig.selector.get_key(rig.connection).events == selectors.EVENT_WRITE:
            rig.client.recv(mail.MAX_PACKET)
            rig.sessions.send_rest(rig.connection)
        if not read:
            rig.sessions.hang_up(rig.connection)
        assert room.left == size


def test_no_user_takes_the_share_of_another_and_one_is_left_for_the_owner() -> None:
    shares = Shares(100)
    users = [Peer(uid, allowed=True, owner=False, admin=False) for uid in range(1, 5)]
    rooms = [shares.of(user) for user in users]
    assert shares.of(users[0]) is rooms[0]
    owner = shares.of(Peer(0, allowed=True, owner=True, admin=True))
    assert [room.take(101) for room in rooms] == [False] * 4
    assert [room.take(100) for room in rooms] == [True, True, True, False]
    assert not owner.take(101)
    assert owner.take(100)
    rooms[0].give(50)
    assert not rooms[3].take(51)
    assert rooms[3].take(50)
