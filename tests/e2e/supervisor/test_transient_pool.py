"""The transient pool: bytes wait in shared memory, and no kill of any process loses them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.checking.files import check_files, log_records
from support.checking.messages import check_store, read_topic
from support.checking.sent import Sent
from support.harness import LONG, WAIT_S, StoreProcess, eventually, kill_now, memory_of
from support.load.producers import Producers

from silomq import IllegalMessage, Producer
from silomq.store.disk.paths import file_name

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPICS = ("alpha", "beta")


def pooled(path: Path, **settings: Any) -> StoreProcess:
    """A store with a pool of three buffers."""
    pool: dict[str, Any] = {"transient_store_pool_enable": "true", "transient_store_pool_size": 3}
    return StoreProcess(path, **{**pool, **settings})


def check(store: StoreProcess, sent: Sent, *, others: bool = False) -> None:
    assert sent.acks
    check_store(store, sent, TOPICS, others=others)


def consumed(store: StoreProcess, topic: str) -> list[bytes]:
    return [view.body for view in read_topic(store.path, topic)]


def test_readers_see_only_what_is_committed(tmp_path: Path) -> None:
    store = pooled(
        tmp_path / "store",
        commit_commit_log_least_pages=1000,
        commit_commit_log_thorough_interval_ms=3000,
    )
    with store, Producer(store.path) as producer:
        control = store.control
        result = producer.send("alpha", b"first")
        assert result.level == "memory"
        assert control.load("wrote") > control.load("committed") == 0
        assert consumed(store, "alpha") == []
        eventually(lambda: control.load("committed") == control.load("wrote"), "commit")
        eventually(lambda: consumed(store, "alpha") == [b"first"], "dispatch")


def test_many_files_through_few_buffers(tmp_path: Path) -> None:
    """Each buffer serves many files; a stopped store holds what was sent, byte for byte."""
    bodies = [b"%06d" % i + b"x" * (i % 2000) for i in range(9000)]
    with pooled(tmp_path / "store") as store:
        with Producer(store.path) as producer:
            for body in bodies:
                producer.send_oneway("alpha", body, queue=0)
            producer.flush()
        control = store.control
        assert control.load("wrote") > 5 * 1048576
        store.await_dispatch()
        assert consumed(store, "alpha") == bodies
        store.stop()
        check_files(store)
        store.start()
        assert consumed(store, "alpha") == bodies


@pytest.mark.timeout(300)
@pytest.mark.parametrize("times", [2, pytest.param(20, marks=LONG)])
def test_kill_of_everything_with_a_full_pool(tmp_path: Path, times: int) -> None:
    """What only the pool had is in the log after the next start: nothing acknowledged is lost."""
    store = pooled(
        tmp_path / "store",
        commit_commit_log_least_pages=1000,
        commit_commit_log_thorough_interval_ms=2000,
    )
    sent = Sent()
    salvaged = 0
    with store:
        for turn in range(times):
            with Producers(store, TOPICS, ending=True, first=3 * turn) as producers:
                producers.await_flow(1000)
                store.crash()
                sent.add(producers.finish())
            store.start()
            salvaged += "still in the pool" in store.log()
            check(store, sent, others=True)
        assert salvaged
        store.stop()
        assert memory_of(store.path) == []
        check_files(store)


@pytest.fixture
def uncommitted(tmp_path: Path) -> Iterator[tuple[StoreProcess, list[bytes]]]:
    """A store with messages that wait in the pool, and their bodies."""
    store = pooled(
        tmp_path / "store",
        commit_commit_log_least_pages=100_000,
        commit_commit_log_thorough_interval_ms=600_000,
    )
    bodies = [b"%06d" % i for i in range(50)]
    with store:
        with Producer(store.path) as producer:
            for body in bodies:
                producer.send("alpha", body, queue=0)
        assert store.control.load("committed") == 0
        yield store, bodies


def test_a_stop_leaves_nothing_in_the_pool(
    uncommitted: tuple[StoreProcess, list[bytes]],
) -> None:
    store, bodies = uncommitted
    store.stop()
    assert [record.body for record in log_records(store)] == bodies
    check_files(store)


def test_a_refused_start_keeps_the_pool(uncommitted: tuple[StoreProcess, list[bytes]]) -> None:
    """A damaged file stops the start. Once it is restored, the pool's messages are there."""
    store, bodies = uncommitted
    store.crash()
    log = store.path / "commitlog" / "00000000000000000000"
    os.truncate(log, 5000)
    process = store.launch()
    assert process.wait(60) == 5, store.log()
    assert "has 5000 of 1048576 bytes" in store.log()
    assert memory_of(store.path)
    os.truncate(log, 1048576)
    store.start()
    assert "still in the pool" in store.log()
    store.await_dispatch()
    assert consumed(store, "alpha") == bodies
    store.stop()


