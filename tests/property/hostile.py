"""What a hostile client may write into its ring: mutations of frames, seeded, one call each."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import crc32c
from support.append_rig import Rig, RingProducer
from support.frames import LONG_TOPIC, Batch, make_frame, random_message
from support.plain_records import encode_blank

from silomq.shm.ring import DATA, FRAME, RING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

GRANTED = {"a": 3, LONG_TOPIC: 2}
FOREIGN = (("topic-two", 0), ("SCHEDULE_TOPIC_XXXX", 1), ("nobody's", 0))
ODD = (0, 1, 2, 63, 64, 65, 90, 91, 127, 128, 192, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)


def records_of(rng: random.Random, topic: str, queue_id: int, number: int = 0) -> bytes:
    messages = [random_message(rng, 200) for _ in range(number or rng.choice((1, 1, 2, 3)))]
    return Batch(topic, queue_id, messages).records(record_crc=rng.random() < 0.5)


def valid(rng: random.Random, rig: Rig) -> bytearray:
    """A frame that append should take, if its records carry a checksum where they must."""
    topic = rng.choice(list(GRANTED))
    queue_id = rng.randrange(GRANTED[topic])
    messages = [random_message(rng, 200) for _ in range(rng.choice((1, 1, 2, 3)))]
    return rig.frame(Batch(topic, queue_id, messages))


def reseal(frame: bytearray) -> None:
    """Makes checksums right again as far as the lengths allow: a hostile client can compute too."""
    _, _, _, record_bytes, count, _, _, _ = struct.unpack_from("<8I", frame)
    crc = crc32c.crc32c(bytes(frame[12:32]))
    at, end = 64, min(64 + record_bytes, len(frame))
    for _ in range(min(count, 10)):
        if end - at < 91:
            break
        total, flags = (int.from_bytes(frame[at + i : at + i + 4], "big") for i in (0, 36))
        body_at = at + 88 + 12 * (flags >> 4 & 1) + 12 * (flags >> 5 & 1)
        body = int.from_bytes(frame[body_at - 4 : body_at], "big")
        if at + total > end or body_at + body > at + total:
            break
        body_crc = zlib.crc32(frame[body_at : body_at + body]) & 0x7FFFFFFF
        struct.pack_into(">I", frame, at + 8, body_crc)
        crc = crc32c.crc32c(bytes(frame[at:body_at]), crc)
        crc = crc32c.crc32c(bytes(frame[body_at + body : at + total]), crc)
        at += total
    struct.pack_into("<I", frame, 8, crc)


def flip(rng: random.Random, frame: bytearray, first: int, end: int) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        frame[rng.randrange(first, end)] ^= 1 << rng.randrange(8)


# Each mutation writes into the ring and publishes.


def place(ring: RingProducer, frame: bytearray) -> int:
    """As an honest producer would, if there is room: where in the ring, or 0 without room."""
    frame = frame.ljust((len(frame) + 63) // 64 * 64, b"\0")
    ring.head -= ring.head % 64
    if not ring.room(len(frame)):
        return 0
    return DATA + ring.place(frame) % ring.capacity


def random_bytes(rng: random.Random, rig: Rig, ring: RingProducer) -> None:
    size = rng.choice((64, 200, 4096, ring.capacity))
    at = ring.head % ring.capacity
    data = rng.randbytes(min(size, ring.capacity - at))
    ring.view[DATA + at : DATA + at + len(data)] = data
    ring.head += rng.choice((64, len(data) // 64 * 64, len(data)))
    ring.set_word("head", ring.head)


def flipped(rng: random.Random, rig: Rig, ring: RingProducer) -> None:
    frame = valid(rng, rig)
    flip(rng, frame, *rng.choice(((0, 32), (64, 64 + 91), (64, len(frame)))))
    place(ring, frame)


def flipped_and_sealed(rng: random.Random, rig: Rig, ring: RingProducer) -> None:
    frame = valid(rng, rig)
    flip(rng, frame, *rng.choice(((12, 32), (64, 64 + 91), (64, len(frame)))))
    reseal(frame)
    place(ring, frame)


def lying_header(rng: random.Random, rig: Rig, ring: RingProducer) -> None:
    frame = valid(rng, rig)
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(("length", "kind", "record_bytes", "count", "queue_slot", "sent_us"))
        at = FRAME[name][0]
        right = int.from_bytes(frame[at : at + 4], "little")
        lie = rng.choice((*ODD, right - 1, right + 1, right - 64, right + 64, 2 * right))
        struct.pack_into("<I", frame, at, lie % 2**32)
    if rng.random() < 0.8:
        reseal(frame)
    place(ring, frame)


def lying_record(rng: random.Random, rig: Rig, ring: RingProducer) -> None:
    frame = valid(rng, rig)
    at, width = rng.choice(((0, 4), (4, 4), (12, 4), (36, 4), (84, 4), (96, 4), (88, 1), (88, 2)))
    right = int.from_bytes(frame[64 + at : 64 + at + width], "big")
    lie = rng.choice((*ODD, right - 1, right + 1, 0xDAA320A7, 0xDAA320AB, 0xCBD43194))
    frame[64 + at : 64 + at + width] = (lie % 2 ** (8 * width)).to_bytes(width, "big")
    reseal(frame)
    place(ring, frame)


def wrong_crc(rng: random.Random, rig: Rig, ring: RingProducer) -> None:
    frame = valid(rng, rig)
    struct.pack_into("<I", frame, 8, rng.choice((0, 2**32 - 1, rng.randrange(2**32))))
    place(ring, frame)


def foreign_queue(rng: random.Random, rig: Rig, ring: RingProducer) -> None:
    """A sound record of a queue that is not the session's, or not the one of the slot."""
    topic, queue_id = rng.choice((*FOREIGN, ("a", 3), ("a", 2**31 - 1)))
    slot = rig.table.slot(topic, queue_id)
    if slot < 0 or rng.random() < 0.5:
        slot = rng.choice((rig.table.slot("a", 0), rng.choice(ODD), rng.randrange(16)))
    records = records_of(rng, topic, queue_id)
    if rng.random() < 0.3:
        records = records_of(rng, "a", 0) + records
    number = records.count(b"\xda\xa3\x20")
    place(ring, make_frame(records, number, slot))


