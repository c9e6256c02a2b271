"""Stores that clean themselves (ALWAYS and BY_HAND of small_settings): filling them, waiting for
clean, and what must be true afterwards.
"""

from __future__ import annotations

import os
import time

from support.checking.files import log_records
from support.checking.messages import read_topic
from support.harness import StoreProcess, eventually
from support.load.messages import body_of, owner_of
from support.small_settings import LOG_FILE, QUEUE_FILE

from silomq import Consumer, Producer
from silomq.store.consumequeue.queue import ENTRY
from silomq.store.disk.files import Folder
from silomq.store.recovery import durable_progress
from silomq.store.retention.rules import MANUAL_RUNS


def fill(store: StoreProcess, first: int, count: int, topic: str = "alpha") -> int:
    """Sends messages with a key each to queues 0 to 2 in turn; the next sequence number."""
    with Producer(store.path, timeout=10.0) as producer:
        futures = [
            producer.send_async(topic, body_of(0, i), keys=f"k{i}", queue=i % 3)
            for i in range(first, first + count)
        ]
        for future in futures:
            future.result(10.0)
    store.await_dispatch()
    return first + count


def log_files(store: StoreProcess) -> list[int]:
    """Offsets of the commit-log files."""
    return sorted(int(name) for name in os.listdir(store.path / "commitlog"))


def active(store: StoreProcess) -> int:
    """Offset of the file that the log's last byte is in: all before it may go."""
    return (store.control.load("wrote") - 1) // LOG_FILE * LOG_FILE


def await_durable(store: StoreProcess) -> None:
    """Waits until clean could remove everything before the active file."""
    ours = Folder.open(store.path / "silomq")

    def is_durable() -> bool:
        found = durable_progress.read(ours)
        return found is not None and found.progress.dispatched == store.control.load("wrote")

    eventually(is_durable, "queues and index are durable")
    ours.close()


def runs_left(store: StoreProcess) -> int:
    """Of the last request to clean by hand."""
    if store.control.load("manual_seen") != store.control.load("manual_asked"):
        return MANUAL_RUNS
    return store.control.load("manual_runs")


def await_runs(store: StoreProcess) -> None:
    """Waits until the last request to clean by hand is used up."""
    eventually(lambda: runs_left(store) == 0, "the request is used up")


def await_cleaned(store: StoreProcess) -> None:
    """Waits until everything before the active file is gone, and what hangs on it as well."""
    eventually(lambda: log_files(store)[0] == active(store), "old commit-log files are gone")
    assert store.control.load("min_offset") == active(store)


def await_quiet_clean(store: StoreProcess, quiet_s: float = 0.5) -> int:
    """Waits until clean has removed nothing for a while: the log's first offset. Clean publishes
    this offset first, and then removes the files before it one after the other, with pauses.
    """
    least, since = store.control.load("min_offset"), time.monotonic()

    def is_quiet() -> bool:
        nonlocal least, since
        now = store.control.load("min_offset")
        if now != least or log_files(store)[0] < least:
            least, since = now, time.monotonic()
        return time.monotonic() - since >= quiet_s

    eventually(is_quiet, "clean removes nothing more")
    return least


def least_offsets(store: StoreProcess, topic: str) -> dict[int, int]:
    """Each queue's minimum, as the table has it."""
    table = store.table
    found = table.find(topic)
    assert found is not None
    return {i: table.queue_word(slot, "min_offset").load() for i, slot in enumerate(found.slots)}


def check_least(store: StoreProcess) -> None:
    """Each queue's minimum is its first record that the log's files still hold."""
    first: dict[int, int] = {}
    ends: dict[int, int] = {}
    for record in log_records(store):
        first.setdefault(record.queue_id, record.queue_offset)
    found = least_offsets(store, "alpha")
    with Consumer(store.path, "alpha", offset="latest") as consumer:
        ends = consumer.positions()
    assert found == {queue: first.get(queue, ends[queue]) for queue in found}


def check_queue_files(store: StoreProcess) -> None:
    """Queue files that lie wholly before the minimum are gone, the newest is there."""
    for queue_id, least in least_offsets(store, "alpha").items():
        folder = store.path / "consumequeue" / "alpha" / str(queue_id)
        if not folder.exists():
            continue
        bases = sorted(int(name) for name in os.listdir(folder))
        assert bases
        assert bases[0] <= least * ENTRY.size
        assert len(bases) == 1 or bases[0] + QUEUE_FILE > least * ENTRY.size, (queue_id, least)


def check_readable(store: StoreProcess, sent: int) -> None:
    """The earliest messages are those of the log's first file, and all from there on are there."""
    wanted = {r.physical_offset for r in log_records(store) if r.topic == "alpha"}
    found = read_topic(store.path, "alpha")
    assert {view.physical_offset for view in found} == wanted
    sequences = sorted(owner_of(view.body)[1] for view in found)
    assert sequences == list(range(sent - len(sequences), sent))


def queues_are_clean(store: StoreProcess) -> bool:
    """Whether `check_queue_files` passes now."""
    try:
        check_queue_files(store)
    except AssertionError:
        return False
    return True
