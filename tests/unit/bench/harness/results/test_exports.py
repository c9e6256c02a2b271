"""Results in the forms that other tools read."""

from __future__ import annotations

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from support.bench_results import result, rich_result, run, sweep_result

from silomq.bench.harness.results.exports import (
    histogram_files,
    openmessaging,
    openmessaging_files,
    rocketmq_lines,
)

PERCENTILES = ("Avg", "50pct", "75pct", "95pct", "99pct", "999pct", "9999pct", "Max")
KINDS = ("publishLatency", "publishDelayLatency", "endToEndLatency")


def test_the_keys_of_openmessaging_benchmark() -> None:
    made = result([run(latencies=range(1000, 2001))])
    found = openmessaging(made, made.runs[0])
    keys = {
        "workload", "driver", "messageSize", "topics", "partitions", "producersPerTopic",
        "consumersPerTopic", "publishRate", "publishErrorRate", "consumeRate", "backlog",
    }  # fmt: skip
    for kind in KINDS:
        upper = kind[0].upper() + kind[1:]
        keys |= {kind + one for one in PERCENTILES}
        keys |= {f"aggregated{upper}{one}" for one in (*PERCENTILES, "Quantiles")}
    assert set(found) == keys
    assert found["messageSize"] == 128
    assert found["aggregatedPublishLatency50pct"] == pytest.approx(1.5, rel=1e-3)  # ms
    assert found["aggregatedPublishLatencyMax"] == pytest.approx(2.0, rel=1e-3)
    assert found["aggregatedEndToEndLatencyQuantiles"]["50"] == pytest.approx(3.0, rel=1e-3)
    assert found["aggregatedPublishDelayLatencyAvg"] is None
    seconds = len(made.runs[0].series.time)
    assert all(len(found[key]) == seconds for key in keys if isinstance(found[key], list))
    first = made.runs[0].series.columns["publish_p99"][0]
    assert first is not None
    assert found["publishLatency99pct"][0] == pytest.approx(first / 1e3)


def test_each_step_of_a_sweep_is_a_file() -> None:
    assert [name for name, _ in openmessaging_files(rich_result())] == [""]
    assert [name for name, _ in openmessaging_files(sweep_result())] == [
        "size-16", "size-256", "size-4-096", "size-65-536",
    ]  # fmt: skip


def test_the_line_of_rocketmq() -> None:
    made = result([run(3, 1000.0, latencies=[1500] * 9 + [4000], errors=2)])
    (line,) = rocketmq_lines(made)
    assert line == (
        "[Complete] Send Total: 20000 | Send TPS: 1000 | Max RT(ms): 4 | Average RT(ms):   1.750 | "
        "Send Failed: 2 | Response Failed: 0"
    )


def test_logs_are_read_by_hdrhistogram(tmp_path: object) -> None:
    files = dict(histogram_files(rich_result()))
    assert sorted(files) == [
        "all.end-to-end.hgrm", "all.end-to-end.hlog", "all.publish.hgrm", "all.publish.hlog",
    ]  # fmt: skip
    place = f"{tmp_path}/all.publish.hlog"
    with open(place, "wb") as out:
        out.write(files["all.publish.hlog"])
    whole = HdrHistogram(1, 3_600_000_000, 3)
    reader = HistogramLogReader(place, whole)
    while reader.add_next_interval_histogram():
        pass
    reader.close()
    assert whole.get_total_count() == 5 * 2000
