"""Figures of brokers: one row for each kind of request, whatever a broker says of itself."""

from __future__ import annotations

import time
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from silomq.monitor.broker_families import broker_families


def status(**changes: Any) -> dict[str, Any]:
    numbers = ("connections", "held_pulls", "messages_sent", "messages_pulled", "pulls_found")
    return {
        **dict.fromkeys((*numbers, "pulls_missed", "bytes_in", "bytes_out"), 7),
        "problem": "",
        "written_ms": time.time_ns() // 1_000_000,
        "put_ms_sum": 3500,
        "put_ms_below": [1, 2, 3, *[4] * 11],
        "requests": [{"request": "PULL_MESSAGE", "count": 3}],
        "refused": [{"request": "PULL_MESSAGE", "answer": "NO_PERMISSION", "count": 1}],
        **changes,
    }


def families(*brokers: dict[str, Any]) -> dict[str, Metric]:
    return {family.name: family for family in broker_families(brokers)}


def test_times_of_puts_are_a_histogram() -> None:
    puts = families(status())["silomq_broker_put_duration_seconds"].samples
    buckets = {one.labels["le"]: one.value for one in puts if one.name.endswith("_bucket")}
    assert (buckets["0.001"], buckets["0.005"], buckets["10"], buckets["+Inf"]) == (1, 3, 4, 4)
    assert [one.value for one in puts if one.name.endswith(("_sum", "_count"))] == [4, 3.5]


def test_kinds_are_told_once_and_checked() -> None:
    rows = [{"request": name, "count": 2} for name in ("A_B", "A_B", "others", 'x"\n', "a", "")]
    rows += [{"request": f"K{number}", "count": 1} for number in range(1000)]
    (family,) = (f for n, f in families(status(requests=rows)).items() if n.endswith("requests"))
    found = {one.labels["request"]: one.value for one in family.samples}
    assert (found["A_B"], found["others"]) == (4, 2)
    assert len(found) == 2 + 200 - 6


def test_a_broker_with_a_problem_and_too_many_brokers() -> None:
    found = families(*[status(problem="its status is no JSON")], *[status()] * 30)
    rows = found["silomq_broker_connections"].samples
    assert [one.labels["broker"] for one in rows] == [str(number) for number in range(16)]


def test_prometheus_takes_them() -> None:
    class Found(Collector):
        def collect(self) -> list[Metric]:
            return list(families(status()).values())

    text = generate_latest(Found()).decode()
    assert 'silomq_broker_requests_total{broker="0",request="PULL_MESSAGE"} 3.0' in text
    assert 'silomq_broker_requests_refused_total{answer="NO_PERMISSION",broker="0"' in text
