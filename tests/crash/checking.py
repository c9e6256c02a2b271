"""What must be true of a store's messages after any number of kills.

Two views are held against what the producers wrote down: the queues as a consumer reads them, and
the files as the plain-Python twins of the kernels would have written them.
"""

from __future__ import annotations

import struct
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from support.twins import Queue, twin_dispatch, twin_index, walk

from silomq import Admin, Consumer
from silomq.store.record.javahash import index_key_hash
from silomq.store.record.properties import index_keys

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from support.harness import StoreProcess

    from silomq import MessageView, SendResult
    from silomq.store.record.format import Record

_ENTRY = struct.Struct(">iqii")


@dataclass
class Ack:
    """One acknowledged message: what was sent, and what the store answered."""

    topic: str
    queue_id: int
    producer: int
    sequence: int
    queue_offset: int
    physical_offset: int
    message_id: str
    offset_message_id: str

    @classmethod
    def of(cls, result: SendResult, producer: int, sequence: int) -> Ack:
        """From the answer to one message."""
        return cls(
            result.topic,
            result.queue_id,
            producer,
            sequence,
            result.queue_offset,
            result.physical_offset,
            result.message_id,
            result.offset_message_id,
        )


@dataclass
class Sent:
    """What producers know. `oneway` messages were published and asked nothing about."""

    acks: list[Ack] = field(default_factory=list)
    oneway: list[tuple[int, int]] = field(default_factory=list)  # (producer, sequence)
    errors: list[str] = field(default_factory=list)

    def add(self, report: dict[str, Any]) -> None:
        """Takes in the report of one producer process (`crash/load.py`)."""
        self.acks += [Ack(*ack) for ack in report["acks"]]
        self.oneway += [(producer, sequence) for producer, sequence in report["oneway"]]
        self.errors += report["errors"]


def body_of(producer: int, sequence: int) -> bytes:
    """A body that says whose it is, of a length that varies with the sequence number."""
    return b"%d:%d:" % (producer, sequence) + b"x" * (sequence * 37 % 400)


def owner_of(body: bytes) -> tuple[int, int]:
    """Producer and sequence number of a body, which must be whole."""
    producer, sequence, _ = body.split(b":")
    found = int(producer), int(sequence)
    assert body == body_of(*found)
    return found


def read_topic(path: Path, topic: str) -> list[MessageView]:
    """Everything in a topic, by way of a consumer that starts at the earliest message."""
    found: list[MessageView] = []
    with Consumer(path, topic) as consumer:
        while messages := consumer.poll(10_000):
            found += messages
        assert consumer.lag() == 0
    return found


def await_dispatch(store: StoreProcess) -> None:
    """Waits until all that was appended is in queues and index."""
    deadline = time.monotonic() + 30
    while store.control.load("dispatched") < store.control.load("wrote"):
        assert time.monotonic() < deadline, f"dispatch does not catch up: {store.log()}"
        time.sleep(0.005)


def check_messages(
    store: StoreProcess,
    sent: Sent,
    topics: Iterable[str],
    *,
    others: bool = False,
    beside: str = "",
) -> list[Record]:
    """Holds a running store against what was sent; its records, in the order of the log.

    With `others` the store may also hold, at most once each, messages that were sent and never
    acknowledged: after a crash of the whole store nobody can know about those. `beside` is a topic
    whose messages are not of this form, and are the caller's to check.
    """
    assert sent.errors == []
    await_dispatch(store)
    with Admin(store.path) as admin:
        known = [info.topic for info in admin.topics()]
    # A crash may come before a topic's first message; what was acknowledged is missed below.
    views = [view for topic in topics if topic in known for view in read_topic(store.path, topic)]
    owners = [owner_of(view.body) for view in views]
    assert len(set(owners)) == len(owners), "a body is there twice"
    keys = {view.message_id: view for view in views}
    assert len(keys) == len(views), "a UNIQ_KEY is there twice"
    expected = {(ack.producer, ack.sequence) for ack in sent.acks} | set(sent.oneway)
    assert len(expected) == len(sent.acks) + len(sent.oneway)
    missing = expected - set(owners)
    assert not missing, f"{len(missing)} messages are lost, among them {sorted(missing)[:5]}"
    if not others:
        assert set(owners) == expected
    for ack in sent.acks:
        _check_ack(ack, keys[ack.message_id])
    _check_queues(views)
    records = log_records(store)
    ours = [r.physical_offset for r in records if r.topic != beside]
    assert len(ours) == len(views), "the log holds records that no queue leads to"
    assert set(ours) == {v.physical_offset for v in views}
    return records


