"""A store's files made by hand: a log that the twin wrote, and what dispatch should make of it."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

from support.frames import TOPICS, Batch, random_batch
from support.twins import DELAY_LEVELS_MS, Queue, twin_append, twin_dispatch, twin_index, walk

from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.store.commitlog.log import CommitLog
from silomq.store.consumequeue.queue import QueueFiles
from silomq.store.disk.paths import StoreFolders, file_name
from silomq.store.dispatch.dispatcher import Dispatching
from silomq.store.index.file import IndexFiles
from silomq.store.record.properties import encode_properties
from silomq.store.topics.table_layout import Plan
from silomq.store.topics.topic_table import TopicTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from silomq.store.record.format import Record

QUEUE_FILE = 2000
DAY_MS = 1_700_000_000_000


class Store:
    """A folder with a log made by the twin, and the shared memory to dispatch it with."""

    def __init__(
        self,
        path: Path,
        batches: Iterable[Batch],
        *,
        file_size: int = 6000,
        slots: int = 11,
        entries: int = 40,
        topics: dict[str, int] | None = None,
    ) -> None:
        self.folders = StoreFolders(path, create=True)
        self.file_size = file_size
        self.data = bytearray()
        self.ends = [0]
        offsets: dict[Queue, int] = {}
        wrote = 0
        for number, batch in enumerate(batches):
            wrote, _ = twin_append(
                self.data,
                file_size,
                wrote,
                offsets,
                [batch.records()],
                store_timestamp=DAY_MS + 700 * number,
            )
            self.ends.append(wrote)
        self.next = offsets
        for base in range(0, len(self.data), file_size):
            with self.folders.commit_log.file(file_name(base), write=True, create=True) as fd:
                os.pwrite(fd, self.data[base : base + file_size], 0)
        self.log = CommitLog(self.folders, file_size)
        self.queues = QueueFiles(self.folders.consume_queue, QUEUE_FILE)
        self.index = IndexFiles(self.folders.index, slots, entries)
        plan = Plan(max_topics=8, max_queues=16, max_sessions=1)
        self.control = Control(bytearray(SIZE), STARTUP)
        self.table = TopicTable.create(bytearray(plan.size), plan)
        for name, nums in (TOPICS if topics is None else topics).items():
            self.table.add_topic(name, write_nums=nums, read_nums=nums, perm=6)

    @property
    def records(self) -> Iterator[Record]:
        return walk(bytes(self.data), self.file_size, 0, self.ends[-1])

    def dispatching(self, **arguments: Any) -> Dispatching:
        arguments.setdefault("delay_levels_ms", DELAY_LEVELS_MS)
        return Dispatching(self.control, self.table, self.log, self.queues, self.index, **arguments)

    def dispatch(self, end: int | None = None, dispatching: Dispatching | None = None) -> None:
        self.control.own("wrote").store(self.ends[-1] if end is None else end)
        dispatching = dispatching or self.dispatching()
        while not dispatching.step(10**9):
            pass

    def queue_bytes(self) -> dict[Queue, bytes]:
        """Each queue's files, one behind the other; the first begins at queue offset 0."""
        found = {}
        for topic, queue_id, folder in self.queues.queues():
            data = b""
            for name in folder.names():
                assert int(name) == len(data)
                with folder.file(name) as fd:
                    data += _read(fd, QUEUE_FILE)
            found[topic, queue_id] = data
        return found

    def index_bytes(self) -> list[bytes]:
        found = []
        for name in self.index.names():
            with self.folders.index.file(str(name)) as fd:
                found.append(_read(fd, self.index.size))
        return found

    def expected_queues(self) -> dict[Queue, bytes]:
        found = {}
        for queue, entries in twin_dispatch(self.records).items():
            data = b"".join(entries[offset].pack() for offset in range(len(entries)))
            found[queue] = data.ljust(-(-len(data) // QUEUE_FILE) * QUEUE_FILE, b"\0")
        return found

    def expected_index(self) -> list[bytes]:
        """What the twin writes, without a last file that holds nothing.

        RocketMQ makes a file for the first record that comes to a full one, the kernel for the
        first key: a last file without entries is the only difference.
        """
        files = twin_index(self.records, self.index.slots, self.index.entries)
        if len(files) > 1 and files[-1].index_count == 1:
            files.pop()
        return [file.bytes() for file in files]

    def check(self) -> None:
        assert self.queue_bytes() == self.expected_queues()
        assert self.index_bytes() == self.expected_index()
        for (topic, queue_id), count in self.next.items():
            slot = self.table.slot(topic, queue_id)
            assert self.table.queue_word(slot, "max_offset").load() == count
        assert self.control.load("dispatched") == self.ends[-1]
        assert self.control.progress().dispatched == self.ends[-1]
        assert self.control.load("dispatch_count") == sum(self.next.values())


def _read(fd: int, size: int) -> bytes:
    data = os.pread(fd, size + 1, 0)
    assert len(data) == size
    return data


def batches(seed: int, count: int = 120) -> list[Batch]:
    rng = random.Random(seed)
    return [random_batch(rng, largest_body=150) for _ in range(count)]


def message(topic: str = "a", sys_flag: int = 0, **properties: str) -> Batch:
    encoded = encode_properties(properties)
    return Batch(topic, 0, [{"body": b"", "properties": encoded, "sys_flag": sys_flag}])
