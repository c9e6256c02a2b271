"""The metrics page: histograms, and what append's kernel counts on it."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest
from support.append_rig import Rig
from support.frames import one

from silomq.shm.control import LayoutError
from silomq.shm.metrics import (
    LIMITS_US,
    METRICS,
    SIZE,
    STEPS,
    WRITERS,
    Histogram,
    Metrics,
)
from silomq.shm.ownership import STARTUP, NotTheWriter
from silomq.store.status import PutMessageStatus

HISTOGRAMS = tuple(name for name in METRICS if name.endswith("_time"))
COUNTERS = tuple(name for name, (at, size) in METRICS.items() if at >= 1024 and size == 8)


def page(role: str = "allocate", memory: bytearray | None = None) -> Metrics:
    return Metrics(bytearray(SIZE) if memory is None else memory, role)


def test_each_time_is_in_its_step() -> None:
    """Against plain arithmetic, at and beside each limit."""
    metrics = page()
    own = metrics.own_histogram("make_time")
    times_ns = sorted(
        ns for limit in LIMITS_US for ns in (1000 * limit - 1, 1000 * limit, 1000 * limit + 1)
    )
    for ns in times_ns:
        own.add(ns / 1e9)
    found = metrics.histogram("make_time")
    ends = [0, *(1000 * limit for limit in LIMITS_US), float("inf")]
    plain = tuple(sum(low <= ns < high for ns in times_ns) for low, high in pairwise(ends))
    assert found == Histogram(plain, sum(times_ns), times_ns[-1])
    assert found.count == len(times_ns) == 3 * (STEPS - 1)


def test_a_percentile_is_the_end_of_its_step_or_the_longest_time() -> None:
    metrics = page()
    own = metrics.own_histogram("make_time")
    assert metrics.histogram("make_time").percentile_ns(0.99) == 0
    for _ in range(99):
        own.add(0.000_003)
    own.add(70)
    found = metrics.histogram("make_time")
    assert found.percentile_ns(0.5) == found.percentile_ns(0.99) == 5_000
    assert found.percentile_ns(1.0) == 70_000_000_000
    own.add(0.000_000_5)
    assert metrics.histogram("make_time").since(found).percentile_ns(0.5) == 1_000


def test_rocketmq_s_ranges_end_at_limits() -> None:
    ends_ms = (1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
    assert {1000 * end for end in ends_ms} <= set(LIMITS_US)
    histogram = Histogram(tuple(range(STEPS)))
    assert histogram.below_us(1000) == sum(range(LIMITS_US.index(1000) + 1))


def test_a_successor_goes_on_with_the_values_it_finds() -> None:
    memory = bytearray(SIZE)
    for seconds in (0.001, 0.5):
        metrics = page(memory=memory)
        metrics.own("files_made").add(1)
        metrics.own_histogram("make_time").add(seconds)
    found = page(memory=memory).histogram("make_time")
    assert (found.count, found.sum_ns, found.longest_ns) == (2, 501_000_000, 500_000_000)
    assert page(memory=memory).load("files_made") == 2


@pytest.mark.parametrize("field", [*COUNTERS, *HISTOGRAMS])
def test_nobody_gets_another_s_words(field: str) -> None:
    writer = WRITERS["metrics"][field]
    for role in {"append", "flush", "registry"} - {writer}:
        metrics = page(role)
        with pytest.raises(NotTheWriter, match=f"{field} is written by {writer}"):
            (metrics.own if field in COUNTERS else metrics.own_histogram)(field)


def test_writers_share_no_cache_line() -> None:
    lines: dict[int, set[str]] = {}
    for name, (at, size) in METRICS.items():
        for line in range(at // 128, (at + size - 1) // 128 + 1):
            lines.setdefault(line, set()).add(WRITERS["metrics"].get(name, STARTUP))
    assert {line: who for line, who in lines.items() if len(who) > 1} == {}


def test_memory_that_is_no_page_is_refused() -> None:
    with pytest.raises(LayoutError, match="magic"):
        page().check()
    memory = bytearray(SIZE)
    page(STARTUP, memory).create()
    page(memory=memory).check()
    memory[8] += 1
    with pytest.raises(LayoutError, match="same SiloMQ version"):
        page(memory=memory).check()


def test_slow_steps_are_told_with_their_stage() -> None:
    metrics = page("allocate")
    told: list[tuple[str, float]] = []
    metrics.watch(0.5, lambda stage, seconds: told.append((stage, seconds)))
    own = metrics.own_histogram("make_time")
    for seconds in (0.4, 0.5, 0.6):
        own.add(seconds)
    assert told == [("make", 0.5), ("make", 0.6)]
    cleaning = page("clean", metrics.memory)  # type: ignore[arg-type] # it is a bytearray
    cleaning.watch(0.5, lambda stage, seconds: told.append((stage, seconds)))
    cleaning.own_histogram("clean_time").add(9)  # its pauses are on purpose
    metrics.watch(0, lambda stage, seconds: told.append((stage, seconds)))
    metrics.own_histogram("make_time").add(9)
    assert len(told) == 2
    assert metrics.histogram("make_time").count == 4


# -- append's kernel


def _now_us() -> int:
    return time.time_ns() // 1000 & 0xFFFFFFFF


def test_append_counts_each_put_once_and_times_those_that_have_a_time() -> None:
    rig = Rig(file_size=8 << 20, batch_bytes=64 << 10)
    producer = rig.new_ring(capacity=1 << 20)
    rng = random.Random(7)
    sizes, timed = [], 0
    for _ in range(3000):
        has_time = rng.random() < 0.5
        sent_us = _now_us() - 2500 if has_time else 0
        frame = rig.frame(one(body=bytes(rng.randrange(200))), sent_us=sent_us)
        if not producer.room(len(frame)):
            assert rig.run() == []
        producer.place(frame)
        timed += has_time
        sizes.append(int.from_bytes(frame[12:16], "little"))
    assert rig.run() == []
    metrics = Metrics(rig.metrics)
    found = metrics.histogram("put_time")
    assert found.count == timed
    assert found.below_us(2000) == 0  # each was 2.5 ms old when it was placed
    assert metrics.load("put_bytes") == sum(sizes)
    assert rig.control.load("records") == len(sizes)


def test_a_put_from_the_future_took_no_time() -> None:
    rig = Rig()
    producer = rig.new_ring()
    producer.place(rig.frame(one(), sent_us=(_now_us() + 60_000_000) & 0xFFFFFFFF))
    assert rig.run() == []
    found = Metrics(rig.metrics).histogram("put_time")
    assert (found.counts[0], found.sum_ns, found.longest_ns) == (1, 0, 0)


def test_append_counts_refusals_by_status() -> None:
    rig = Rig()
    producer = rig.new_ring()
    rig.kernel.refuse_status = PutMessageStatus.SERVICE_NOT_AVAILABLE
    for _ in range(3):
        producer.place(rig.frame(one()))
    assert rig.run() == []
    rig.kernel.refuse_status = PutMessageStatus.PUT_OK
    producer.place(rig.frame(one(), kind=9))
    assert rig.run() == []
    refused = Metrics(rig.metrics).words("refused")
    assert refused[PutMessageStatus.SERVICE_NOT_AVAILABLE] == 3
    assert refused[PutMessageStatus.MESSAGE_ILLEGAL] == 1
    assert sum(refused) == rig.control.load("rejected") == 4


def test_an_append_that_takes_over_goes_on_counting() -> None:
    rig = Rig()
    producer = rig.new_ring()
    for _ in range(3):
        producer.place(rig.frame(one(), sent_us=_now_us()))
        assert rig.run() == []
        rig.take_over()
    assert Metrics(rig.metrics).histogram("put_time").count == 3
