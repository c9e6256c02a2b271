"""The book of open transactions."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.halves import half

from silomq.store.transactions.book import MOST_BEHIND, Book

FIRST_MS, EVERY_MS = 6000, 30_000
STORED_MS = 5000  # of `half`


def book(following: int = 0) -> Book:
    return Book(following, FIRST_MS, EVERY_MS)


def read(into: Book, *halves: object) -> None:
    for one in halves:
        into.add(one)  # type: ignore[arg-type]
        into.following = one.queue_offset + 1  # type: ignore[attr-defined]


# -- which half counts


def test_the_newest_half_stands_for_the_transaction() -> None:
    found = book()
    read(found, half(0, "a"), half(1, "b"), half(2, "a", checks=1))
    assert len(found) == 2
    (older,) = found.stale()
    assert (older.queue_offset, older.older, older.checks) == (2, [0], 1)
    assert found.at(2000) is older
    assert found.at(0) is None
    assert found.find(older.identity) is found.same(half(9, "a")) is older
    assert [one.queue_offsets for one in found] == [[0, 2], [1]]


def test_an_older_half_that_is_read_late_is_named_too() -> None:
    """A check was put behind it before it was read."""
    found = book()
    found.add(half(5, "a", checks=1))
    read(found, half(3, "a"))
    (one,) = found.stale()
    assert (one.queue_offset, one.older) == (5, [3])
    assert found.first == 3
    read(found, half(3, "a"))
    assert one.older == [3]


def test_what_op_records_name_is_done() -> None:
    found = book()
    read(found, half(0, "a"), half(1, "b"))
    found.add(half(7, "a", checks=1))
    (one,) = found.stale()
    found.superseded(one, {0})
    assert found.stale() == []
    assert (found.first, found.floor) == (1, 1000)
    assert found.done == set()
    found.end(one)
    assert found.done == {7}  # it is not read yet
    assert len(found) == 1


def test_a_copy_of_rocketmqs_is_not_called_older() -> None:
    """An op record that names the half before it would end the transaction."""
    found = book()
    read(found, half(0, "a"), half(1, "a", copy_of=0))
    assert found.stale() == []
    (copy,) = found.due(0, 10)
    assert copy.queue_offset == 1
    found.add(half(2, "a"))
    (one,) = found.stale()
    assert one.queue_offsets == [0, 1, 2]


# -- checks


@pytest.mark.parametrize(
    ("more", "wait_ms"),
    [
        ({}, FIRST_MS),
        ({"immunity_ms": 60_000}, 60_000),
        ({"immunity_ms": 60_000, "checks": 1}, EVERY_MS),
        ({"first_ms": STORED_MS - 1000}, FIRST_MS - 1000),
    ],
)
def test_when_a_check_is_due(more: dict[str, Any], wait_ms: int) -> None:
    found = book()
    read(found, half(0, **more))
    assert found.next_due_ms == STORED_MS + wait_ms
    assert found.due(STORED_MS + wait_ms - 1, 10) == []
    (one,) = found.due(STORED_MS + wait_ms, 10)
    assert found.due(10**12, 10) == []
    found.put_off(one, 10**12)
    assert found.due(10**12, 10) == [one]


def test_a_half_that_was_moved_keeps_its_time() -> None:
    found = book()
    read(found, half(0, "a", immunity_ms=60_000))
    found.add(half(9, "a", immunity_ms=60_000, stored_ms=STORED_MS + 50_000))
    assert len(found.due(STORED_MS + 60_000, 10)) == 1
    found = book()
    read(found, half(0, "a", checks=1))
    found.add(half(9, "a", checks=1, stored_ms=STORED_MS + 20_000))
    assert len(found.due(STORED_MS + EVERY_MS, 10)) == 1


def test_a_half_from_the_future_is_checked_in_time() -> None:
    found = book()
    found.add(half(0, stored_ms=10**12, first_ms=10**12), now_ms=STORED_MS)
    assert len(found.due(STORED_MS + FIRST_MS, 10)) == 1


def test_checks_come_in_time_though_the_clock_goes_back() -> None:
    found = book()
    assert found.due(10**9, 10) == []
    for i in range(3):
        found.add(half(i, str(i), stored_ms=10**9, first_ms=10**9), now_ms=10**9)
    assert found.due(1000, 10) == []
    assert found.due(999 + FIRST_MS, 10) == []
    assert len(found.due(1000 + FIRST_MS, 10)) == 3


def test_as_many_as_are_asked_for() -> None:
    found = book()
    read(found, *(half(i, str(i)) for i in range(10)))
    first = found.due(10**6, 4)
    rest = found.due(10**6, 100)
    assert [one.queue_offset for one in first + rest] == list(range(10))


# -- progress


def test_an_old_half_that_holds_the_progress_back() -> None:
    found = book()
    read(found, half(0, "a"))
    assert found.behind(10) == []
    found.following = MOST_BEHIND + 4
    (one,) = found.behind(10)
    assert one.queue_offset == 0
    found.add(half(MOST_BEHIND + 10, "a"))
    assert found.behind(10) == []  # its op record comes first
    found.superseded(found.stale()[0], {0})
    assert found.behind(10) == []
    assert found.first == found.following


def test_many_that_are_open_are_no_reason_to_move_them() -> None:
    found = book()
    read(found, *(half(i, str(i)) for i in range(1000)))
    found.following = MOST_BEHIND + 1500
    assert found.behind(10) == []


def test_what_is_open_takes_memory_and_nothing_else() -> None:
    """Each of 20,000 ends long before its check would be due, and while the first stays open."""
    found = book()
    read(found, half(0, "first"))
    for i in range(1, 20_000):
        one = half(i, str(i), immunity_ms=3_600_000)
        read(found, one)
        found.end(one)
    assert len(found) == 1
    assert len(found._due) < 2000
    assert found.done == set()
    found.end(found.due(10**12, 1)[0])
    assert found.first == 20_000
    assert found._firsts == []


def test_many_halves_of_one_transaction_are_no_work() -> None:
    found = book()
    began = time.monotonic()
    read(found, *(half(i, "same") for i in range(4096)))
    assert time.monotonic() - began < 5
    (one,) = found.stale()
    assert len(one.older) == 4095
