"""A store's memory without its processes: control block, topic table, log, real rings.

The producer here is written in plain Python from what `shm/ring.py` documents, so that the kernel
is not tested against the compiled producer's idea of a frame.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import crc32c
from support.plain_records import encode_blank
from support.twins import Queue, twin_append

from silomq.shm import ring
from silomq.shm._memory import Mapping
from silomq.shm.control import CONTROL, SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.store.commitlog import _append as kernel
from silomq.store.record.format import decode_record, encode_record
from silomq.store.record.ids import Host
from silomq.store.record.properties import encode_properties
from silomq.store.topics.table_layout import Plan
from silomq.store.topics.topic_table import TopicTable

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

STORE_HOST = Host.parse("192.168.7.9:10911")
LONG_TOPIC = "v2-" + "t" * 140
TOPICS = {"a": 3, "topic-two": 1, LONG_TOPIC: 2, "SCHEDULE_TOPIC_XXXX": 2}
BORN_HOSTS = (Host.parse("10.1.2.3:50000"), Host.parse("[2001:db8::7]:65535"))
NO_RESULT = (-1, -1, -1, -1)
_FRAME = struct.Struct("<8I")
_RESULT = struct.Struct("<4q")


class Result(NamedTuple):
    """The second half of a frame: what append answered."""

    status: int
    physical_offset: int
    queue_offset: int
    store_timestamp: int


@dataclass(frozen=True)
class Batch:
    """What one frame holds: messages (arguments of encode_record) of one queue."""

    topic: str
    queue_id: int
    messages: Sequence[dict[str, Any]]

    def records(self, *, record_crc: bool = False, store_host: Host = STORE_HOST) -> bytes:
        return b"".join(
            encode_record(
                self.topic.encode(),
                queue_id=self.queue_id,
                store_host=store_host,
                record_crc=record_crc,
                **message,
            )
            for message in self.messages
        )


def bodies_left_out(records: bytes) -> Iterable[bytes]:
    """The parts of a frame's records that its CRC-32C covers."""
    at = 0
    while at < len(records):
        record = decode_record(records, at)
        end = at + record.total_size
        body_at = at + 88 + 12 * (len(record.born_host.address) == 16)
        body_at += 12 * (len(record.store_host.address) == 16)
        yield records[at:body_at]
        yield records[body_at + len(record.body) : end]
        at = end


def make_frame(records: bytes, number: int, slot: int, **changes: int) -> bytearray:
    """A sealed frame of sound records; `changes` are header fields that lie, under a right CRC."""
    length = (ring.FRAME_HEADER + len(records) + 63) // 64 * 64
    fields = {
        "length": length,
        "kind": ring.KIND_RECORDS,
        "crc": 0,
        "record_bytes": len(records),
        "count": number,
        "queue_slot": slot,
        "flags": 0,
        "reserved": 0,
    } | changes
    frame = bytearray(max(length, 64))
    _FRAME.pack_into(frame, 0, *fields.values())
    crc = crc32c.crc32c(bytes(frame[12:32]))
    for part in bodies_left_out(records):
        crc = crc32c.crc32c(part, crc)
    if "crc" not in changes:
        struct.pack_into("<I", frame, 8, crc)
    _RESULT.pack_into(frame, 32, *NO_RESULT)
    frame[64 : 64 + len(records)] = records
    return frame


