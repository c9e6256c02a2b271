"""What brokers say of themselves, as families of Prometheus' text format.

The label `broker` is the number of its session: names come from clients. Any local client can say
that it is a broker, so the kinds of requests are checked, and as many as are usual are told.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from ..shm.protocol.broker_status import PUT_LIMITS_MS

_MOST_BROKERS: Final = 16
_MOST_KINDS: Final = 200
_KIND: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}|others")
#: The field of a broker's status, the family's name, what it says, and whether it only grows.
_NUMBERS: Final = (
    ("connections", "connections", "Connections of a broker", False),
    ("held_pulls", "held_pulls", "Pulls that wait at a broker for messages", False),
    ("messages_sent", "messages_put", "Messages put by way of a broker", True),
    ("messages_pulled", "messages_got", "Messages that a broker gave out", True),
    ("pulls_found", "pulls_found", "Pulls that found messages", True),
    ("pulls_missed", "pulls_missed", "Pulls that found none", True),
    ("bytes_in", "received_bytes", "Bytes that a broker has received", True),
    ("bytes_out", "sent_bytes", "Bytes that a broker has sent", True),
)
_PUTS: Final = "From the arrival of a put at a broker until it is answered"
_REQUESTS: Final = "Requests that a broker has had, by kind"
_REFUSED: Final = "Those that it has answered with an error, by kind and error"


def broker_families(brokers: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    """The families of the brokers of `silo status --json`."""
    told = {
        str(number): broker
        for number, broker in enumerate([one for one in brokers if not one["problem"]])
        if number < _MOST_BROKERS
    }
    for field, name, about, grows in _NUMBERS:
        kind = CounterMetricFamily if grows else GaugeMetricFamily
        family = kind(f"silomq_broker_{name}", about, labels=["broker"])
        for number, broker in told.items():
            family.add_metric([number], float(broker[field]))
        yield family
    puts = HistogramMetricFamily("silomq_broker_put_duration_seconds", _PUTS, labels=["broker"])
    for number, broker in told.items():
        *below, all_of_them = broker["put_ms_below"]
        buckets = [(f"{ms / 1000:g}", n) for ms, n in zip(PUT_LIMITS_MS, below, strict=True)]
        puts.add_metric([number], [*buckets, ("+Inf", all_of_them)], broker["put_ms_sum"] / 1000)
    yield puts
    yield _by_kind("requests", _REQUESTS, told, ("request",))
    yield _by_kind("requests_refused", _REFUSED, told, ("request", "answer"), of="refused")
    ages = GaugeMetricFamily(
        "silomq_broker_status_age_seconds",
        "Since a broker has told its figures",
        labels=["broker"],
    )
    for number, broker in told.items():
        ages.add_metric([number], max(0.0, time.time() - broker["written_ms"] / 1000))
    yield ages


def _by_kind(
    name: str,
    about: str,
    told: Mapping[str, Mapping[str, Any]],
    labels: tuple[str, ...],
    of: str = "requests",
) -> Metric:
    """A family with a row for each kind, which a hostile list may name twice."""
    family = CounterMetricFamily(f"silomq_broker_{name}", about, labels=["broker", *labels])
    for number, broker in told.items():
        counts: Counter[tuple[str, ...]] = Counter()
        for row in broker[of][:_MOST_KINDS]:
            kind = tuple(row[label] for label in labels)
            if all(_KIND.fullmatch(word) for word in kind):
                counts[kind] += row["count"]
        for kind, count in counts.items():
            family.add_metric([number, *kind], float(count))
    return family
