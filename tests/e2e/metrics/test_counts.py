"""What a running store counts, against what was done; and that counting goes on after kills."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.harness import StoreProcess, eventually

import silomq
from silomq.client.admin.admin import Admin
from silomq.shm._memory import Mapping
from silomq.shm.control import ACTORS
from silomq.shm.protocol.figure_requests import AskReads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ROW_S = 1.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path / "store") as found:
        yield found


def send(store: StoreProcess, topic: str, count: int) -> None:
    with silomq.Producer(store.path) as producer:
        for number in range(count):
            producer.send(topic, f"message {number}".encode())


def read(store: StoreProcess, topic: str, count: int) -> None:
    """Reads `count` messages, and then looks until there are none."""
    with silomq.Consumer(store.path, topic, start="earliest") as consumer:
        found = 0
        while found < count:
            found += len(consumer.poll(16, timeout=10))
        assert consumer.poll() == []


def statistics(store: StoreProcess) -> dict[str, Any]:
    with Admin(store.path) as admin:
        found: dict[str, Any] = admin.status()["statistics"]
        return found


def test_puts_and_reads_are_counted_once(store: StoreProcess) -> None:
    send(store, "orders", 40)
    for _ in range(2):
        read(store, "orders", 40)
    eventually(lambda: statistics(store)["get_messages"] == 80, "both readers are counted")
    found = statistics(store)
    assert found["put_messages"] == sum(found["put_distribution"].values()) == 40
    assert found["put_average_bytes"] == round(found["put_bytes"] / 40, 1)
    assert found["get_found"] >= 2
    assert found["get_missed"] >= 2
    assert 0 < found["put_ms_99"] <= found["put_ms_999"] <= found["put_ms_longest"]
    time.sleep(_ROW_S)  # the registry looks at all pages once more, and finds nothing new
    assert statistics(store)["get_messages"] == 80


def test_counters_go_on_when_actors_are_killed(store: StoreProcess) -> None:
    """Each actor once. No counter falls, and what was counted before stays."""
    send(store, "orders", 20)
    read(store, "orders", 20)
    eventually(lambda: statistics(store)["get_messages"] == 20, "the reads are counted")
    with Admin(store.path) as admin:
        before = admin.figures.now()
        for actor in ACTORS:
            store.replace(actor)
        after = admin.figures.now()
        counters = ("records", "puts", "put_sum_ns", "put_bytes", "syncs", "get_messages")
        for name in counters:
            assert getattr(after, name) >= getattr(before, name), name
        rows = admin.figures.history.rows()
        assert [row.records for row in rows] == sorted(row.records for row in rows)
    send(store, "orders", 20)
    read(store, "orders", 40)
    eventually(lambda: statistics(store)["get_messages"] == 60, "the new reader is counted")
    found = statistics(store)
    assert sum(found["put_distribution"].values()) == found["put_messages"] == 40


def test_a_reader_is_counted_on_after_a_kill_of_the_registry(store: StoreProcess) -> None:
    send(store, "orders", 10)
    with silomq.Consumer(store.path, "orders", start="earliest") as consumer:
        assert consumer.poll(4, timeout=10)
        eventually(lambda: statistics(store)["get_found"] >= 1, "the first read is counted")
        before = statistics(store)["get_messages"]
        store.replace("registry")
        time.sleep(1.1)  # a reader looks once a second whether the registry was replaced
        more = 0
        while more + before < 10:
            more += len(consumer.poll(1, timeout=10))
        eventually(lambda: statistics(store)["get_messages"] == 10, "the later reads are counted")


def test_a_client_spoils_no_more_than_its_own_counts(store: StoreProcess) -> None:
    with Admin(store.path) as admin:
        _, (fd,) = admin._link.ask(AskReads())
        memory = memoryview(Mapping(fd, 0, 4096))
        memory[:24] = b"\xff" * 24
        time.sleep(1.5)
        memory[:24] = bytes(24)
        admin._link.drop([fd])
        time.sleep(1.5)
        assert admin.status()["statistics"]["get_messages"] == 0


def test_lags_are_told_in_bytes_messages_and_seconds(store: StoreProcess) -> None:
    """With flush and reput stopped, all that is sent stays behind."""
    send(store, "orders", 5)
    store.await_dispatch()
    time.sleep(2 * _ROW_S)
    for actor in ("flush", "reput"):
        store.kill(actor, signal.SIGSTOP)
    try:
        send(store, "orders", 30)
        time.sleep(_ROW_S)
        found = statistics(store)
    finally:
        for actor in ("flush", "reput"):
            store.kill(actor, signal.SIGCONT)
    for step in ("flush", "dispatch"):
        assert found[f"{step}_behind_bytes"] > 0
        assert 30 <= found[f"{step}_behind_messages"] <= 35
        assert found[f"{step}_behind_seconds"] >= _ROW_S
