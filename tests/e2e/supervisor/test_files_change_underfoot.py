"""Somebody removes or shortens a file of a running store: one clear error, no endless restarts."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

import pytest
from support.commands import silo
from support.harness import WAIT_S, StoreProcess, eventually, kill_now

from silomq import Admin, Consumer, Corrupt, IllegalMessage, Producer, SendTimeout, StoreError
from silomq.shm import segments
from silomq.store.disk.paths import file_name

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 1 << 16
SETTINGS: dict[str, Any] = {
    "mapped_file_size_commit_log": SIZE,
    "max_message_size": 16384,
    "flush_interval_commit_log_ms": 10,
    "flush_commit_log_thorough_interval_ms": 10,
    "flush_interval_consume_queue_ms": 10,
    "flush_consume_queue_thorough_interval_ms": 20,
}


def send(producer: Producer, count: int) -> None:
    for _ in range(count):
        producer.send("alpha", b"x" * 1000, queue=0)


def test_flush_of_a_missing_file_is_one_error(tmp_path: Path) -> None:
    """Flush lives on, the store takes no more messages and says why, and does not start again."""
    with StoreProcess(tmp_path / "store", **SETTINGS) as store:
        with Producer(store.path, timeout=5.0) as producer:
            send(producer, 10)
            (store.path / "commitlog" / file_name(0)).unlink()
            control = store.control

            def is_refused() -> bool:
                try:
                    send(producer, 1)
                except StoreError:
                    return True
                return False

            eventually(is_refused, "the store refuses messages")
            assert control.load("flush_error") != 0
        with Admin(store.path) as admin:
            assert admin.status()["flush_error"] != 0
        assert store.starts("flush") == 1
        assert store.log().count("a sync failed") == 1
        assert file_name(0) in store.log()
        store.crash()
        process = store.launch()
        assert process.wait(60) == 5
        assert "the file is missing" in store.log()


def test_a_store_without_its_folder_stops_and_leaves_no_memory(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **SETTINGS) as store:
        memory = segments.store_identity(store.path)
        shutil.rmtree(store.path)
        store.running.send_signal(signal.SIGTERM)
        assert store.running.wait(WAIT_S) == 0
        assert "cannot mark this stop as clean" in store.log()
        assert "Traceback" not in store.log()
        assert segments.remove_all(memory) == []


@pytest.mark.parametrize("actor", ["reput", "commit", "append"])
def test_an_actor_that_lacks_its_file_says_so_once_and_goes_on_with_it(
    tmp_path: Path, actor: str
) -> None:
    pool = {"transient_store_pool_enable": "true", "transient_store_pool_size": 5}
    more = pool if actor == "commit" else {"restart_backoff_max_ms": 100}
    with (
        StoreProcess(tmp_path / "store", **SETTINGS, **more) as store,
        Producer(store.path, timeout=1.0) as producer,
    ):
        send(producer, 1)
        eventually(lambda: store.control.load("ready") >= 2 * SIZE, "its second file is made")
        victim = store.path / "commitlog" / file_name(SIZE)
        good = b""
        if actor == "reput":
            stopped = store.kill(actor, signal.SIGSTOP)
            send(producer, 130)
            good = victim.read_bytes()
            with victim.open("r+b") as file:
                file.write(bytes(SIZE // 2))
            kill_now(stopped, signal.SIGCONT)
        else:
            victim.rename(tmp_path / "away")

        def is_refused() -> bool:
            try:
                send(producer, 10)
            except IllegalMessage as error:
                return f"{actor} cannot go on" in str(error)
            except SendTimeout:
                pass
            return False

        eventually(is_refused, "the store refuses messages")
        with Admin(store.path) as admin:
            assert admin.status()["failed"] == [actor]
        assert f"and {actor} cannot go on" in silo("status", store=store.path).stderr.decode()
        starts = store.starts(actor)
        eventually(lambda: store.starts(actor) > starts + 3, "it is tried again")
        said = store.log_path.read_text()
        assert said.count("an actor cannot go on without its file") == 1
        assert 1 <= said.count("a file of the store is missing or damaged") <= 2
        if actor == "reput":
            with victim.open("r+b") as file:
                file.write(good)
        else:
            (tmp_path / "away").rename(victim)
        eventually(lambda: store.control.load("failed") == 0, "it goes on")
        send(producer, 1)
        store.await_dispatch()
        with Consumer(store.path, "alpha", queues=[0]) as consumer:
            assert read_all(consumer) == store.control.load("records")
        assert store.log_path.read_text().count("the actor has its file again") == 1


def test_a_short_index_file_stops_puts(tmp_path: Path) -> None:
    """It takes no messages that nobody could find. Once it is stopped, the next start says why."""
    with StoreProcess(tmp_path / "store", **SETTINGS) as store, Producer(store.path) as producer:
        send(producer, 1)
        store.await_dispatch()
        (index,) = (store.path / "index").iterdir()
        os.truncate(index, 4096)
        store.kill("reput")
        eventually(lambda: store.control.load("failed"), "it cannot go on")
        # Append may just take messages when it is told: it looks again within a slice of its work.
        eventually(lambda: is_refused(producer, "reput cannot go on"), "puts are refused")
        said = "set max_hash_slot_num and max_index_num to what the store was made with"
        assert said in store.log()
        store.stop()
        process = store.launch()
        assert process.wait(60) == 5, store.log()
        assert str(index) in store.log()


def is_refused(producer: Producer, why: str) -> bool:
    """Whether a message is refused for this reason."""
    try:
        send(producer, 1)
    except IllegalMessage as error:
        return why in str(error)
    return False


def read_all(consumer: Consumer) -> int:
    """How many messages come until there are no more."""
    count = 0
    while found := consumer.poll(50):
        count += len(found)
    return count


def test_a_full_file_that_was_shortened_stops_nobody_else(tmp_path: Path) -> None:
    """Flush cannot seal it, and says so once; messages go on; readers of the file are told."""
    with StoreProcess(tmp_path / "store", **SETTINGS) as store:
        with Producer(store.path) as producer:

            def are_sealed(count: int) -> bool:
                """Flush seals one file in each round, while messages come."""
                send(producer, 1)
                return len(seals(store)) >= count

            def is_in_a_file() -> bool:
                """Flush has synced a part of a file, so it has mapped the file."""
                send(producer, 1)
                return 0 < store.control.load("flushed") % SIZE < SIZE // 2

            eventually(lambda: are_sealed(2), "its files are sealed")
            eventually(is_in_a_file, "flush is inside a file")
            store.kill("flush", signal.SIGSTOP)
            victim = file_name(store.control.load("flushed") // SIZE * SIZE)
            send(producer, 130)
            os.truncate(store.path / "commitlog" / victim, 8192)
            store.kill("flush", signal.SIGCONT)
            eventually(lambda: are_sealed(6), "the files behind are sealed")
        assert store.starts("flush") == 1
        assert store.control.load("flush_error") == 0
        assert store.log().count("a file of the commit log is damaged") == 1
        store.await_dispatch()
        with (
            Consumer(store.path, "alpha", queues=[0]) as consumer,
            pytest.raises(Corrupt, match=f"{victim}.*has 8192 of {SIZE} bytes"),
        ):
            read_all(consumer)
        store.crash()


def seals(store: StoreProcess) -> list[Path]:
    return sorted((store.path / "silomq" / "seals").glob("*.json"))


@pytest.mark.parametrize("harm", ["removed", "shortened"])
@pytest.mark.parametrize("what", ["log", "queue"])
def test_no_reader_sees_a_plain_os_error_or_dies(tmp_path: Path, what: str, harm: str) -> None:
    with StoreProcess(tmp_path / "store", **SETTINGS, mapped_file_size_consume_queue=2000) as store:
        with Producer(store.path) as producer:
            send(producer, 300)
        store.await_dispatch()
        folder = store.path / ("commitlog" if what == "log" else "consumequeue/alpha/0")
        victim = sorted(folder.iterdir())[1]
        if harm == "removed":
            victim.unlink()
        else:
            os.truncate(victim, 100)
        with (
            Consumer(store.path, "alpha", queues=[0]) as consumer,
            pytest.raises(Corrupt, match=str(victim)) as caught,
        ):
            read_all(consumer)
        assert not isinstance(caught.value, OSError)
        store.crash()
