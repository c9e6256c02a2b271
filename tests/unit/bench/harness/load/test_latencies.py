"""Histograms that are filled from arrays are those that are filled one by one."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.bench.harness.load.latencies import add, encode, histogram, record
from silomq.bench.harness.load.protocol import HIGHEST_US

NS = st.one_of(st.integers(0, 10**7), st.integers(0, 10**13), st.integers(-5, 3 * 10**6))


@given(st.lists(NS, min_size=1, max_size=200))
def test_all_at_once_or_one_by_one(values: list[int]) -> None:
    at_once, one_by_one = histogram(), histogram()
    record(at_once, array("q", values))
    for value in values:
        one_by_one.record_value(min(HIGHEST_US, max(1, value // 1000)))
    assert encode(at_once) == encode(one_by_one)
    summed = histogram()
    add(summed, encode(at_once))
    add(summed, encode(at_once))
    assert summed.get_total_count() == 2 * len(values)


def test_nothing_and_no_histogram() -> None:
    assert encode(histogram()) == ""
    into = histogram()
    add(into, "")
    assert into.get_total_count() == 0
    with pytest.raises(RuntimeError, match="a worker sent no histogram"):
        add(into, "aGVsbG8=")
