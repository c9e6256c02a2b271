"""Percentiles by the nearest rank."""

from __future__ import annotations

import pytest

from silomq.bench.broker.native import percentile


@pytest.mark.parametrize(
    ("count", "share", "found"),
    [(1, 0.5, 1), (2, 0.5, 1), (3, 0.5, 2), (100, 0.5, 50), (100, 0.99, 99), (200, 0.99, 198)],
)
def test_percentiles(count: int, share: float, found: int) -> None:
    assert percentile(list(range(1, count + 1)), share) == found
