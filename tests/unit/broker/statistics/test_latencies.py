"""How long puts took."""

from __future__ import annotations

import time

from silomq.broker.statistics.latencies import PutLatencies

#: RocketMQ's names, as its tools show them.
NAMES = [
    "<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s", "1~2s", "2~3s",
    "3~4s", "4~5s", "5~10s", "10s~",
]  # fmt: skip


def test_the_distribution_has_each_put_once() -> None:
    latencies = PutLatencies()
    for ms in (0, 0, 1, 9, 10, 60, 150, 300, 700, 1500, 2500, 3500, 4500, 9999, 10_000, 99_999):
        latencies.all.add(ms)
    found = latencies.distribution()
    assert list(found) == NAMES
    assert list(found.values()) == [2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]


def test_a_new_minute_begins_anew() -> None:
    latencies = PutLatencies()
    latencies.all.add(5)
    latencies.tick(time.monotonic())
    assert sum(latencies.distribution().values()) == 1
    latencies.tick(time.monotonic() + 61)
    latencies.all.add(700)
    assert {n: c for n, c in latencies.distribution().items() if c} == {"500ms~1s": 1}
    assert latencies.all.longest_ms == 700


def test_percentiles() -> None:
    latencies = PutLatencies()
    assert latencies.percentile(0.99) == 0.0
    for ms in (*[0] * 98, 4, 4, 900):
        latencies.all.add(ms)
    assert latencies.percentile(0.5) == 0.0
    assert latencies.percentile(0.98) == 5.0
    assert latencies.percentile(0.9999) == 1000.0
    for _ in range(200):
        latencies.all.add(50_000)
    assert latencies.percentile(0.99) == 50_000.0