def test_a_stop_keeps_the_pool_that_commit_cannot_write(tmp_path: Path) -> None:
    """Somebody took a file of the log away. Once it is back, nothing acknowledged is lost."""
    with pooled(tmp_path / "store") as store:
        eventually(lambda: store.control.load("ready") >= 2 << 20, "its second file is made")
        victim = store.path / "commitlog" / file_name(1 << 20)
        victim.rename(tmp_path / "away")
        acknowledged: list[bytes] = []

        def send_all() -> None:
            for number in range(1000):
                body = b"%d" % number + b" " * 10_000
                producer.send("alpha", body, queue=0)
                acknowledged.append(body)

        with Producer(store.path) as producer, pytest.raises(IllegalMessage, match="commit cannot"):
            send_all()
        lacking = store.control.load("wrote") - store.control.load("committed")
        assert lacking > 0
        store.running.terminate()
        assert store.running.wait(WAIT_S) == 0
        assert f'"bytes": {lacking}' in store.log()
        (tmp_path / "away").rename(victim)
        store.start()
        assert "still in the pool" in store.log()
        store.await_dispatch()
        assert consumed(store, "alpha") == acknowledged
        store.stop()


def test_commit_dies_and_the_pool_runs_dry(tmp_path: Path) -> None:
    """Without commit producers wait; with it again everything is there once, in order."""
    with pooled(tmp_path / "store") as store:
        with Producer(store.path, timeout=30.0) as producer:
            for round_ in range(6):
                store.replace("commit")
                for i in range(1500):
                    producer.send_oneway("alpha", b"%d:%d" % (round_, i) + b"y" * 1000, queue=0)
            producer.flush()
        store.await_dispatch()
        found = [body.rstrip(b"y") for body in consumed(store, "alpha")]
        assert found == [b"%d:%d" % (r, i) for r in range(6) for i in range(1500)]


def test_append_waits_for_a_free_buffer(tmp_path: Path) -> None:
    bodies = [b"%06d" % i + b"x" * 1000 for i in range(4500)]
    pool_size = 3 * 1048576
    with pooled(tmp_path / "store") as store:
        with Producer(store.path, ring_size=8 << 20, timeout=30.0) as producer:
            commit = store.kill("commit", signal.SIGSTOP)
            for body in bodies:
                producer.send_oneway("alpha", body, queue=0)
            eventually(lambda: store.control.load("wrote") >= pool_size, "the pool is full")
            store.await_beat("append")
            assert store.control.load("wrote") == pool_size
            kill_now(commit, signal.SIGCONT)
            producer.flush()
        store.await_dispatch()
        assert consumed(store, "alpha") == bodies


def test_append_dies_with_bytes_in_the_pool(tmp_path: Path) -> None:
    with pooled(tmp_path / "store") as store:
        with Producers(store, TOPICS) as producers:
            producers.await_flow()
            for _ in range(5):
                store.replace("append")
                time.sleep(0.05)
            sent = producers.finish()
        check(store, sent)
        store.stop()
        check_files(store)


def test_no_room_for_the_pool_is_said(tmp_path: Path) -> None:
    store = pooled(
        tmp_path / "store", mapped_file_size_commit_log="1GiB", transient_store_pool_size=64
    )
    process = store.launch()
    assert process.wait(60) != 0
    assert "lower transient_store_pool_size" in store.log()
    assert memory_of(store.path) == []
