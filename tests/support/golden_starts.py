"""Starts over the golden stores, and what RocketMQ's manifests say of them."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from support.golden_stores import (
    INDEX_ENTRIES,
    INDEX_SLOTS,
    LOG_FILE_SIZE,
    QUEUE_FILE_SIZE,
    Golden,
)
from support.twins import DELAY_LEVELS_MS

from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.store.consumequeue.queue import ENTRY, ENTRY_SIZE
from silomq.store.disk.paths import StoreFolders, file_name
from silomq.store.record.format import decode_record
from silomq.store.recovery.apply import apply
from silomq.store.recovery.look import look
from silomq.store.recovery.store_files import StoreFiles
from silomq.store.topics.table_layout import Plan
from silomq.store.topics.topic_table import TopicTable

if TYPE_CHECKING:
    from pathlib import Path

    from silomq.conf.settings import Settings


SETTINGS = cast(
    "Settings",
    SimpleNamespace(
        message_delay_level=DELAY_LEVELS_MS,
        mapped_file_size_commit_log=LOG_FILE_SIZE,
        mapped_file_size_consume_queue=QUEUE_FILE_SIZE,
        max_hash_slot_num=INDEX_SLOTS,
        max_index_num=INDEX_ENTRIES,
        message_index_enable=True,
        check_crc_on_recover=True,
        default_topic_queue_nums=4,
        max_queues=2**22,
    ),
)


class Started:
    """A golden store after start-up, in memory of the test's own."""

    def __init__(self, path: Path) -> None:
        self.folders = StoreFolders(path, create=True)
        plan = Plan(max_topics=64, max_queues=256, max_sessions=1)
        self.control = Control(bytearray(SIZE), STARTUP)
        self.table = TopicTable.create(bytearray(plan.size), plan)
        self.files = StoreFiles.of(self.folders, SETTINGS)
        self.plan = look(self.folders, SETTINGS)
        self.report = apply(self.plan, self.folders, SETTINGS, self.control, self.table)

    def column(self, topic: str, queue_id: int, field: str) -> int:
        return self.table.queue_word(self.table.slot(topic, queue_id), field).load()

    def entry(self, topic: str, queue_id: int, offset: int) -> tuple[int, int, int]:
        position = offset * ENTRY_SIZE
        base = position - position % self.files.queues.file_size
        with self.files.queues.folder(topic, queue_id) as folder:
            path = f"{folder.path}/{file_name(base)}"
        with open(path, "rb") as file:
            file.seek(position - base)
            return cast("tuple[int, int, int]", ENTRY.unpack(file.read(ENTRY_SIZE)))

    def record(self, offset: int) -> Any:
        base = offset - offset % LOG_FILE_SIZE
        view = memoryview(self.files.log.open(base).mapping)
        return decode_record(view, offset - base)


def check(store: Started, golden: Golden) -> None:
    said = golden.of("store")[0]
    assert store.report.log_end == said["maxPhyOffset"]
    assert store.control.load("min_offset") == said["minPhyOffset"]
    for queue in golden.of("queue"):
        where = queue["topic"], queue["queueId"]
        assert store.column(*where, "max_offset") == queue["maxOffset"], where
        assert store.column(*where, "next") == queue["maxOffset"], where
        assert store.column(*where, "min_offset") == queue["minOffset"], where
    for message in golden.of("msg"):
        where = message["topic"], message["queueId"]
        if message.get("cq"):
            entry = dict(
                zip(
                    ("offset", "size", "tagsCode"),
                    store.entry(*where, message["queueOffset"]),
                    strict=True,
                )
            )
            assert entry == message["cq"]
        record = store.record(message["commitLogOffset"])
        assert hashlib.sha256(record.body).hexdigest() == message["bodySha256"]
        assert record.queue_offset == message["queueOffset"]
