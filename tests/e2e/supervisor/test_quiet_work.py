"""What the store's processes leave undone while messages come one by one."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from support.harness import StoreProcess, eventually

from silomq import Admin, Consumer, Producer
from silomq.actors.full_rounds import FAR_BYTES, FAR_ENTRIES
from silomq.store.disk.files import Folder
from silomq.store.recovery import durable_progress

if TYPE_CHECKING:
    from pathlib import Path

LARGE: dict[str, Any] = {
    "mapped_file_size_commit_log": 64 << 20,
    "mapped_file_size_consume_queue": 6_000_000,
    "max_message_size": 2 << 20,
    "max_hash_slot_num": 100_000,
    "max_index_num": 2_000_000,
}


def recorded(store: StoreProcess) -> int:
    """Up to where the progress record says that all is durable."""
    with Folder.open(store.path / "silomq") as ours:
        found = durable_progress.read(ours)
    return found.progress.dispatched if found else 0


def await_flush(store: StoreProcess) -> None:
    end = store.control.load("wrote")
    eventually(lambda: store.control.load("flushed") >= end, "the log is flushed")


def sleeps(store: StoreProcess, *names: str) -> int:
    return sum(psutil.Process(store.pid(name)).num_ctx_switches().voluntary for name in names)


def send_slowly(folder: Path, count: int) -> None:
    with Producer(folder) as producer:
        for _ in range(count):
            time.sleep(0.002)
            producer.send("t", b"x")


def test_only_who_has_work_is_woken(tmp_path: Path) -> None:
    count = 500
    with StoreProcess(tmp_path / "store") as store, Producer(store.path) as producer:
        producer.send("t", b"the first")
        with Consumer(store.path, "t") as consumer:
            assert consumer.poll(1, 5.0)
            before = sleeps(store, "commit", "allocate", "clean", "registry", "schedule")
            began = time.monotonic()
            for _ in range(count):
                producer.send("t", b"x")
                assert consumer.poll(1, 5.0)
                time.sleep(0.001)
            ticks = 5 * (time.monotonic() - began + 2)
            found = sleeps(store, "commit", "allocate", "clean", "registry", "schedule")
    assert found - before < 2 * ticks + count / 5


def test_the_index_is_not_written_again_and_again(tmp_path: Path) -> None:
    """Queues and log are, so `flushed` moves; the record that is true of all three stays."""
    with StoreProcess(tmp_path / "store", flush_interval_consume_queue_ms=50) as store:
        known = recorded(store)
        with Producer(store.path) as producer:
            for _ in range(20):
                producer.send_batch("t", [b"x" * 100] * 500, queue=0)
                await_flush(store)
                time.sleep(0.02)
        end = store.control.load("wrote")
        assert recorded(store) == known
        store.stop()
        assert recorded(store) == end


@pytest.mark.parametrize(("size", "count"), [(1, FAR_ENTRIES), (1 << 20, FAR_BYTES >> 20)])
def test_a_start_never_has_much_to_dispatch_again(size: int, count: int, tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **LARGE) as store, Producer(store.path) as producer:
        known = recorded(store)
        batch = [b"x" * size] * max(1, (64 << 10) // size // 16)
        for _ in range(count // len(batch)):
            producer.send_batch_oneway("t", batch, queue=0)
        producer.flush(60)

        def is_recorded() -> bool:
            producer.send("t", b"x")  # so that it is never quiet
            return recorded(store) > known + size * count * 0.9

        eventually(is_recorded, "a full round", 20.0)


def test_what_is_quiet_becomes_durable_soon(tmp_path: Path) -> None:
    """In seconds, not within the thorough interval; then flush has nothing to look after."""
    with StoreProcess(tmp_path / "store") as store:
        with Producer(store.path) as producer:
            producer.send("t", b"x")
        end = store.control.load("wrote")
        eventually(lambda: recorded(store) == end, "all is durable", 10.0)
        time.sleep(0.6)  # the round it was in
        before = sleeps(store, "flush")
        time.sleep(3)
        assert sleeps(store, "flush") - before <= 6, "it sleeps a second at a time"


def test_dispatch_waits_awake_for_who_waits(tmp_path: Path) -> None:
    """With a spin longer than the pauses reput sleeps in few of them, else in each."""
    count, found = 200, []
    for spin_us in (0, 10_000):
        store = StoreProcess(tmp_path / str(spin_us), reput_spin_us=spin_us)
        with store:
            with Admin(store.path) as admin:
                admin.create_topic("t", 4)
            sender = threading.Thread(target=send_slowly, args=(store.path, count))
            with Consumer(store.path, "t") as consumer:
                sender.start()
                assert consumer.poll(1, 5.0)
                before = sleeps(store, "reput")
                for _ in range(count - 1):
                    assert consumer.poll(1, 5.0)
                sender.join()
                found.append(sleeps(store, "reput") - before)
    asleep, awake = found
    assert asleep > count / 2
    assert awake < asleep / 2
