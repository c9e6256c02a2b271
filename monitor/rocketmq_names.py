"""The values that RocketMQ's exporter (rocketmq-exporter) has too, under its names.

Rates are those of the last 10 s, 1 min and 10 min; put times are in its ranges, since the start.
Its labels name clusters and brokers, which a store does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily, Metric

_RANGE_NAMES: Final = {
    "<=0ms": "0ms",
    "0~10ms": "0to10ms",
    "10~50ms": "10to50ms",
    "50~100ms": "50to100ms",
    "100~200ms": "100to200ms",
    "200~500ms": "200to500ms",
    "500ms~1s": "500to1s",
    "1~2s": "1to2s",
    "2~3s": "2to3s",
    "3~4s": "3to4s",
    "4~5s": "4to5s",
    "5~10s": "5to10s",
    "10s~": "10stomore",
}
_RATES: Final = (
    ("put_tps", "put_rates"),
    ("get_found_tps", "get_found_rates"),
    ("get_miss_tps", "get_missed_rates"),
    ("get_total_tps", "get_total_rates"),
    ("get_transfered_tps", "get_messages_rates"),
)


def _values(status: dict[str, Any]) -> Iterator[tuple[str, float]]:
    numbers = status["statistics"]
    runtime = "rocketmq_brokeruntime"
    for name, count in numbers["put_distribution"].items():
        yield f"{runtime}_pmdt_{_RANGE_NAMES[name]}", count
    yield f"{runtime}_put_latency_99", numbers["put_ms_99"]
    yield f"{runtime}_put_latency_999", numbers["put_ms_999"]
    for name, field in _RATES:
        for seconds, rate in zip((10, 60, 600), numbers[field], strict=True):
            yield f"{runtime}_{name}{seconds}", rate
    yield f"{runtime}_dispatch_behind_bytes", status["dispatch_behind_bytes"]
    yield f"{runtime}_remain_howmanydata_toflush", status["flush_behind_bytes"]
    yield f"{runtime}_commitlog_minoffset", status["min_offset"]
    yield f"{runtime}_commitlog_maxoffset", status["wrote"]
    for name, field in (("commitlog", "log"), ("consumequeue", "queue")):
        used = status["disk"][f"{field}_used_percent"]
        yield f"{runtime}_{name}_disk_ratio", -1.0 if used is None else used / 100
    yield "rocketmq_broker_tps", numbers["put_rates"][1]
    yield "rocketmq_broker_qps", numbers["get_messages_rates"][1]
    yield "rocketmq_storage_dispatch_behind_bytes", status["dispatch_behind_bytes"]
    yield "rocketmq_storage_flush_behind_bytes", status["flush_behind_bytes"]
    yield "rocketmq_storage_size", status["wrote"] - status["min_offset"]


def rocketmq_families(
    status: dict[str, Any], topics: dict[str, float], groups: dict[str, float]
) -> Iterator[Metric]:
    """The families. `topics` has the messages of each row, `groups` the lags."""
    for name, value in _values(status):
        yield GaugeMetricFamily(name, "As RocketMQ's exporter has it", value)
    for name, label, rows in (
        ("rocketmq_producer_offset", "topic", topics),
        ("rocketmq_group_diff", "group", groups),
        ("rocketmq_consumer_lag_messages", "consumer_group", groups),
    ):
        family = GaugeMetricFamily(name, "As RocketMQ has it", labels=[label])
        for key, value in rows.items():
            family.add_metric([key], value)
        yield family
