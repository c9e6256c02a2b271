"""Slopes of series."""

from __future__ import annotations

import msgspec
import pytest
from support.bench_results import run

from silomq.bench.harness.results.drift import drift, slope, trends
from silomq.bench.harness.results.model import Series


def test_slopes_are_those_of_an_hour() -> None:
    assert slope([0.0, 1.0, 2.0, 3.0]) == pytest.approx(3600)
    assert slope([5.0, None, 5.0]) == 0
    assert slope([None, 1.0]) == 0


def test_memory_is_that_of_all_processes() -> None:
    rows = 70
    columns: dict[str, list[float | None]] = {
        "publish_rate": [100.0] * rows,
        "memory.a": [float(n) for n in range(rows)],
        "memory.b": [float(2 * n) for n in range(rows)],
        "files.a": [7.0] * rows,
    }
    found = drift(columns, 5)
    assert found["memory"] == pytest.approx(3 * 3600)
    assert found["files"] == found["publish_rate"] == 0
    columns["memory.b"][30] = None  # it was being replaced
    assert drift(columns, 5)["memory"] == pytest.approx(3 * 3600)
    assert drift(columns, 11) == {}


def told(columns: dict[str, list[float | None]]) -> dict[str, str]:
    """The meaning of each trend."""
    rows = len(columns["publish_rate"])
    made = msgspec.structs.replace(
        run(), warm_up_s=0.0, series=Series([float(n) for n in range(rows)], columns)
    )
    return {one.title: one.said()[-1] for one in trends(made)}


def test_a_drift_is_more_than_noise_and_more_than_some_percent() -> None:
    rows = 600
    noise = [float(n * 7919 % 101) - 50 for n in range(rows)]
    columns: dict[str, list[float | None]] = {
        "publish_rate": [10_000.0 + one for one in noise],  # steady
        "publish_p99": [300.0 + n + one for n, one in enumerate(noise)],  # grows to three times
        "memory.a": [1e9 + 1e4 * n for n in range(rows)],  # grows clearly, by 0.6 %
        "files.a": [50.0 + n // 200 for n in range(rows)],  # one more each 200 s
        "shared_memory": [1e6 + 20_000 * one for one in noise],  # wild, without a direction
    }
    assert told(columns) == {
        "rate": "no drift",
        "publish latency, p99": "DRIFT",
        "memory of the server's processes": "no drift",
        "open files of the server": "DRIFT",
        "shared memory of the machine": "no drift",
    }


def test_a_trend_is_told_in_numbers() -> None:
    rows = 101
    columns: dict[str, list[float | None]] = {
        "publish_rate": [1000.0 - n for n in range(rows)],
    }
    made = msgspec.structs.replace(
        run(), warm_up_s=0.0, series=Series([float(n) for n in range(rows)], columns)
    )
    (rate,) = trends(made)
    assert rate.said() == ("950 msg/s", "-3.6 k msg/s an hour", "-10.5%", "DRIFT")
