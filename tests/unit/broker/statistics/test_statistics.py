"""RocketMQ's statistics by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from silomq.broker.statistics import statistics as module
from silomq.broker.statistics.statistics import Statistics
from silomq.broker.statistics.store_figures import Counted

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTHING = Counted(1, 0, 0, 0, 0, 0, 0)


class Clock:
    """A clock of the test's own."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    found = Clock()
    monkeypatch.setattr(module, "time", found)
    return found  # type: ignore[return-value]


def test_what_topics_and_groups_did_in_the_last_minute(clock: Clock) -> None:
    found = Statistics("c")
    found.tick(NOTHING)
    found.sent("t", 4, 400, 0.003)
    found.pulled("t", "g", 2, 200)
    found.sent_back("t", "g")
    clock.now += 10
    found.tick(NOTHING)
    for name, key, total in (
        ("TOPIC_PUT_NUMS", "t", 4),
        ("TOPIC_PUT_SIZE", "t", 400),
        ("GROUP_GET_NUMS", "t@g", 2),
        ("GROUP_GET_SIZE", "t@g", 200),
        ("SNDBCK_PUT_NUMS", "t@g", 1),
        ("BROKER_PUT_NUMS", "c", 4),
        ("BROKER_GET_NUMS", "c", 2),
    ):
        statistic = found.find(name, key)
        assert statistic is not None, name
        assert statistic.minute.total == total, name
        assert statistic.minute.per_second == pytest.approx(total / 10), name
        assert statistic.day.total == 0, "the next look of the day comes in an hour"
    assert found.put_tps("t") == pytest.approx(0.4)
    assert found.get_tps("t", "g") == pytest.approx(0.2)
    assert found.counted_reads() == (1, 0)


def test_unknown_ones(clock: Clock) -> None:
    found = Statistics("c")
    found.tick(NOTHING)
    for name, key in (("TOPIC_PUT_NUMS", "x"), ("BROKER_PUT_NUMS", "x"), ("NO_NUMS", "c")):
        assert found.find(name, key) is None
    assert found.put_tps("x") == found.get_tps("x", "y") == 0.0
    assert clock.now > 0


def test_who_is_idle_for_more_than_a_day_gives_up_the_place(clock: Clock) -> None:
    found = Statistics("c")
    calls: list[None] = []
    found.forgotten.append(lambda: calls.append(None))
    found.sent("t", 1, 1, 0.0)
    for _ in range(26 * 360):
        clock.now += 10
        found.tick(NOTHING)
    assert found.find("TOPIC_PUT_NUMS", "t") is None
    assert len(found.puts) == 0
    assert len(calls) == 1, "compiled paths let go of its counter"
