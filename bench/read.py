"""How fast messages are read: as Python objects, as columns, and from files on the disk."""

from __future__ import annotations

import mmap
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ..client.consuming.consumer import Consumer
from ..client.producing.producer import Producer
from ..store.reading.columns import arrow
from .rows import BATCH, Plan, Row
from .store import BenchStore

_BLOCK = 1 << 20


def reading(plan: Plan) -> list[Row]:
    """`poll` and `poll_arrow` against memcpy, cold reads against the disk."""
    arrow().array([1])  # loads pyarrow before anything is timed
    return [*_warm(plan, 128, 2_000_000), *_warm(plan, 1024, 400_000), _cold(plan)]


def _store(plan: Plan) -> BenchStore:
    return BenchStore(plan.folder, f"mapped_file_size_commit_log={plan.file_size}")


def _send(producer: Producer, size: int, count: int) -> int:
    """Sends about `count` messages to one queue. Returns how many."""
    batch = [b"x" * size] * BATCH
    batches = -(-count // BATCH)
    for _ in range(batches):
        producer.send_batch_oneway("bench", batch, queue=0)
    producer.flush(60)
    return batches * BATCH


def _log_files(store: BenchStore) -> list[Path]:
    return sorted((store.folder / "commitlog").iterdir())


def _warm(plan: Plan, size: int, count: int) -> list[Row]:
    poll, columns, views, copy = [], [], [], []
    with _store(plan) as store:
        with Producer(store.folder, timeout=60) as producer:
            sent = _send(producer, size, plan.count(count))
        store.wait_dispatched()
        store.settle()
        wrote = store.control.load("wrote")
        target = memoryview(bytearray(min(wrote, plan.file_size)))
        for how in (_bodies, _batches, _views):  # warms memory and code
            _read(store, sent, how)
        for _ in range(plan.runs):
            copy.append(sent / _copied(store, wrote, target))
            poll.append(sent / _read(store, sent, _bodies))
            columns.append(sent / _read(store, sent, _batches))
            views.append(sent / _read(store, sent, _views))
    said = f"memcpy of the log, {size} B"
    half = 0.5 * statistics.median(copy)
    arrow_bar, why = (4e6, "") if size <= 128 else (half, "0.5 x memcpy")
    return [
        Row(f"poll, bodies touched, {size} B", "msg/s", poll, said, copy, 1.2e6),
        Row(f"poll_arrow, {size} B", "msg/s", columns, said, copy, arrow_bar, bar_text=why),
        Row(f"poll_arrow, bodies as views, {size} B", "msg/s", views, said, copy, 10e6),
    ]


def _copied(store: BenchStore, wrote: int, target: memoryview) -> float:
    """Seconds to copy the log's bytes from the page cache into warm memory."""
    seconds = 0.0
    for path in _log_files(store):
        length = min(len(target), wrote - int(path.name))
        if length <= 0:
            break
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory,
            memoryview(memory) as view,
        ):
            start = time.perf_counter()
            target[:length] = view[:length]
            seconds += time.perf_counter() - start
    return seconds


def _bodies(consumer: Consumer) -> Iterator[int]:
    while found := consumer.poll(BATCH):
        for message in found:
            _ = message.body
        yield len(found)


def _batches(consumer: Consumer) -> Iterator[int]:
    while (batch := consumer.poll_arrow()).num_rows:
        yield batch.num_rows


def _views(consumer: Consumer) -> Iterator[int]:
    while (
        batch := consumer.poll_arrow(columns=("body",), max_bytes=64 << 20, body_views=True)
    ).num_rows:
        yield batch.num_rows


def _read(store: BenchStore, sent: int, how: Callable[[Consumer], Iterator[int]]) -> float:
    """Seconds to read all messages from the first on."""
    with Consumer(store.folder, "bench", queues=[0]) as consumer:
        start = time.perf_counter()
        found = sum(how(consumer))
        seconds = time.perf_counter() - start
    assert found == sent, f"{found} of {sent} messages were read"
    return seconds


def _cold(plan: Plan) -> Row:
    """Reads the first file of a log of 1 KB messages, when it is full and not in the page cache."""
    ours, disk = [], []
    with _store(plan) as store:
        sent = 0
        with Producer(store.folder, timeout=60) as producer:
            while store.control.load("wrote") <= plan.file_size:
                sent += _send(producer, 1024, 10_000)
        store.wait_dispatched()
        # Pages that a process has mapped do not leave the page cache, so the store is restarted.
        store.restart(kill=False)
        for _ in range(plan.runs):
            _forget(store)
            disk.append(_disk_rate(_log_files(store)[0]))
            _forget(store)
            ours.append(_poll_rate(store, plan.file_size))
    bar = 0.7 * statistics.median(disk)
    said = "read of the file"
    return Row("cold read, 1024 B", "MB/s", ours, said, disk, bar, bar_text="0.7 x read")


def _forget(store: BenchStore) -> None:
    """Writes the files to the disk, and drops them from the page cache."""
    for path in [*_log_files(store), *(store.folder / "consumequeue" / "bench" / "0").iterdir()]:
        with path.open("r+b") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _disk_rate(path: Path) -> float:
    """MB/s of reading a file from its beginning to its end."""
    block = bytearray(_BLOCK)
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        start = time.perf_counter()
        while file.readinto(block):
            pass
        return path.stat().st_size / (time.perf_counter() - start) / 1e6


def _poll_rate(store: BenchStore, size: int) -> float:
    """MB/s of the log, while the messages of its first file are polled."""
    with Consumer(store.folder, "bench", queues=[0]) as consumer:
        start, end = time.perf_counter(), 0
        while end < size and (found := consumer.poll(BATCH)):
            for message in found:
                _ = message.body
            end = found[-1].physical_offset
        return min(end, size) / (time.perf_counter() - start) / 1e6
