"""The locks of queues: one owner each, which must renew them."""

from __future__ import annotations

import time

from silomq.broker.groups.queue_locks import QueueLocks

A, B = ("orders", 0), ("orders", 1)


def test_a_queue_has_one_owner_in_each_group() -> None:
    locks = QueueLocks(60)
    assert locks.lock("g", "one", [A, B]) == [A, B]
    assert locks.lock("g", "two", [A, B]) == []
    assert locks.lock("other", "two", [A]) == [A]
    assert locks.lock("g", "one", [A]) == [A], "its owner renews it"
    locks.unlock("g", "two", [A])
    assert locks.lock("g", "two", [A]) == [], "only its owner releases it"
    locks.unlock("g", "one", [A])
    assert locks.lock("g", "two", [A, B]) == [A]


def test_what_is_not_locked_may_be_unlocked() -> None:
    locks = QueueLocks(60)
    locks.lock("g", "one", [A])
    for client in ("", "one"):
        locks.unlock("g", client, [B])
        locks.unlock("nobody", client, [A])
    assert locks.lock("g", "", [A, B]) == [B], "a client may have no name"
    assert locks.lock("g", "one", [B]) == []


def test_a_lock_that_is_not_renewed_ends() -> None:
    locks = QueueLocks(0.05)
    assert locks.lock("g", "one", [A]) == [A]
    assert locks.any_held("g")
    time.sleep(0.06)
    assert not locks.any_held("g")
    assert locks.lock("g", "two", [A]) == [A]
    assert locks.any_held("g")


def test_locks_are_bounded() -> None:
    locks = QueueLocks(60)
    taken = 0
    for group in range(150):
        taken += len(locks.lock(f"g{group}", "one", [("t", n) for n in range(1000)]))
    assert taken == 100_000
    assert locks.lock("g0", "one", [("t", 0)]) == [("t", 0)], "one that is held is renewed"
    assert locks.lock("new", "one", [A]) == []
    locks.unlock("g0", "one", [("t", 1)])
    assert locks.lock("new", "one", [A, B]) == [A]


def test_locks_that_have_ended_make_room() -> None:
    locks = QueueLocks(0.01)
    for group in range(3):
        locks.lock(f"g{group}", "one", [("t", n) for n in range(50_000)])
    time.sleep(0.02)
    assert locks.lock("new", "one", [A, B]) == [A, B]
