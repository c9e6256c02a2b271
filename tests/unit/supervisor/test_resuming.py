"""What a new supervisor makes of the descriptors that were kept."""

from __future__ import annotations

import os
import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from silomq.actors.actor import OWN_SESSIONS, Session
from silomq.supervisor.keeping import LISTENER, PREFIX, STATES
from silomq.supervisor.resuming import Kept, catch_up

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from silomq.supervisor.broker import Broker


class Passed:
    """Descriptors as a manager passes them. All are closed at the end, whoever has closed some."""

    def __init__(self) -> None:
        self.ours: list[socket.socket] = []

    def connection(self, kind: int = socket.SOCK_SEQPACKET) -> int:
        ours, its = socket.socketpair(socket.AF_UNIX, kind)
        self.ours.append(ours)
        return its.detach()

    def close(self) -> None:
        for end in self.ours:
            end.close()


@pytest.fixture
def passed() -> Iterator[Passed]:
    found = Passed()
    yield found
    found.close()


def is_closed(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return True
    return False


def test_others_are_the_listeners(passed: Passed) -> None:
    fd = passed.connection()
    kept = Kept([(fd, "silomq.socket")])
    assert kept.others == [(fd, "silomq.socket")]
    assert (kept.names, kept.count, kept.state) == (set(), 0, None)
    kept.drop()
    assert not is_closed(fd)
    os.close(fd)


def test_what_is_dropped_ends_for_its_clients(passed: Passed) -> None:
    """Although the manager has a duplicate of it."""
    fds = [passed.connection(), passed.connection(socket.SOCK_STREAM)]
    duplicates = [os.dup(fd) for fd in fds]
    page = os.memfd_create("silomq-bell-7")
    names = [f"{PREFIX}7", f"{PREFIX}7-bell-1", f"{PREFIX}7-bell-1"]
    kept = Kept(zip([*fds, page], names, strict=True))
    assert kept.count == 3
    kept.drop()
    assert [end.recv(1) for end in passed.ours] == [b"", b""]
    assert all(is_closed(fd) for fd in (*fds, page))
    for fd in duplicates:
        os.close(fd)


def test_who_waits_at_a_dropped_listener_is_turned_away(tmp_path: Path) -> None:
    """Although the manager has a duplicate of it."""
    path = str(tmp_path / "socket")
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as waiting,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as late,
    ):
        listener.bind(path)
        listener.listen(1)
        waiting.settimeout(10.0)
        waiting.connect(path)
        fd = os.dup(listener.fileno())
        Kept([(fd, LISTENER)]).drop()
        assert waiting.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            late.connect(path)
        assert is_closed(fd)


def test_what_is_called_a_listener_need_not_be_one(passed: Passed) -> None:
    fds = [passed.connection(), os.memfd_create(LISTENER)]
    for fd in fds:
        Kept([(fd, LISTENER)]).drop()
    assert passed.ours[0].recv(1) == b""
    assert all(is_closed(fd) for fd in fds)


def test_what_is_passed_twice_counts_once(passed: Passed) -> None:
    fds = [passed.connection(), passed.connection()]
    kept = Kept([(fd, f"{PREFIX}mail-0") for fd in fds])
    assert kept.count == 1
    assert [is_closed(fd) for fd in fds] == [False, True]
    kept.drop()


@pytest.mark.parametrize("count", [1, 2])
def test_pages_that_say_nothing_are_no_store(count: int) -> None:
    """One page alone, or two without a document."""
    pages = [os.memfd_create(name) for name in STATES[:count]]
    kept = Kept(zip(pages, STATES, strict=False))
    assert kept.state is None
    assert kept.keeps().stale == set(STATES[:count])
    kept.drop()
    assert all(is_closed(fd) for fd in pages)


def test_the_newest_session_of_an_index_stays(passed: Passed) -> None:
    """The mail that told the end of the older one was lost with the supervisor."""
    own = {n: Session(n, 90 + n, -1, 0, -1, -1, 0) for n in OWN_SESSIONS.values()}
    fds = {number: passed.connection() for number in (100, 200, 300)}
    indexes = {100: 0, 200: 1, 300: 0}
    sessions = own | {n: Session(n, indexes[n], -1, 0, -1, fd, 0) for n, fd in fds.items()}
    read: list[Any] = []
    broker = SimpleNamespace(
        world=SimpleNamespace(sessions=sessions),
        read=read.append,
        from_append="append",
        from_registry="registry",
    )
    catch_up(cast("Broker", broker))
    assert read == ["append", "registry"]
    assert set(sessions) == {*own, 200, 300}
    assert passed.ours[0].recv(1) == b""
    assert [is_closed(fd) for fd in fds.values()] == [True, False, False]
    os.close(fds[200])
    os.close(fds[300])