def absurd_head(rng: random.Random, rig: Rig, ring: RingProducer) -> None:
    capacity = ring.capacity
    head = rng.choice((0, 1, 63, 64, capacity, capacity + 64, 2**32, 2**63, 2**64 - 1))
    ring.head = (head + rng.choice((0, ring.head))) % 2**64
    ring.set_word("head", ring.head)


def pads(rng: random.Random, rig: Rig, ring: RingProducer) -> None:
    for _ in range(rng.randrange(1, 30)):
        length = 64 * rng.randrange(1, 5)
        frame = bytearray(rng.randbytes(length) if rng.random() < 0.5 else bytes(length))
        told = rng.choice((length, length, length, length, length, rng.choice(ODD)))
        struct.pack_into("<II", frame, 0, told, 2)
        place(ring, frame)


def changed_after_publish(rng: random.Random, rig: Rig, ring: RingProducer) -> None:
    frame = valid(rng, rig)
    at = place(ring, frame)
    for _ in range(rng.randrange(1, 6) if at else 0):
        ring.view[at + rng.randrange(len(frame))] = rng.randrange(256)


def own_header(rng: random.Random, rig: Rig, ring: RingProducer) -> None:
    """Words that append owns, which the client can write all the same."""
    name = rng.choice(("tail", "closed", "rejected", "capacity", "magic", "session"))
    ring.set_word(name, rng.choice((0, 1, rng.randrange(2**64), 2**64 - 1)))
    place(ring, valid(rng, rig))


def end_of_file(rng: random.Random, rig: Rig, ring: RingProducer) -> None:
    """An end-of-file record where a message should be."""
    records = encode_blank(rng.choice((8, 100, 2**31 - 1))).ljust(100, b"\0")
    frame = bytearray(make_frame(b"", 1, 0, record_bytes=100)).ljust(192, b"\0")
    frame[64:164] = records
    struct.pack_into("<I", frame, 0, 192)
    reseal(frame)
    place(ring, frame)


def forged_results(rng: random.Random, rig: Rig, ring: RingProducer) -> None:
    """Results that say that frames were appended, for the append that may come next."""
    frame = valid(rng, rig)
    struct.pack_into("<4q", frame, 32, 0, rng.randrange(rig.wrote + 1), 0, 1)
    place(ring, frame)


def honest(rng: random.Random, rig: Rig, ring: RingProducer) -> None:
    place(ring, valid(rng, rig))


MUTATIONS: tuple[Callable[[random.Random, Rig, RingProducer], None], ...] = (
    random_bytes,
    flipped,
    flipped_and_sealed,
    flipped_and_sealed,
    lying_header,
    lying_record,
    wrong_crc,
    foreign_queue,
    absurd_head,
    pads,
    changed_after_publish,
    own_header,
    end_of_file,
    forged_results,
    honest,
)
assert RING["tail"][1] == 8
