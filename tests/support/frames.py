"""Frames of messages as a producer would write them into a ring, made in plain Python from what
`shm/ring.py` documents; and random messages for them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import crc32c

from silomq.shm import ring
from silomq.store.record.format import decode_record, encode_record
from silomq.store.record.ids import Host
from silomq.store.record.properties import encode_properties

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

STORE_HOST = Host.parse("192.168.7.9:10911")
LONG_TOPIC = "v2-" + "t" * 140
TOPICS = {"a": 3, "topic-two": 1, LONG_TOPIC: 2, "SCHEDULE_TOPIC_XXXX": 2}
#: Light queues (LMQ), which messages of the other topics name.
LIGHT = ("%LMQ%a", "%LMQ%b", "%LMQ%c")
BORN_HOSTS = (Host.parse("10.1.2.3:50000"), Host.parse("[2001:db8::7]:65535"))
NO_RESULT = (-1, -1, -1, -1)
FRAME = struct.Struct("<8I")
RESULT = struct.Struct("<4q")


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
        "sent_us": 0,
    } | changes
    frame = bytearray(max(length, 64))
    FRAME.pack_into(frame, 0, *fields.values())
    crc = crc32c.crc32c(bytes(frame[12:32]))
    for part in bodies_left_out(records):
        crc = crc32c.crc32c(part, crc)
    if "crc" not in changes:
        struct.pack_into("<I", frame, 8, crc)
    RESULT.pack_into(frame, 32, *NO_RESULT)
    frame[64 : 64 + len(records)] = records
    return frame


def one(topic: str = "a", queue_id: int = 0, **message: object) -> Batch:
    return Batch(topic, queue_id, [{"body": b"body", **message}])


def light_properties(names: Sequence[str]) -> bytes:
    """What a producer writes for a message in these light queues."""
    offsets = ",".join(["0" * 19] * len(names))
    pairs = {"INNER_MULTI_DISPATCH": ",".join(names), "INNER_MULTI_QUEUE_OFFSET": offsets}
    return encode_properties(pairs)


def random_batch(rng: random.Random, *, largest_body: int = 300, light: bool = False) -> Batch:
    """One to four messages for one of the queues of TOPICS. With `light` some are in light queues
    too.
    """
    topic = rng.choice(list(TOPICS))
    queue_id = rng.randrange(TOPICS[topic])
    messages = [random_message(rng, largest_body) for _ in range(rng.choice((1, 1, 1, 1, 2, 3, 4)))]
    for message in messages:
        queued = message["sys_flag"] & 0xC in (0, 0x8)
        if light and queued and topic != "SCHEDULE_TOPIC_XXXX" and rng.random() < 0.5:
            names = rng.sample(LIGHT, rng.randrange(1, 4))
            message["properties"] += light_properties(names)
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
