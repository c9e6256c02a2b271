"""Look-ups in random stores give what a scan of the log gives, also while processes are killed."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.checking.files import log_records
from support.harness import StoreProcess
from support.kill_points import Fault

from silomq import Message, Producer, StoreReader
from silomq.store.record.properties import index_keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from silomq.store.record.format import Record

#: An index file holds 49 keys in 7 chains: several files, long chains, and keys of one hash.
SMALL_INDEX: dict[str, Any] = {"max_hash_slot_num": 7, "max_index_num": 50}
KEYS = ("Aa", "BB", "AaBB", "BBAa", "order", "k")
FOREVER = 2**63 - 1
NUMBERS = itertools.count()
MANY = [Message(b"x", keys="same")] * 200

SENDS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(KEYS), max_size=3),  # keys
        st.integers(0, 2),  # queue
        st.sampled_from((0.0, 0.0, 0.001, 0.003)),  # seconds before it
    ),
    min_size=1,
    max_size=40,
)
QUESTIONS = st.lists(
    st.tuples(  # key, two moments, how many
        st.sampled_from(KEYS), st.integers(0, 99), st.integers(0, 99), st.integers(1, 50)
    ),
    max_size=10,
)


@pytest.fixture(scope="module")
def store_settings() -> dict[str, Any]:
    return {"max_topics": 500, "max_queues": 2500, **SMALL_INDEX}


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(sends=SENDS, asked=QUESTIONS)
def test_look_ups_equal_a_scan(store: StoreProcess, sends: list[Any], asked: list[Any]) -> None:
    topic = f"topic{next(NUMBERS)}"
    with Producer(store.path, timeout=10.0) as producer:
        for keys, queue, pause in sends:
            time.sleep(pause)
            producer.send(topic, b"x", keys=" ".join(keys) or None, queue=queue)
    store.await_dispatch()
    records = [record for record in log_records(store) if record.topic == topic]
    assert len(records) == len(sends)
    moments = sorted({r.store_timestamp + d for r in records for d in (-1, 0)})
    with StoreReader(store.path) as reader:
        for key, first, second, most in asked:
            begin, end = sorted((moments[first % len(moments)], moments[second % len(moments)]))
            found = reader.by_key(topic, key, most, begin, end)
            assert places(found) == scan(records, key, begin, end)[-most:]
            assert places(reader.by_key(topic, key, 1000)) == scan(records, key, 0, FOREVER)
        for record in records:
            found = reader.by_unique_key(topic, record.properties.get("UNIQ_KEY") or "")
            assert places(found) == [record.physical_offset]
        for queue, moment in itertools.product(range(3), moments):
            times = [r.store_timestamp for r in records if r.queue_id == queue]
            lower = next((i for i, t in enumerate(times) if t >= moment), len(times))
            assert reader.offset_at_time(topic, queue, moment) == lower
            upper = max((i for i, t in enumerate(times) if t <= moment), default=None)
            if upper is not None:
                assert reader.offset_at_time(topic, queue, moment, "upper") == upper
            if times:
                nearest = reader.offset_at_time(topic, queue, moment, rocketmq=True)
                distances = [abs(t - moment) for t in times]
                assert distances[nearest] == min(distances)


def places(found: Any) -> list[int]:
    return [message.physical_offset for message in found]


def scan(records: list[Record], key: str, begin: int, end: int) -> list[int]:
    return [
        record.physical_offset
        for record in records
        if key in index_keys(record.properties) and begin <= record.store_timestamp <= end
    ]


class Watcher:
    """Asks for one key again and again. All messages of its topic have it, so what is published of
    the index is a beginning of them.
    """

    def __init__(self, path: Path, topic: str) -> None:
        self.path = path
        self.topic = topic
        self.answers: list[list[int]] = []
        self.ended = threading.Event()

    def look(self) -> None:
        with StoreReader(self.path) as reader:
            while not self.ended.is_set():
                self.answers.append(places(reader.by_key(self.topic, "same", 100_000)))

    def check(self, sent: int) -> None:
        with StoreReader(self.path) as reader:
            end = places(reader.by_key(self.topic, "same", 100_000))
        assert len(end) == sent
        assert [len(a) for a in self.answers] == sorted(len(a) for a in self.answers)
        for answer in self.answers:
            assert answer == end[: len(answer)]
        assert len({len(answer) for answer in self.answers}) > 1


def watch_kills(store: StoreProcess, topic: str, kill: Callable[[], object], times: int) -> None:
    """Sends in bursts, and kills reput in the middle of each, while somebody looks."""
    watcher = Watcher(store.path, topic)
    with Producer(store.path, timeout=30.0) as producer, ThreadPoolExecutor(1) as pool:
        producer.send(topic, b"first", keys="same", queue=0)
        store.await_dispatch()
        looking = pool.submit(watcher.look)
        try:
            for _ in range(times):
                producer.send_batch_oneway(topic, MANY, queue=0)
                kill()
            producer.flush()
            store.await_dispatch()
            time.sleep(0.1)
        finally:
            watcher.ended.set()
        looking.result()
    watcher.check(1 + times * len(MANY))


def test_what_was_found_stays_found_while_reput_is_killed(store: StoreProcess) -> None:
    watch_kills(store, "killed", lambda: store.replace("reput"), 8)


@pytest.mark.parametrize("point", ["reput:entry", "reput:slot", "reput:progress"])
def test_entries_that_were_not_published_are_never_seen(
    tmp_path: Path, fault_build: Path, point: str
) -> None:
    """Reput dies once at the point, between entries and their publication."""
    passes = 3 if point == "reput:progress" else 300
    fault = Fault(fault_build, tmp_path, point, passes).arm()
    with StoreProcess(tmp_path / "store", environ=fault.environ, **SMALL_INDEX) as store:
        watch_kills(store, "faulty", lambda: time.sleep(0.02), 8)
        assert store.starts("reput") == 2
        fault.assert_happened()
