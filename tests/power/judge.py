"""Starts the store on an image and holds what it would serve against what was sent."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from power.recorder import SETTINGS, body_of, keys_of
from support.twins import twin_dispatch, twin_index, walk

from silomq.conf import settings as conf
from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.store.disk.paths import StoreFolders
from silomq.store.recovery.apply import apply
from silomq.store.recovery.look import look
from silomq.store.recovery.power_cut import BOOT
from silomq.store.topics.table_layout import Plan
from silomq.store.topics.topic_table import TopicTable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from silomq.conf.settings import Settings
    from silomq.store.record.format import Record
    from silomq.store.recovery.plan import Report


@dataclass
class Said:
    """What producers knew at the cut."""

    sent: dict[int, int] = field(default_factory=dict)  # producer -> greatest sequence number
    acks: dict[tuple[int, int], tuple[str, int, int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, notes: Iterable[bytes]) -> Said:
        said = cls()
        for note in notes:
            what, producer, *rest = json.loads(note)
            if what == "sent":
                said.sent[producer] = rest[1]
            else:
                sequence, topic, queue, offset, place = rest
                said.acks[producer, sequence] = (topic, queue, offset, place)
        return said


def settings_of(path: Path, **changes: object) -> Settings:
    values = {"store_path": str(path)} | SETTINGS | changes
    return conf.load(environ={}, overrides=[f"{name}={value}" for name, value in values.items()])


@dataclass
class Started:
    """A store that start-up has brought back, with its memory in this process."""

    settings: Settings
    control: Control
    table: TopicTable
    report: Report

    def log_files(self) -> dict[int, bytes]:
        folder = self.settings.store_path
        return {
            int(file.name): file.read_bytes() for file in sorted((folder / "commitlog").iterdir())
        }

    def records(self) -> list[Record]:
        """The records up to `wrote`, each whole: decoding checks lengths and the body's CRC."""
        size = self.settings.mapped_file_size_commit_log
        files, end = self.log_files(), self.control.load("wrote")
        if not files:
            assert end == 0
            return []
        first = min(files)
        return list(walk(b"".join(files.values()), size, first, end))


def start(path: Path, *, new_boot: bool = True, **changes: object) -> Started:
    """Start-up as the supervisor does it, in this process and as if in another boot of the machine.
    Raises what it raises.
    """
    settings = settings_of(path, **changes)
    boot = path / "silomq" / BOOT
    if new_boot and boot.exists():
        boot.write_text("another boot")
    with StoreFolders(path, create=True) as folders:
        size = Plan(settings.max_topics, settings.max_queues, settings.max_sessions)
        control = Control(bytearray(SIZE), STARTUP)
        table = TopicTable.create(bytearray(size.size), size)
        report = apply(look(folders, settings), folders, settings, control, table)
        return Started(settings, control, table, report)


def check(store: Started, said: Said, *, durable: bool) -> int:
    """What must be true after any power cut; the number of messages.

    With `durable` (SYNC_FLUSH) every acknowledged message is there, where it was said to be.
    """
    records = store.records()
    found = _check_records(records, said)
    if durable:
        missing = said.acks.keys() - found.keys()
        assert not missing, f"{len(missing)} acknowledged messages are lost: {sorted(missing)[:5]}"
    for key in said.acks.keys() & found.keys():
        record = found[key]
        place = (record.topic, record.queue_id, record.queue_offset, record.physical_offset)
        assert durable is False or place == said.acks[key]
    check_files(store, records)
    return len(records)


def _check_records(records: list[Record], said: Said) -> dict[tuple[int, int], Record]:
    """Every record is one that was sent, whole, once; queue offsets are dense."""
    found: dict[tuple[int, int], Record] = {}
    offsets: dict[tuple[str, int], list[int]] = defaultdict(list)
    for record in records:
        owner, number, _ = record.body.split(b":", 2)
        key = int(owner), int(number)
        assert key not in found, f"message {key} is there twice"
        assert key[1] <= said.sent.get(key[0], -1), f"message {key} was never sent"
        assert record.body == body_of(*key)
        assert record.properties["KEYS"] == keys_of(*key)
        assert record.properties["TAGS"] == "T"
        found[key] = record
        offsets[record.topic, record.queue_id].append(record.queue_offset)
    for queue, numbers in offsets.items():
        assert numbers == list(range(len(numbers))), f"queue offsets of {queue}"
    return found


def check_files(store: Started, records: list[Record]) -> None:
    """Queues, index and shared memory are what the twins make of the log."""
    settings, control, table = store.settings, store.control, store.table
    assert control.load("dispatched") == control.load("wrote") == control.load("flushed")
    root = settings.store_path
    entry_bytes = settings.mapped_file_size_consume_queue
    twins = twin_dispatch(records)
    for (topic, queue_id), entries in twins.items():
        slot = table.slot(topic, queue_id)
        assert table.queue_word(slot, "max_offset").load() == len(entries), (topic, queue_id)
        assert table.queue_word(slot, "next").load() == len(entries)
        files = sorted((root / "consumequeue" / topic / str(queue_id)).iterdir())
        assert [int(file.name) for file in files] == [i * entry_bytes for i in range(len(files))]
        data = b"".join(file.read_bytes() for file in files)
        wanted = b"".join(entries[i].pack() for i in range(len(entries)))
        assert data[: len(wanted)] == wanted, f"entries of {topic}[{queue_id}]"
        assert not any(data[len(wanted) :]), f"{topic}[{queue_id}]: entries behind the last one"
    assert sum(table.queue_column("max_offset")) == len(records)
    files = sorted((root / "index").iterdir())
    index = twin_index(records, settings.max_hash_slot_num, settings.max_index_num)
    if index and index[-1].index_count == 1:
        index.pop()
    assert len(files) == len(index)
    for file, twin in zip(files, index, strict=True):
        assert file.read_bytes() == twin.bytes(), f"index file {file.name}"