class RingProducer:
    """One session's ring, and the side of it that the client writes."""

    def __init__(self, capacity: int = ring.MIN_CAPACITY, session: int = 0) -> None:
        fd = ring.create(capacity, session)
        self.memory = Mapping(fd, 0, ring.DATA + capacity)
        os.close(fd)
        self.view = memoryview(self.memory)
        self.capacity = capacity
        self.session = session
        self.head = 0

    @property
    def tail(self) -> int:
        return self.word("tail")

    def word(self, name: str) -> int:
        return int.from_bytes(self.view[ring.RING[name][0] : ring.RING[name][0] + 8], "little")

    def set_word(self, name: str, value: int) -> None:
        at = ring.RING[name][0]
        self.view[at : at + 8] = (value % 2**64).to_bytes(8, "little")

    def room(self, length: int) -> bool:
        """Whether a frame of `length` bytes, and the pad before it, fits now."""
        rest = self.capacity - self.head % self.capacity
        need = length if rest >= length else rest + length
        return self.capacity - (self.head - self.tail) >= need

    def place(self, frame: bytes | bytearray) -> int:
        """Writes a frame, after a pad if it would wrap, and publishes it: the frame's counter."""
        rest = self.capacity - self.head % self.capacity
        if rest < len(frame):
            at = ring.DATA + self.head % self.capacity
            self.view[at : at + 64] = _FRAME.pack(rest, ring.KIND_PAD, 0, 0, 0, 0, 0, 0) + bytes(32)
            self.head += rest
        begin = self.head
        at = ring.DATA + begin % self.capacity
        self.view[at : at + len(frame)] = frame
        self.head += len(frame)
        self.set_word("head", self.head)
        return begin

    def result(self, begin: int) -> Result:
        at = ring.DATA + begin % self.capacity + 32
        return Result(*_RESULT.unpack_from(self.view, at))

    def set_result(self, begin: int, result: Sequence[int]) -> None:
        _RESULT.pack_into(self.view, ring.DATA + begin % self.capacity + 32, *result)

    def close(self) -> None:
        self.view.release()