def _check_ack(ack: Ack, view: MessageView) -> None:
    assert owner_of(view.body) == (ack.producer, ack.sequence)
    assert (view.topic, view.queue_id) == (ack.topic, ack.queue_id)
    assert view.queue_offset == ack.queue_offset
    assert view.physical_offset == ack.physical_offset
    assert view.offset_message_id == ack.offset_message_id


def _check_queues(views: list[MessageView]) -> None:
    """Queue offsets are dense and the records' own; each producer's messages are in order."""
    queues: dict[Queue, list[MessageView]] = defaultdict(list)
    for view in views:
        queues[view.topic, view.queue_id].append(view)
    for queue, messages in queues.items():
        offsets = [int.from_bytes(view.record[20:28], "big") for view in messages]
        assert [view.queue_offset for view in messages] == offsets == list(range(len(messages)))
        places = [view.physical_offset for view in messages]
        assert places == sorted(places), f"{queue} is not in the order of the log"
        last: dict[int, int] = {}
        for view in messages:
            producer, sequence = owner_of(view.body)
            assert sequence > last.get(producer, -1), f"{queue}: order of producer {producer}"
            last[producer] = sequence


def log_records(store: StoreProcess) -> list[Record]:
    """Every record in the commit-log files, whose end must be `wrote` where the store runs."""
    size = int(str(store.settings["mapped_file_size_commit_log"]))
    files = sorted((store.path / "commitlog").iterdir())
    assert files
    first = int(files[0].name)
    assert [int(file.name) for file in files] == [first + i * size for i in range(len(files))]
    data = b"".join(file.read_bytes() for file in files)
    records = list(walk(data, size, first))
    if store.running.poll() is None and records:
        end = records[-1].physical_offset + records[-1].total_size
        assert store.control.load("wrote") in (end, -(-end // size) * size)
    return records


def check_index(store: StoreProcess, records: list[Record]) -> None:
    """Every key of every record stands in the index files, exactly once for each time it is
    given.
    """
    expected = Counter(
        (index_key_hash(record.topic, key), record.physical_offset)
        for record in records
        for key in index_keys(record.properties)
    )
    slots = int(str(store.settings["max_hash_slot_num"]))
    found: Counter[tuple[int, int]] = Counter()
    for file in sorted((store.path / "index").iterdir()):
        data = file.read_bytes()
        count = int.from_bytes(data[36:40], "big")
        start = 40 + 4 * slots
        for number in range(1, count):
            key_hash, place, _, _ = _ENTRY.unpack_from(data, start + 20 * number)
            found[key_hash, place] += 1
        assert not any(data[start + 20 * max(count, 1) :]), "entries behind the last one"
    assert found == expected


def check_twins(store: StoreProcess) -> None:
    """Queue and index files of a stopped store are, byte for byte, what the twins make of its
    log.
    """
    records = log_records(store)
    entry_bytes = int(str(store.settings["mapped_file_size_consume_queue"])) // 20 * 20
    for (topic, queue_id), entries in twin_dispatch(records).items():
        files = sorted((store.path / "consumequeue" / topic / str(queue_id)).iterdir())
        assert [int(file.name) for file in files] == [i * entry_bytes for i in range(len(files))]
        data = b"".join(file.read_bytes() for file in files)
        wanted = b"".join(entries[i].pack() for i in range(len(entries)))
        assert data == wanted.ljust(entry_bytes * len(files), b"\0"), (topic, queue_id)
    slots = int(str(store.settings["max_hash_slot_num"]))
    twins = twin_index(records, slots, int(str(store.settings["max_index_num"])))
    files = sorted((store.path / "index").iterdir())
    assert len(files) == len(twins)
    for file, twin in zip(files, twins, strict=True):
        assert file.read_bytes() == twin.bytes(), f"index file {file.name}"
