"""Counters by topic, and by topic and group: their number is bounded."""

from __future__ import annotations

from silomq.broker.statistics.meters import Meters


def test_each_key_has_one_counter_up_to_the_bound() -> None:
    fresh: list[str] = []
    meters = Meters(2, fresh.append)
    first = meters.of("a")
    assert meters.of("a") is first
    meters.of("b").add(1, 10)
    others = meters.of("c")
    assert meters.of("d") is others
    assert others is not first
    others.add(5, 50)
    first.add(2, 20)
    assert fresh == ["a", "b"]
    assert len(meters) == 2
    assert meters.sums() == (3, 8, 80), "also of those without a place"


def test_a_forgotten_key_makes_room() -> None:
    meters = Meters(1)
    before = meters.of("a")
    meters.forget("a")
    assert meters.of("b") is not before
    assert [key for key, _ in meters] == ["b"]
