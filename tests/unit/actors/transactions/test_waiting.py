"""Decisions that wait."""

from __future__ import annotations

from silomq.actors.transactions.goals import PAUSE_MS
from silomq.actors.transactions.waiting import Decided, Waiting


def decided(place: int) -> Decided:
    return Decided(place, b"%d" % place)


def test_they_come_when_they_are_to_be_tried() -> None:
    waiting = Waiting()
    assert waiting.next_ms == float("inf")
    for place in range(5):
        waiting.add(decided(place), 1000 + place)
    assert waiting.next_ms == 1000
    assert waiting.take(999, 10) == []
    assert waiting.take(1001, 10) == [decided(0), decided(1)]
    assert waiting.take(2000, 2) == [decided(2), decided(3)]
    assert waiting.decided == {b"4": decided(4)}


def test_a_clock_that_goes_back_does_not_hold_them() -> None:
    waiting = Waiting()
    waiting.add(decided(1), 10**12)
    assert waiting.take(10**12 - PAUSE_MS, 10) == []
    assert waiting.take(1000, 10) == [decided(1)]


def test_the_progress_is_not_ahead_of_them() -> None:
    waiting = Waiting()
    assert waiting.first(9) == 9
    for place in (7, 3, 5):
        waiting.add(decided(place), 1000)
    assert waiting.first(9) == 3
    taken = {one.place: one for one in waiting.take(1000, 10)}
    assert waiting.first(9) == 9
    waiting.add(taken[5], 2000)
    assert waiting.first(9) == 5


def test_trying_again_and_again_takes_no_memory() -> None:
    waiting = Waiting()
    for now in range(10_000):
        waiting.add(decided(1), now)
        assert waiting.take(now, 10) == [decided(1)]
    assert len(waiting._places) < 2000
    assert not waiting._order
