"""Who may connect to a store, by the user and group at the other end of a socket."""

from __future__ import annotations

import grp
import pwd
import socket
import struct
from typing import cast

import pytest

from silomq.actors.registry.access import Access

STRANGER, STRANGERS_GROUP = 54321, 54322


class Peer:
    """A connection from a process with this user and group."""

    def __init__(self, uid: int, gid: int) -> None:
        self._data = struct.pack("iII", 1, uid, gid)

    def getsockopt(self, level: int, option: int, _size: int) -> bytes:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
        return self._data


def allows(access: Access, uid: int, gid: int) -> bool:
    return access.allows(cast("socket.socket", Peer(uid, gid)))


@pytest.fixture
def operators(monkeypatch: pytest.MonkeyPatch) -> Access:
    """Access with the group `operators` (70), whose further member is `mary` (71)."""
    group = grp.struct_group(("operators", "x", 70, ["mary"]))
    users = {71: "mary", 72: "john"}
    monkeypatch.setattr(grp, "getgrnam", {"operators": group}.__getitem__)
    monkeypatch.setattr(
        pwd,
        "getpwuid",
        lambda uid: pwd.struct_passwd((users[uid], "x", uid, 9, "", "/", "/bin/sh")),
    )
    return Access("operators")


def test_a_real_connection_of_the_own_user_is_allowed() -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    assert Access("").allows(here)
    here.close()
    there.close()


def test_without_a_group_only_the_own_user_and_root_may_connect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.getuid", lambda: 1000)
    access = Access("")
    assert allows(access, 1000, STRANGERS_GROUP)
    assert allows(access, 0, 0)
    assert not allows(access, STRANGER, 0)


def test_a_group_lets_in_those_who_run_in_it_and_those_who_are_listed(operators: Access) -> None:
    assert allows(operators, STRANGER, 70)
    assert allows(operators, 71, 9)
    assert not allows(operators, 72, 9)
    assert not allows(operators, STRANGER, STRANGERS_GROUP)  # a user without a name


def test_a_group_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(KeyError):
        Access("no-such-group-here")