@dataclass
class Rig:
    """Shared memory, log files and an append kernel; `boot` replaces it as a restart does."""

    file_size: int = 1 << 20
    batch_bytes: int = 1 << 20
    append_crc: bool = False
    max_body: int = 4 << 20
    max_sessions: int = 4
    store_host: Host = STORE_HOST
    rings: list[RingProducer] = field(default_factory=list)
    files: dict[int, bytearray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan = Plan(max_topics=8, max_queues=16, max_sessions=self.max_sessions)
        self.control = Control(bytearray(SIZE), STARTUP)
        self.control.create(1)
        self.table = TopicTable.create(bytearray(plan.size), plan)
        for name, nums in TOPICS.items():
            self.table.add_topic(name, write_nums=nums, read_nums=nums, perm=6)
        self.boot()

    @property
    def wrote(self) -> int:
        return self.control.load("wrote")

    @property
    def log(self) -> bytes:
        """All files, one behind the other; the first begins at offset 0."""
        return b"".join(bytes(self.files[base]) for base in sorted(self.files))

    def boot(self) -> None:
        """A new kernel over the memory as it is."""
        self.kernel = kernel.Appender(
            self.control.memory,
            self.table.memory,
            self.max_sessions,
            store_host=self.store_host.packed(),
            batch_bytes=self.batch_bytes,
            max_body=self.max_body,
            append_crc=self.append_crc,
            sleeper=CONTROL["reput_asleep"][0],
        )
        self.open_file()

    def open_file(self) -> None:
        base = self.wrote - self.wrote % self.file_size
        self.kernel.set_file(self.files.setdefault(base, bytearray(self.file_size)), base)

    def attach(self, producer: RingProducer, topics: Iterable[str] | None = None) -> None:
        """Adds a session that may write to `topics` (all by default)."""
        index = len(self.rings)
        producer.session = index
        self.rings.append(producer)
        for name in TOPICS if topics is None else topics:
            topic = self.table.find(name)
            assert topic is not None
            self.table.grant(index, topic.index)
        self.kernel.attach(index, producer.memory, producer.capacity, index)

    def new_ring(self, topics: Iterable[str] | None = None, **arguments: int) -> RingProducer:
        producer = RingProducer(**arguments)
        self.attach(producer, topics)
        return producer

    def take_over(self) -> tuple[int, int]:
        """What append does after a restart: (queues rolled back, bytes acknowledged)."""
        self.boot()
        touched = self.kernel.roll_back()
        for index, producer in enumerate(self.rings):
            self.kernel.attach(index, producer.memory, producer.capacity, index)
        for base, data in self.files.items():
            behind = max(0, self.wrote - base)
            data[behind:] = bytes(max(0, self.file_size - behind))
        settled = sum(self.kernel.settle(index) for index in range(len(self.rings)))
        return touched, settled

    def run(self, *, most: int = 10_000) -> list[int]:
        """Runs the kernel until it has nothing to do; the rings it had to drop."""
        bad: list[int] = []
        reason = kernel.IDLE
        for _ in range(most):
            reason = self.kernel.run(0, 10**9)
            if reason == kernel.IDLE:
                return bad
            if reason == kernel.ROLL:
                self.open_file()
            elif reason == kernel.BAD_RING:
                bad.append(self.kernel.bad_ring)
                self.kernel.detach(self.kernel.bad_ring, ring.RingClosed.BAD_FRAME)
        raise AssertionError(f"append does not come to rest: reason {reason}")

    def frame(self, batch: Batch, **changes: int) -> bytearray:
        """The frame of `batch`; its records carry another store host, which append must set."""
        other = Host(bytes(len(self.store_host.address)), 0)
        records = batch.records(record_crc=self.append_crc, store_host=other)
        slot = self.table.slot(batch.topic, batch.queue_id)
        return make_frame(records, len(batch.messages), slot, **changes)

    def next_offsets(self) -> dict[Queue, int]:
        """The next queue offset of every queue that has messages."""
        values = self.table.queue_column("next")
        return {
            (topic.name, queue_id): values[slot]
            for topic in self.table.topics()
            for queue_id, slot in enumerate(topic.slots)
            if values[slot]
        }

    def twin(self, appended: Iterable[tuple[Batch, Result]]) -> tuple[bytes, int, dict[Queue, int]]:
        """(log, wrote, next offsets) that the twin makes of the batches, in the order of the log.

        A frame that does not fit ends the file, but the next file may begin with the frame of
        another ring, which would have fitted.
        """
        log, wrote, table = bytearray(), 0, dict[Queue, int]()
        for batch, result in sorted(appended, key=lambda pair: pair[1].physical_offset):
            records = batch.records(record_crc=self.append_crc, store_host=self.store_host)
            left = self.file_size - wrote % self.file_size
            if result.physical_offset == wrote + left and left < self.file_size:
                assert len(self.rings) > 1 or len(records) + 8 > left
                log[wrote : wrote + 8] = encode_blank(left)
                wrote += left
            wrote, (answer,) = twin_append(
                log,
                self.file_size,
                wrote,
                table,
                [records],
                store_timestamp=result.store_timestamp,
                record_crc=self.append_crc,
            )
            assert answer.physical_offset == result.physical_offset
        return bytes(log), wrote, table


def one(topic: str = "a", queue_id: int = 0, **message: object) -> Batch:
    return Batch(topic, queue_id, [{"body": b"body", **message}])


def random_batch(rng: random.Random, *, largest_body: int = 300) -> Batch:
    """One to four messages for one of the queues of TOPICS."""
    topic = rng.choice(list(TOPICS))
    queue_id = rng.randrange(TOPICS[topic])
    messages = [random_message(rng, largest_body) for _ in range(rng.choice((1, 1, 1, 1, 2, 3, 4)))]
    return Batch(topic, queue_id, messages)


def random_message(rng: random.Random, largest_body: int = 300) -> dict[str, Any]:
    """Arguments of encode_record: everything that a producer may choose."""
    properties = {}
    for name, values in _PROPERTIES.items():
        if rng.random() < 0.5:
            properties[name] = rng.choice(values)
    return {
        "body": rng.randbytes(rng.choice((0, 1, rng.randrange(largest_body)))),
        "properties": encode_properties(properties),
        "flag": rng.randrange(-(2**31), 2**31),
        "sys_flag": rng.choice((0, 0, 0, 0x1, 0x2, 0x4, 0x8, 0xC, 0x701)),
        "born_timestamp": rng.randrange(2**41),
        "born_host": rng.choice(BORN_HOSTS),
        "reconsume_times": rng.randrange(17),
        "prepared_transaction_offset": rng.randrange(2**40),
    }


_PROPERTIES = {
    "TAGS": ("TagA", "TagB||TagC", "ü", "𝄞 clef"),
    "KEYS": ("k1", "k1 k2  k3", " ", "größe 鍵", "a b c d e f g h i j"),
    "UNIQ_KEY": ("7F00000100002A9F0000000000000001", "u", "0A" * 16),
    "DELAY": ("1", "3", "18", "19", "0", "-1"),
    "other": ("x" * 40, "y"),
}
