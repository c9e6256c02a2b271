"""Slopes of series."""

from __future__ import annotations

import pytest

from silomq.bench.harness.run.drift import drift, slope


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
