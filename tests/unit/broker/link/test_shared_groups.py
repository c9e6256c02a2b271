"""When clients have let go of a queue that a member of the store is to have."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, cast

import pytest

from silomq.broker.link import shared_groups
from silomq.broker.link.shared_groups import SharedGroups
from silomq.shm.protocol.answers import Sides

if TYPE_CHECKING:
    from silomq.broker.loop._connection import Connection

Q0, Q1 = ("t", 0), ("t", 1)


class Peer:
    """A connection, as far as it is looked at here."""

    closed = False


class Case:
    """A group with two queues, of which one is revoked, at a time that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        clock = types.SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(shared_groups, "time", clock)
        self.locked: set[tuple[str, int]] = set()
        self.broadcasting: list[Any] = []
        self.groups = SharedGroups(
            lambda _, queue: queue in self.locked, lambda _, peer: peer in self.broadcasting
        )
        self.peer = cast("Connection", Peer())

    def answer(self, *revoked: tuple[str, int], mixed: bool = True) -> bool:
        has = [Q0, Q1] if mixed else []
        answer = Sides(number=1, mixed=mixed, clients=["a", "m"], has=has, revoked=[*revoked])
        return self.groups.take("g", answer, ["t"])

    def gone(self) -> bool:
        """Whether Q0 has been given back."""
        return self.groups.look() == ["g"]


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    found = Case(monkeypatch)
    assert found.answer()
    found.groups.pulled(found.peer, "g", Q0, 17)
    found.groups.pulled(found.peer, "g", Q0, 25)
    assert not found.answer(Q0)
    assert not found.gone()
    return found


def test_a_client_that_commits_after_it_has_the_list(case: Case) -> None:
    case.groups.committed(case.peer, "g", Q0)
    assert not case.gone(), "a commit alone says nothing"
    case.now += 0.1
    case.groups.listed(case.peer, "g")
    assert not case.gone()
    case.now += 0.1
    case.groups.committed(case.peer, "g", Q0)
    assert case.gone()
    shared = case.groups.get("g")
    assert shared is not None
    assert shared.given == {Q0: 17}, "with where its reader began"
    assert case.groups.refuses("g", Q0)
    assert not case.groups.refuses("g", Q1)
    assert not case.answer(Q0)
    assert case.groups.refuses("g", Q0), "until the registry has confirmed it"
    assert not case.gone()


def test_a_client_that_has_nothing_to_commit(case: Case) -> None:
    case.now += 0.1
    case.groups.listed(case.peer, "g")
    case.now += 0.9
    assert not case.gone()
    case.now += 0.2
    assert case.gone()


def test_a_client_that_still_pulls(case: Case) -> None:
    case.groups.listed(case.peer, "g")
    for _ in range(24):
        case.now += 1
        case.groups.pulled(case.peer, "g", Q0, 30)
        case.groups.committed(case.peer, "g", Q0)
        assert not case.gone()
    case.now += 2
    assert case.gone(), "25 s are enough"


@pytest.mark.parametrize("how", ["ended", "left", "closed", "broadcasts", "not mixed"])
def test_clients_that_do_not_count(case: Case, how: str) -> None:
    if how == "ended":
        case.groups.disconnected(case.peer)
    elif how == "left":
        case.groups.left(case.peer, "g")
    elif how == "closed":
        cast("Any", case.peer).closed = True
    elif how == "broadcasts":
        case.broadcasting.append(case.peer)
    else:
        assert case.answer(mixed=False)
        assert not case.groups.refuses("g", Q0)
        assert not case.gone()
        return
    assert case.gone()


def test_a_lock_is_waited_for(case: Case) -> None:
    case.locked.add(Q0)
    case.now += 50
    assert not case.gone()
    case.locked.clear()
    assert case.gone()


def test_who_may_begin(case: Case) -> None:
    groups = case.groups
    other = cast("Connection", Peer())
    assert groups.may_begin("g", Q0, case.peer), "it reads the queue already"
    assert not groups.may_begin("g", Q0, other)
    assert groups.may_begin("g", Q1, other)
    assert not groups.may_begin("g", ("t", 2), other)
    assert groups.may_begin("g", ("u", 0), other), "a topic that nobody divides"
    assert groups.may_begin("h", Q0, other)
