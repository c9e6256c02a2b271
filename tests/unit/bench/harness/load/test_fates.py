"""A message under way has one fate. The loops that begin messages are in test_producing.py."""

from __future__ import annotations

import time

from silomq.bench.harness.load._counts import Counts
from silomq.bench.harness.load._fates import Fates


def test_fates() -> None:
    publish, errors = Counts(), list[Exception | str]()
    fates = Fates(publish, Counts(), errors.append)
    fates.stored(time.monotonic_ns() - 5_000_000)
    told = fates.delivery(time.monotonic_ns() - 7_000_000)
    told(None, "a message")
    assert publish.total == 2
    least, most = publish.percentiles((50, 100))
    assert 5000 <= least < most
    assert 7000 <= most < 7_000_000
    fates.delivery(1)(ConnectionError("gone"), None)
    fates.refused(1, "full")
    assert errors == ["gone", "full"]
    assert publish.total == 2
    assert fates.under_way == -4, "none of them was begun by a loop"
