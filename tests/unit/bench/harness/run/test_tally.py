"""What workers say is added up: the series by second, the latencies of the measured part."""

from __future__ import annotations

import pytest

from silomq.bench.harness.load._counts import Counts
from silomq.bench.harness.load.latencies import NoHistogram, taken
from silomq.bench.harness.load.protocol import Tick
from silomq.bench.harness.results.histograms import decode
from silomq.bench.harness.run.tally import Tally


def text(*us: int) -> str:
    counts = Counts()
    for one in us:
        counts.record(1000 * one)
    return taken(counts)


def test_series_and_latencies() -> None:
    tally = Tally(1, 2)
    tally.add("produce", Tick(0, 2, 20, 0, publish=text(7, 7)))
    for worker in range(2):
        tally.add("produce", Tick(1, 10, 100, 1, publish=text(*range(1, 11)), delay=text(worker)))
        tally.add("produce", Tick(2, 1, 10, publish=text(100)))
    tally.add("consume", Tick(0, 12, 120, end_to_end=text(50)), 1)
    tally.add("produce", Tick(3))
    assert tally.rates() == (11.0, 6.0)
    assert (tally.sent, tally.sent_bytes, tally.consumed, tally.errors) == (22, 220, 12, 2)
    assert (tally.all_sent, tally.all_consumed) == (24, 12)
    columns = tally.columns(1)
    assert columns["publish_rate"] == [2, 20, 2, 0]
    assert columns["consume_rate"] == [0, 12, 0, 0]
    assert columns["backlog"] == [2, 10, 12, 12]
    assert columns["publish_p50"] == [7, 5, 100, None]
    assert columns["publish_max"] == [7, 10, 100, None]
    assert columns["publish_mean"] == [7, 5.5, 100, None]
    assert columns["delay_p50"] == [None, 1, None, None]
    assert columns["end_to_end_p99"] == [None, 50, None, None]
    found = tally.latency()
    assert list(found) == ["publish", "delay", "end_to_end"]
    assert (found["publish"].count, found["publish"].percentiles["100"]) == (22, 100)
    assert decode(found["publish"].histogram).get_total_count() == 22
    assert found["publish"].mean == pytest.approx((110 + 200) / 22)


def test_a_worker_that_sends_no_histogram() -> None:
    tally = Tally(0, 1)
    tally.add("produce", Tick(0, 1, 1, 0, publish="aGVsbG8="))
    with pytest.raises(NoHistogram):
        tally.columns(0)
    with pytest.raises(NoHistogram):
        tally.latency()
