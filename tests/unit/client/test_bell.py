"""The client's side of a bell: what it writes into its page, and what it reads from its socket."""

from __future__ import annotations

import os

import pytest
from support.bells import ALL, bell_of, is_readable
from support.open_files import nothing_stays_open

from silomq.client._bell import Bell
from silomq.shm import bell
from silomq.shm._memory import Mapping
from silomq.shm.control import ARRIVAL_WORDS


def word(page: Mapping, field: str, extra: int = 0) -> int:
    at = bell.BELL[field][0] + extra
    return int.from_bytes(memoryview(page)[at : at + 8], "little")


def watched(page: Mapping) -> set[int]:
    """The arrival words that a page names."""
    at, size = bell.BELL["watched"]
    bits = int.from_bytes(memoryview(page)[at : at + size], "little")
    return {number for number in range(ARRIVAL_WORDS) if bits >> number & 1}


@pytest.fixture
def page() -> Mapping:
    ends = bell.create(1)
    found = Mapping(ends.page, 0, bell.SIZE)
    ends.close()
    return found


def test_each_sleep_has_a_number(page: Mapping) -> None:
    mine = Bell(page, -1)
    mine.arm(ALL)
    assert word(page, "asleep") == 1 << 8 | ALL
    mine.arm(bell.Reason.ANSWERS)
    assert word(page, "asleep") == 2 << 8 | bell.Reason.ANSWERS
    mine.disarm()
    assert word(page, "asleep") == 0
    mine.arm(ALL)
    assert word(page, "asleep") == 3 << 8 | ALL


def test_queues_are_watched_by_their_arrival_words(page: Mapping) -> None:
    mine = Bell(page, -1)
    slots = [0, 63, 64, 1023, 5000]
    for slot in slots:
        mine.watch(slot)
    assert watched(page) == {slot % ARRIVAL_WORDS for slot in slots}
    mine.unwatch(63)
    assert watched(page) == {0, 64, 1023, 5000 % ARRIVAL_WORDS}
    mine.watch_none()
    assert watched(page) == set()


def test_a_word_is_watched_until_its_last_queue_goes(page: Mapping) -> None:
    mine = Bell(page, -1)
    mine.watch(5)
    mine.watch(5 + ARRIVAL_WORDS)
    mine.unwatch(5)
    assert watched(page) == {5}
    mine.unwatch(5 + ARRIVAL_WORDS)
    assert watched(page) == set()


def test_drain_takes_all_rings() -> None:
    with bell_of(1) as (bells, mine):
        assert mine.drain(), "there is nothing to take"
        for _ in range(200):
            mine.arm(ALL)
            bells.ring(ALL)
        assert is_readable(mine.fileno())
        assert mine.drain()
        assert not is_readable(mine.fd)


def test_drain_says_that_the_store_has_hung_up() -> None:
    with bell_of(1) as (bells, mine):
        mine.arm(ALL)
        bells.ring(ALL)
        bells.detach(1)
        assert mine.drain(), "the last ring"
        assert not mine.drain()
        assert is_readable(mine.fd), "whoever waits must see it"


def test_hanging_up_wakes_who_waits_for_a_duplicate() -> None:
    with bell_of(1) as (_, mine):
        other = os.dup(mine.fd)
        assert not is_readable(other)
        mine.hang_up()
        assert is_readable(other)
        os.close(other)


def test_a_closed_bell_does_no_harm() -> None:
    with nothing_stays_open(), bell_of(1) as (_, mine):
        mine.close()
        assert mine.fileno() == -1
        mine.arm(ALL)
        mine.watch(3)
        assert not mine.drain()
        mine.hang_up()
        mine.close()
