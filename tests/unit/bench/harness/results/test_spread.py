"""Medians, ranges, and which differences are more than noise."""

from __future__ import annotations

import pytest

from silomq.bench.harness.results.spread import Ratio, Spread, ratio, spread


def test_a_spread_is_the_median_and_the_ends() -> None:
    assert spread([3.0, 1.0, 2.0]) == Spread(3, 1.0, 2.0, 3.0)
    assert spread([]) is None


def test_a_ratio_needs_values_and_a_base_above_zero() -> None:
    assert ratio([], [1.0]) is None
    assert ratio([1.0], []) is None
    assert ratio([1.0], [0.0]) is None


@pytest.mark.parametrize("runs", [1, 4])
def test_with_few_runs_the_noise_is_unknown(runs: int) -> None:
    found = ratio([20.0] * runs, [10.0] * 9)
    assert found == Ratio(2.0, None)
    assert found.verdict == "noise unknown"


def test_a_difference_within_the_spread_of_the_runs_is_noise() -> None:
    base = [100.0, 90.0, 110.0, 95.0, 105.0]
    found = ratio([101.0, 92.0, 109.0, 97.0, 104.0], base)
    assert found is not None
    assert found.verdict == "within the noise"
    assert found == ratio([101.0, 92.0, 109.0, 97.0, 104.0], base)


def test_a_difference_beyond_the_spread_of_the_runs_differs() -> None:
    found = ratio([200.0, 190.0, 210.0, 195.0, 205.0], [100.0, 90.0, 110.0, 95.0, 105.0])
    assert found is not None
    assert found.interval is not None
    assert 1.7 < found.interval[0] < found.value == 2.0 < found.interval[1] < 2.4
    assert found.verdict == "differs"


def test_a_base_that_is_sometimes_zero_has_no_upper_end() -> None:
    found = ratio([1.0] * 5, [0.0, 0.0, 1.0, 1.0, 1.0])
    assert found is not None
    assert found.interval == (1.0, float("inf"))
