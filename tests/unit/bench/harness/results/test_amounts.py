"""Numbers as people read them."""

from __future__ import annotations

import pytest

from silomq.bench.harness.results.amounts import amount


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "us", "0 us"),
        (0.25, "us", "250 ns"),
        (87.0, "us", "87 us"),
        (1234.0, "us", "1.23 ms"),
        (3.6e9, "us", "3,600 s"),
        (123_456.0, "msg/s", "123 k msg/s"),
        (12.0, "msg/s", "12 msg/s"),
        (0.0, "msg/s", "0 msg/s"),
        (1536.0, "bytes", "1.5 KiB"),
        (1.5e9, "bytes/s", "1.5 GB/s"),
        (100.0, "B", "100 B"),
        (2.0, "x", "2×"),
        (10.0, "", "10"),
        (1e17, "", "1.00e+17"),
        (0.5, "s", "0.5 s"),
        (-5.0, "", "-5"),
        (None, "us", "–"),
        (float("inf"), "x", "inf×"),
    ],
)
def test_amounts(value: float | None, unit: str, text: str) -> None:
    assert amount(value, unit) == text
