"""Start-up over a store's files, in this process, and what must be true of what it brings back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from support import small_settings
from support.checking import files
from support.checking.files import records_in
from support.checking.messages import check_messages
from support.checking.stored import Stored
from support.small_settings import ROLLING
from support.twins import twin_dispatch

from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.store.disk.paths import StoreFolders
from silomq.store.recovery.apply import apply
from silomq.store.recovery.look import look
from silomq.store.recovery.power_cut import BOOT
from silomq.store.topics.table_layout import Plan
from silomq.store.topics.topic_table import TopicTable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from support.checking.sent import Sent

    from silomq.conf.settings import Settings
    from silomq.store.record.format import Record
    from silomq.store.recovery.plan import Report


@dataclass
class Started:
    """A store that start-up has brought back, with its memory in this process."""

    settings: Settings
    control: Control
    table: TopicTable
    report: Report

    def records(self) -> list[Record]:
        """The records up to `wrote`, each whole."""
        size, end = self.settings.mapped_file_size_commit_log, self.control.load("wrote")
        found = records_in(self.settings.store_path, size, end)
        assert found or end == 0
        return found


def start(path: Path, *, new_boot: bool = True, **changes: object) -> Started:
    """Start-up as the supervisor does it, with ROLLING and `changes`; see `start_with`."""
    return start_with(path, {**ROLLING, **changes}, new_boot=new_boot)


def start_with(path: Path, chosen: Mapping[str, object], *, new_boot: bool = True) -> Started:
    """Start-up in this process, and as if in another boot of the machine. Raises what it raises."""
    settings = small_settings.load(path, chosen)
    boot = path / "silomq" / BOOT
    if new_boot and boot.exists():
        boot.write_text("another boot")
    with StoreFolders(path, create=True) as folders:
        size = Plan(settings.max_topics, settings.max_queues, settings.max_sessions)
        control = Control(bytearray(SIZE), STARTUP)
        table = TopicTable.create(bytearray(size.size), size)
        report = apply(look(folders, settings), folders, settings, control, table)
        return Started(settings, control, table, report)


def check(store: Started, sent: Sent, *, durable: bool) -> int:
    """What must be true after any power cut; the number of messages.

    With `durable` (SYNC_FLUSH) every acknowledged message is there.
    """
    records = store.records()
    found = [Stored.of_record(record) for record in records]
    check_messages(found, sent, others=True, may_lose=not durable)
    check_files(store, records)
    return len(records)


def check_files(store: Started, records: list[Record]) -> None:
    """Queues, index and shared memory are what the twins make of the log."""
    settings, control, table = store.settings, store.control, store.table
    assert control.load("dispatched") == control.load("wrote") == control.load("flushed")
    for (topic, queue_id), entries in twin_dispatch(records).items():
        slot = table.slot(topic, queue_id)
        assert table.queue_word(slot, "max_offset").load() == len(entries), (topic, queue_id)
        assert table.queue_word(slot, "next").load() == len(entries)
    assert sum(table.queue_column("max_offset")) == len(records)
    root = settings.store_path
    files.check_queue_files(root, settings.mapped_file_size_consume_queue, records)
    files.check_index_files(root, settings.max_hash_slot_num, settings.max_index_num, records)
