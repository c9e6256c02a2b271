"""Counts are those of an HdrHistogram: the library finds the same steps, percentiles and mean."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from silomq.bench.harness.load._counts import Counts
from silomq.bench.harness.load.latencies import counts_in
from silomq.bench.harness.load.protocol import DIGITS, HIGHEST_US, LOWEST_US

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A value at each end of each bucket, and of each half of one, and its neighbours.
BOUNDARIES = sorted(
    {
        value
        for power in range(33)
        for edge in (1 << power, 3 << power, 2047 << power)
        for value in (edge - 1, edge, edge + 1)
        if value <= HIGHEST_US
    }
    | {0, 1, HIGHEST_US - 1, HIGHEST_US}
)
US = st.one_of(st.integers(0, HIGHEST_US), st.integers(0, 5000), st.sampled_from(BOUNDARIES))
SHARES = (0.001, 1, 50, 75, 95, 99, 99.9, 99.99, 100)


def library(us: Iterable[int]) -> Any:
    """The library's histogram of the same values."""
    found = HdrHistogram(LOWEST_US, HIGHEST_US, DIGITS)
    for value in us:
        assert found.record_value(max(1, value))
    return found


def counted(us: Iterable[int]) -> Counts:
    found = Counts()
    for value in us:
        found.record(value * 1000)
    return found


def expected(histogram: Any) -> bytes:
    """The counts as the library encodes them."""
    return counts_in(histogram.encode().decode())


def test_each_boundary_has_the_step_of_the_library() -> None:
    theirs = library([])
    for us in BOUNDARIES[1:]:
        before, after = (theirs.get_lowest_equivalent_value(one) for one in (us - 1, us))
        both = counted([max(1, us - 1), us])
        assert both.percentiles([50, 100]) == [
            theirs.get_highest_equivalent_value(max(1, one)) for one in (us - 1, us)
        ]
        assert (both.percentiles([50]) == both.percentiles([100])) == (before == after or us == 1)
    for us in BOUNDARIES[:: len(BOUNDARIES) // 20]:
        assert counted([us]).take() == expected(library([us])), us


@given(st.lists(US, min_size=1, max_size=300))
@settings(max_examples=50, deadline=None)
def test_percentiles_mean_and_form_are_those_of_the_library(us: list[int]) -> None:
    ours, theirs = counted(us), library(us)
    assert ours.total == theirs.get_total_count()
    found = theirs.get_percentile_to_value_dict([*SHARES])
    assert ours.percentiles(SHARES) == [found[one] for one in SHARES]
    assert ours.mean() == pytest.approx(theirs.get_mean_value(), rel=1e-12)
    assert ours.take() == expected(theirs)


@given(st.lists(US, max_size=50), st.lists(US, max_size=50))
def test_what_was_taken_is_added(some: list[int], others: list[int]) -> None:
    whole, both = Counts(), counted(some + others)
    for us in (some, others):
        one = counted(us)
        whole.add_encoded(one.take())
        assert (one.total, one.percentiles([50, 100]), one.mean()) == (0, [0, 0], 0)
        assert one.take() == b""
    assert whole.total == both.total
    assert whole.percentiles(SHARES) == both.percentiles(SHARES)
    assert whole.take() == both.take()


def test_many_at_once_and_values_out_of_bounds() -> None:
    ns = array("q", [-(2**63), -1, 0, 999, 1000, 1999, 2000, HIGHEST_US * 1000 + 1, 2**63 - 1])
    at_once, one_by_one = Counts(), Counts()
    at_once.record_all(ns)
    for one in ns:
        one_by_one.record(one)
    theirs = library([1] * 6 + [2] + [HIGHEST_US] * 2)
    assert at_once.take() == one_by_one.take() == expected(theirs)
    ns.append(1)  # the buffer is released
    at_once.record_all(b"")
    assert at_once.total == 0


def test_large_counts() -> None:
    one = Counts()
    one.record(5000)
    for _ in range(40):
        text = one.take()
        one.add_encoded(text)
        one.add_encoded(text)
    assert one.total == 1 << 40
    assert one.mean() == 5
    theirs = HdrHistogram(LOWEST_US, HIGHEST_US, DIGITS)
    theirs.record_value(5, 1 << 40)
    assert one.take() == expected(theirs)


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        (b"\x80", "the counts end within step 0"),
        (b"\x02\xff\xff", "the counts end within step 1"),
        (b"\xff" * 9, "counts of 0 behind step 0 of 23552"),
        (b"\xfe" + b"\xff" * 8, "step 0 of 23552 counts 9223372036854775807"),
        (b"\xff\xef\x02\x02", "step 23552 of 23552 counts 1"),
        (b"\x81\xf0\x02", "23553 counts of 0 behind step 0 of 23552"),
    ],
)
def test_damaged_counts(damaged: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Counts().add_encoded(damaged)
