"""Figures of runs."""

from __future__ import annotations

import msgspec
import pytest
from support.bench_results import run

from silomq.bench.harness.results.figures import BY_KEY, values
from silomq.bench.harness.results.model import Series


@pytest.mark.parametrize(
    ("seconds", "found"),
    [
        pytest.param(2.0, [50.0], id="a_run"),
        pytest.param(0.0, [], id="no_time"),
        pytest.param(5e-324, [], id="a_time_too_short_to_divide_by"),
    ],
)
def test_bytes_are_published_in_some_time(seconds: float, found: list[float]) -> None:
    made = msgspec.structs.replace(run(), sent_bytes=100, seconds=seconds)
    assert values(BY_KEY["publish_bytes"], [made]) == found


def test_what_drifts_is_counted() -> None:
    seconds = [float(n) for n in range(70)]
    steady = Series(seconds, {"publish_rate": [10.0] * 70})
    growing = Series(seconds, {"publish_rate": [*seconds], "files.a": [5.0 + n for n in seconds]})
    found = [
        values(BY_KEY["drifts"], [msgspec.structs.replace(run(), series=one)])
        for one in (steady, growing, run().series)
    ]
    assert found == [[0.0], [2.0], []], "a short run says nothing"
