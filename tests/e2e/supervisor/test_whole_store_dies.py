"""The whole store dies or stops, under load, and comes back."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.checking.files import check_files
from support.checking.messages import check_store
from support.checking.sent import Sent
from support.commands import silo
from support.harness import LONG, WAIT_S, StoreProcess, eventually, kill_now, lives, memory_of
from support.load.producers import Producers
from support.small_settings import SMALL

from silomq import Admin, Consumer, Producer
from silomq.shm import segments
from silomq.store.recovery.plan import MEMORY_KNOWN, OURS_KNOWN

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = ("alpha", "beta")


def _check(store: StoreProcess, sent: Sent) -> None:
    """What was acknowledged is there exactly once, in the files as in the queues."""
    assert sent.acks
    check_store(store, sent, TOPICS, others=True)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("mode", "stores", "times"),
    [
        ("ASYNC_FLUSH", 1, 2),
        ("SYNC_FLUSH", 1, 2),
        pytest.param("ASYNC_FLUSH", 10, 5, marks=LONG),
        pytest.param("SYNC_FLUSH", 10, 5, marks=LONG),
    ],
)
def test_kill_of_everything_at_once(tmp_path: Path, mode: str, stores: int, times: int) -> None:
    for number in range(stores):
        _kill_again_and_again(tmp_path / str(number), mode, times, random.Random(number))


def _kill_again_and_again(folder: Path, mode: str, times: int, rng: random.Random) -> None:
    folder.mkdir()
    store = StoreProcess(folder / "store", flush_disk_type=mode)
    sent = Sent()
    with store:
        for turn in range(times):
            with Producers(store, TOPICS, ending=True, first=3 * turn) as producers:
                producers.await_flow(rng.randrange(100, 1000 if mode == "ASYNC_FLUSH" else 400))
                time.sleep(rng.random() / 50)
                store.crash()
                sent.add(producers.finish())
            store.start()
            _check(store, sent)
        store.stop()
        check_files(store)


def test_no_orphan_outlives_the_supervisor(tmp_path: Path) -> None:
    store = StoreProcess(tmp_path / "store")
    with store, Producers(store, TOPICS, ending=True) as producers:
        producers.await_flow()
        actors = list(store.pids().values())
        old = os.stat(f"/dev/shm/{memory_of(store.path)[-1]}").st_ino
        kill_now(store.running.pid)
        store.running.wait()
        eventually(lambda: not any(lives(pid) for pid in actors), "the actors are dead", 2)
        left = memory_of(store.path)
        assert left, "a killed supervisor cannot clean up"
        sent = producers.finish()
        store.start()
        assert memory_of(store.path) == left
        assert os.stat(f"/dev/shm/{left[-1]}").st_ino != old, "the old memory was replaced"
        _check(store, sent)
        store.stop()
        check_files(store)


def test_a_start_does_not_wait_for_the_dying(tmp_path: Path) -> None:
    """The next supervisor may come while the actors of the last one still die."""
    store = StoreProcess(tmp_path / "store")
    with store:
        for _ in range(3):
            with Producer(store.path) as producer:
                producer.send("alpha", b"x")
            kill_now(store.running.pid)
            store.running.wait()
            store.start()


def test_sigterm_under_load_loses_nothing(tmp_path: Path) -> None:
    store = StoreProcess(tmp_path / "store")
    sent = Sent()
    with store:
        for turn in range(2):
            with Producers(store, TOPICS, ending=True, first=3 * turn) as producers:
                producers.await_flow(1000)
                began = time.monotonic()
                said = store.stop()
                assert time.monotonic() - began < 5
                assert '"clean": true' in said.splitlines()[-1]
                sent.add(producers.finish())
            check_files(store)
            store.start()
            assert '"clean": true' in next(
                line for line in reversed(store.log().splitlines()) if "store recovered" in line
            )
            _check(store, sent)


def test_sigterm_while_actors_are_dead(tmp_path: Path) -> None:
    """A stop that comes in the middle of a restart is still a stop."""
    store = StoreProcess(tmp_path / "store")
    with store:
        for victims in (("append",), ("reput", "flush"), ("registry", "allocate", "clean")):
            with Producer(store.path) as producer:
                producer.send("alpha", b"x")
            for victim in victims:
                store.kill(victim)
            began = time.monotonic()
            store.running.send_signal(signal.SIGTERM)
            assert store.running.wait(30) == 0, store.log()
            assert time.monotonic() - began < 5, f"{victims}\n{store.log()}"
            assert memory_of(store.path) == []
            store.start()


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_start_after_a_kill_under_load_reads_nothing_twice(tmp_path: Path, mode: str) -> None:
    """It goes on from where the killed processes were, whatever was durable by then."""
    sent = Sent()
    with StoreProcess(tmp_path / "store", flush_disk_type=mode) as store:
        for turn in range(2):
            with Producers(store, TOPICS, ending=True, first=3 * turn) as producers:
                producers.await_flow(1000)
                store.crash()
                sent.add(producers.finish())
            wrote = store.control.load("wrote")
            store.start()
            with Admin(store.path) as admin:
                report = admin.status()["start_up"]
            assert report["known_from"] == MEMORY_KNOWN
            assert report["scanned_from"] == wrote
            _check(store, sent)


def test_a_log_file_that_was_not_durable_and_is_gone_is_refused_at_each_start(
    tmp_path: Path,
) -> None:
    """Shared memory alone knows that it must be there: a refused start must not remove it."""
    with StoreProcess(tmp_path / "store") as store:
        with Producer(store.path) as producer:
            for _ in range(12):
                producer.send(TOPICS[0], b"x" * 200_000)
        wrote = store.control.load("wrote")
        store.crash()
        size: int = SMALL["mapped_file_size_commit_log"]
        for path in (store.path / "commitlog").iterdir():
            if int(path.name) > wrote:  # made ahead
                path.unlink()
        last = store.path / "commitlog" / f"{wrote - wrote % size:020}"
        kept = last.rename(tmp_path / "kept")
        for _ in range(2):
            assert store.launch().wait(WAIT_S) == 5
            assert "the file is missing" in store.log()
        kept.rename(last)
        store.start()
        with Consumer(store.path, TOPICS[0]) as consumer:
            assert sum(len(consumer.poll(5, 5.0)) for _ in range(3)) == 12


@pytest.mark.parametrize("at_once", [True, False])
def test_an_older_copy_of_a_log_file_is_refused(tmp_path: Path, *, at_once: bool) -> None:
    """Nothing is durable yet. The copy lacks the last records, and shared memory knows of them."""
    lazy: dict[str, Any] = dict.fromkeys(
        ("flush_interval_commit_log_ms", "flush_commit_log_thorough_interval_ms"), 60_000
    )
    with StoreProcess(tmp_path / "store", **lazy) as store:
        file, good = store.path / "commitlog" / f"{0:020}", tmp_path / "good"
        with Producer(store.path) as producer:
            ends = []
            for number in range(100):
                ends.append(producer.send(TOPICS[0], b"%d" % number, queue=0).physical_offset)
                if number == 49:
                    shutil.copy(file, tmp_path / "copy")
        store.crash()
        if not at_once:
            file.rename(good)
            assert store.launch().wait(WAIT_S) == 5
        shutil.copy(tmp_path / "copy", file)
        for _ in range(2):
            assert store.launch().wait(WAIT_S) == 5
            assert f"silo repair --truncate-at {ends[50]}" in store.log()
        if not at_once:
            good.rename(file)
            store.start()
            with Consumer(store.path, TOPICS[0], queues=[0]) as consumer:
                assert len(consumer.poll(200, 5.0)) == 100
            return
        silo("repair", str(store.path), "--truncate-at", str(ends[50]), "--yes")
        store.start()
        with (
            Producer(store.path) as producer,
            Consumer(store.path, TOPICS[0], queues=[0]) as reader,
        ):
            assert producer.send(TOPICS[0], b"new", queue=0).physical_offset == ends[50]
            assert [int(m.body) for m in reader.poll(50, 5.0)] == list(range(50))
            assert reader.poll(50, 5.0)[0].body == b"new"


def test_a_start_after_a_kill_without_shared_memory_reads_what_was_not_durable(
    tmp_path: Path,
) -> None:
    """A container that is made anew has an empty /dev/shm."""
    sent = Sent()
    with StoreProcess(tmp_path / "store") as store:
        with Producers(store, TOPICS, ending=True) as producers:
            producers.await_flow(1000)
            store.crash()
            sent.add(producers.finish())
        segments.remove_all(store.store_id)
        store.start()
        with Admin(store.path) as admin:
            assert admin.status()["start_up"]["known_from"] == OURS_KNOWN
        _check(store, sent)
