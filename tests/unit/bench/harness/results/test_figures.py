"""Figures of runs."""

from __future__ import annotations

import msgspec
import pytest
from support.bench_results import run

from silomq.bench.harness.results.figures import BY_KEY, values


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
