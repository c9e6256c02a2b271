"""Counters that compiled paths add to."""

from __future__ import annotations

import pytest

from silomq.broker.statistics._counters import LIMITS, Latencies, Meter


def test_a_meter_adds_up() -> None:
    meter = Meter()
    meter.add(3, 300)
    meter.add(1, 10)
    assert meter.totals() == (2, 4, 310)


@pytest.mark.parametrize("ms", [*range(60), 99, 100, 199, 200, 499, 500, 999, 1000, 9999])
def test_a_time_falls_between_the_limits_of_its_step(ms: int) -> None:
    latencies = Latencies()
    latencies.add(ms)
    (step,) = [number for number, count in enumerate(latencies.counts()) if count]
    if ms == 0:
        assert step == 0
    else:
        assert LIMITS[step - 1] <= ms < LIMITS[step]


@pytest.mark.parametrize("ms", [10_000, 10_001, 2**40])
def test_long_times_are_counted_behind_the_last_limit(ms: int) -> None:
    latencies = Latencies()
    latencies.add(ms)
    assert latencies.counts()[len(LIMITS)] == 1
    assert latencies.longest_ms == ms


def test_limits_are_those_of_rocketmq() -> None:
    assert len(LIMITS) == 76
    assert LIMITS[:3] == (0, 1, 2)
    assert {10, 50, 100, 200, 500, 1000, 10_000} <= set(LIMITS)
    assert list(LIMITS) == sorted(set(LIMITS))
