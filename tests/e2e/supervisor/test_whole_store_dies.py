"""The whole store dies or stops, under load, and comes back."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING

import pytest
from support.checking.files import check_files
from support.checking.messages import check_store
from support.checking.sent import Sent
from support.harness import LONG, StoreProcess, eventually, kill_now, lives, memory_of
from support.load.producers import Producers

from silomq import Producer

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = ("alpha", "beta")


def _check(store: StoreProcess, sent: Sent) -> None:
    """What was acknowledged is there exactly once, in the files as in the queues."""
    assert sent.acks
    check_store(store, sent, TOPICS, others=True)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("mode", "stores"),
    [
        ("ASYNC_FLUSH", 1),
        ("SYNC_FLUSH", 1),
        pytest.param("ASYNC_FLUSH", 10, marks=LONG),
        pytest.param("SYNC_FLUSH", 10, marks=LONG),
    ],
)
def test_kill_of_everything_at_once(tmp_path: Path, mode: str, stores: int) -> None:
    """Five times each store."""
    for number in range(stores):
        _kill_five_times(tmp_path / str(number), mode, random.Random(number))


def _kill_five_times(folder: Path, mode: str, rng: random.Random) -> None:
    folder.mkdir()
    store = StoreProcess(folder / "store", flush_disk_type=mode)
    sent = Sent()
    with store:
        for turn in range(5):
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
