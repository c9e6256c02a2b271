"""Connections without a session are bounded: of each user, of all together, and in time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from silomq.actors.registry.waiting import Waiting

if TYPE_CHECKING:
    import pytest


def test_a_user_that_opens_too_many_loses_its_oldest() -> None:
    found = Waiting(40)
    assert [found.add(fd, 1) for fd in range(10)] == [None] * 10
    assert found.add(100, 2) is None  # another user's
    assert found.add(10, 1) == 0
    found.remove(0)
    found.remove(1)
    assert found.add(11, 1) is None
    assert found.add(12, 1) == 2


def test_with_many_users_the_one_with_the_most_loses_its_oldest() -> None:
    found = Waiting(8)
    assert [found.add(10 + fd, 1) for fd in range(3)] == [None] * 3
    assert [found.add(20 + uid, uid) for uid in range(2, 7)] == [None] * 5
    assert found.add(30, 9) == 10


def test_a_connection_that_says_nothing_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    found = Waiting(8)
    found.add(3, 1)
    now = 105.0
    found.add(4, 1)
    assert found.overdue() == []
    now = 110.5
    assert found.overdue() == [3]
    found.remove(3)
    assert found.overdue() == []
