"""Who may connect to a store, by the user and group at the other end of a socket."""

from __future__ import annotations

import grp
import pwd
import socket
import struct
from typing import cast

import pytest

from silomq.actors.registry.access import Access
from silomq.actors.registry.refusals import Refused
from silomq.conf.settings import Settings
from silomq.shm.protocol.changes import Change
from silomq.shm.protocol.requests import (
    Alter,
    AnyRequest,
    AskTopics,
    Clean,
    Create,
    Delete,
    DeleteGroup,
    Join,
    Open,
    OpenRetry,
    Reset,
    Start,
    Sync,
)

STRANGER, STRANGERS_GROUP = 54321, 54322


class Peer:
    """A connection from a process with this user and group."""

    def __init__(self, uid: int, gid: int) -> None:
        self._data = struct.pack("iII", 1, uid, gid)

    def getsockopt(self, level: int, option: int, _size: int) -> bytes:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
        return self._data


def allows(access: Access, uid: int, gid: int) -> bool:
    return access.peer(cast("socket.socket", Peer(uid, gid))).allowed


def access_of(**settings: object) -> Access:
    return Access(Settings(**settings))  # type: ignore[arg-type]


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
    return access_of(socket_group="operators")


def test_a_real_connection_of_the_own_user_is_allowed() -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    assert access_of().peer(here).allowed
    here.close()
    there.close()


def test_without_a_group_only_the_own_user_and_root_may_connect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.getuid", lambda: 1000)
    access = access_of()
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
        access_of(socket_group="no-such-group-here")


ALTERING = [
    Create("t", 1), Alter("t"), Delete("t"), Reset("g", "t", {0: 0}), DeleteGroup("g"), Clean(),
]  # fmt: skip
ORDINARY = [
    Open("t", write=True), OpenRetry("g", dead=False), AskTopics(0), Sync(0, []),
    Join("g", "clustering", {}, Start("latest")),
]  # fmt: skip


def may(access: Access, uid: int, gid: int, request: AnyRequest, own_group: str = "") -> bool:
    peer = access.peer(cast("socket.socket", Peer(uid, gid)))
    try:
        access.check(peer, request, own_group=own_group)
    except Refused as refused:
        return _says_who_may(refused)
    return True


def _says_who_may(refused: Refused) -> bool:
    assert refused.status.name == "MESSAGE_ILLEGAL"
    assert "may not alter topics, groups or offsets" in str(refused)
    assert "admin_group" in str(refused)
    return False


@pytest.mark.parametrize("request_", [*ALTERING, *ORDINARY], ids=lambda r: type(r).__name__)
def test_topics_groups_and_offsets_are_altered_by_owners_and_admins_alone(
    request_: AnyRequest, operators: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert operators is not None  # the groups of this machine
    monkeypatch.setattr("os.getuid", lambda: 1000)
    access = access_of(admin_group="operators")
    altering = request_ in ALTERING
    assert may(access, STRANGER, STRANGERS_GROUP, request_) is not altering
    assert all(may(access, *who, request_) for who in ((1000, 9), (0, 0), (STRANGER, 70), (71, 9)))
    assert may(access_of(acl_enable=False), STRANGER, STRANGERS_GROUP, request_)


def test_owners_alone_change_the_processes_of_a_store(
    operators: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert operators is not None
    monkeypatch.setattr("os.getuid", lambda: 1000)
    request = Change(number=1, what="code")
    for access in (access_of(admin_group="operators"), access_of(acl_enable=False)):
        for uid, gid in ((STRANGER, STRANGERS_GROUP), (STRANGER, 70), (71, 9)):
            peer = access.peer(cast("socket.socket", Peer(uid, gid)))
            with pytest.raises(Refused, match="may not change the store's processes"):
                access.check(peer, request)
        assert may(access, 1000, 9, request)
        assert may(access, 0, 0, request)


def test_a_member_sets_the_offsets_of_its_own_group(operators: Access) -> None:
    assert may(operators, STRANGER, 70, Reset("g", "t", {0: 0}), "g")
    assert not may(operators, STRANGER, 70, Reset("other", "t", {0: 0}), "g")
    assert not may(operators, STRANGER, 70, DeleteGroup("g"), "g")
