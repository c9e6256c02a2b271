"""What a consumer has had: messages, bytes and their age, whatever it gets bodies as."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa

from silomq.bench.harness.load._arrivals import Arrivals
from silomq.bench.harness.load._counts import Counts
from silomq.bench.harness.load.columns import Columns

if TYPE_CHECKING:
    from silomq.bench.harness.load.client import Bytes

NOW = 10**15


def body(age_us: int, size: int, now: int = NOW) -> bytes:
    return (now - 1000 * age_us).to_bytes(8, "big") + bytes(size - 8)


def test_each_form_of_bodies() -> None:
    latencies, noted = Counts(), list[bytes]()

    def note(one: Bytes) -> None:
        noted.append(bytes(one))

    arrivals = Arrivals(latencies, note, 1)
    assert (arrivals.last, arrivals.read, arrivals.told()) == (1, 0, (0, 0))
    first = [body(100, 20), body(200, 30)]
    arrivals.some([first[0], memoryview(first[1])], NOW)
    assert (arrivals.last, arrivals.read, arrivals.told()) == (NOW, 2, (2, 50))
    columns = [body(300, 40), body(400, 50)]
    arrivals.columns(Columns(pa.array(columns, pa.binary())), NOW + 1)
    assert (arrivals.last, arrivals.read) == (NOW + 1, 4)
    assert latencies.percentiles((25, 50, 75, 100)) == [100, 200, 300, 400]
    before = time.monotonic_ns()
    last = body(500, 60, before)
    arrivals.one(last)
    assert before < arrivals.last <= time.monotonic_ns()
    assert arrivals.told() == (3, 150)
    assert arrivals.told() == (0, 0)
    assert latencies.percentiles((100,))[0] >= 500
    assert noted == [*first, *columns, last]


def test_a_backlog_has_no_latencies() -> None:
    arrivals = Arrivals(None, None, 0)
    arrivals.some([body(1, 16)], NOW)
    arrivals.columns(Columns(pa.array([body(1, 16)], pa.binary())), NOW)
    arrivals.one(b"short")
    assert (arrivals.read, arrivals.told()) == (3, (3, 37))
