"""Percentiles agree with a plain sort, and what is no histogram is refused."""

from __future__ import annotations

import base64
import math
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.bench_results import recorded

from silomq.bench.harness.load._counts import Counts
from silomq.bench.harness.load.latencies import NoHistogram, add
from silomq.bench.harness.results.histograms import (
    added_up,
    decode,
    interval_log,
    latency,
    percentile_points,
    percentile_table,
)

LATENCIES = st.lists(st.integers(1, 10_000_000), min_size=1, max_size=60)
#: A histogram has three digits.
CLOSE = 1e-3


@given(LATENCIES, LATENCIES)
@settings(max_examples=15, deadline=None)
def test_percentiles_of_two_runs_are_those_of_all_values(one: list[int], other: list[int]) -> None:
    both = Counts()
    for values in (one, other):
        add(both, recorded(values).histogram)
    found = latency(both)
    whole = added_up([recorded(one), recorded(other)])
    assert whole.encode() == decode(found.histogram).encode()
    ordered = sorted(one + other)
    assert found.count == len(ordered)
    assert found.mean == pytest.approx(sum(ordered) / len(ordered), rel=CLOSE)
    for name, value in found.percentiles.items():
        rank = max(1, math.ceil(float(name) / 100 * len(ordered) - 0.5))
        # The library rounds a rank to the nearest one.
        near = {ordered[min(len(ordered), max(1, rank + n)) - 1] for n in (0, 1)}
        assert any(value == pytest.approx(one, rel=CLOSE) for one in near), (name, value)
    assert found.percentiles["100"] == pytest.approx(ordered[-1], rel=CLOSE)


def test_points_of_a_plot_end_at_the_greatest_value() -> None:
    points = percentile_points(decode(recorded(range(1, 1001)).histogram))
    assert points[0] == (1.0, 1.0)
    assert points[-1] == (1000.0, 1000.0)
    assert [y for x, y in points if abs(x - 16) < 0.01] == [pytest.approx(938, abs=1)]
    assert points == sorted(points)
    assert percentile_points(decode("")) == []


def packed(inside: bytes) -> str:
    small = zlib.compress(inside)
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(small)) + small).decode()


HEADER = struct.Struct(">IIIIqqd")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no base64!", "no histogram"),
        ("AAAA", "no histogram"),
        (recorded([5]).histogram[:-8], "no histogram|damaged"),
        (packed(bytes(64 << 20)), "no histogram"),  # it would take 64 MiB
        (packed(HEADER.pack(0x1C849313, 0, 0, 5, 1, 1 << 50, 1.0)), "5 digits"),
        (packed(HEADER.pack(0x1C849313, 1 << 20, 0, 3, 1, 3_600_000_000, 1.0)), "damaged"),
    ],
)
def test_what_is_no_histogram_is_refused(text: str, why: str) -> None:
    with pytest.raises(NoHistogram, match=why):
        decode(text)


def test_files_for_the_tools_of_hdrhistogram() -> None:
    found = recorded(range(1, 101))
    table = percentile_table(decode(found.histogram)).decode()
    assert table.split()[:4] == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
    assert "TotalCount     =      100.000" in table
    lines = interval_log([(0.0, 10.0, found.histogram)]).decode().splitlines()
    assert lines[-1] == f"0.000,10.000,0.100,{found.histogram}"
