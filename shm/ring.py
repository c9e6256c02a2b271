"""A producer's session memory: one ring that is submission queue and completion queue in one.

The registry makes the memory, which is sealed (`sealed.py`). The tables name
the writer of each field; the rows of the ring without one are written when it is made. Both
counters, `head` and `tail`, are bytes since the session began and only grow. A frame's place is its
counter modulo the capacity. Frames are multiples of 64 bytes and never wrap: a pad frame fills the
end of the ring.

The producer writes a frame, its result preset to -1, before `head` passes it. From then on append
writes the result, until `tail` passes the frame.

A client may write anything here at any time. So append takes the capacity from the registry, never
from the ring, and reads a frame's header once. Append does not use `flags`: the client itself waits
for a sync.

Layout ring:

======  ====  ====  ===============  =======
offset  size  type  field            meaning
======  ====  ====  ===============  =======
0       8     u64   magic            "SILORNG1"
8       8     u64   capacity         bytes of frames, a multiple of 4096, from 4096 on
16      8     u64   session          session number, for people who look at it
128     8     u64   head             producer: end of the last published frame
256     8     u64   producer_asleep  producer: 1 while it sleeps on `tail`
384     8     u64   tail             append: end of the last answered frame; the producer's futex
512     8     u64   closed           append: 0, or why it stopped reading this ring (a RingClosed)
520     8     u64   rejected         append: frames of this session answered with an error status
======  ====  ====  ===============  =======

Layout frame:

======  ====  ====  ===============  =======
offset  size  type  field            meaning
======  ====  ====  ===============  =======
0       4     u32   length           producer: of the whole frame, bytes, a multiple of 64
4       4     u32   kind             producer: 1 records, 2 pad
8       4     u32   crc              producer: CRC-32C of bytes 12..32, and records without bodies
12      4     u32   record_bytes     producer: length of the records, bytes
16      4     u32   count            producer: records in the frame, all for one queue
20      4     u32   queue_slot       producer: of the topic table
24      4     u32   flags            producer: 1 = wait for the sync under SYNC_FLUSH
28      4     u32   sent_us          producer: epoch us of its records, low half; 0 = not known
32      8     i64   status           append: a PutMessageStatus
40      8     i64   physical_offset  append: of the first record; -1 = no result yet
48      8     i64   queue_offset     append: of the first record
56      8     i64   store_timestamp  append: of all its records, epoch ms
======  ====  ====  ===============  =======
"""

from __future__ import annotations

import enum
import os

from . import sealed
from ._memory import Mapping
from ._words import OwnedWord, Word
from .ownership import READER, STARTUP, check_writer

MAGIC = int.from_bytes(b"SILORNG1", "little")
DATA = 4096
FRAME_HEADER = 64
ALIGNMENT = 64
KIND_RECORDS = 1
KIND_PAD = 2
MIN_CAPACITY = 65536

RING: dict[str, tuple[int, int]] = {
    "magic": (0, 8),
    "capacity": (8, 8),
    "session": (16, 8),
    "head": (128, 8),
    "producer_asleep": (256, 8),
    "tail": (384, 8),
    "closed": (512, 8),
    "rejected": (520, 8),
}
FRAME: dict[str, tuple[int, int]] = {
    "length": (0, 4),
    "kind": (4, 4),
    "crc": (8, 4),
    "record_bytes": (12, 4),
    "count": (16, 4),
    "queue_slot": (20, 4),
    "flags": (24, 4),
    "sent_us": (28, 4),
    "status": (32, 8),
    "physical_offset": (40, 8),
    "queue_offset": (48, 8),
    "store_timestamp": (56, 8),
}
LAYOUTS = {"ring": RING, "frame": FRAME}
_RESULT_FIELDS = ("status", "physical_offset", "queue_offset", "store_timestamp")
#: Layout -> field -> writer; a field that is missing is written when the ring is made.
WRITERS = {
    "ring": {
        "head": "producer",
        "producer_asleep": "producer",
        "tail": "append",
        "closed": "append",
        "rejected": "append",
    },
    "frame": {name: "append" if name in _RESULT_FIELDS else "producer" for name in FRAME},
}

assert MIN_CAPACITY % 4096 == 0
assert FRAME["store_timestamp"][0] + 8 == FRAME_HEADER


class RingClosed(enum.IntEnum):
    """Why append stopped reading a ring."""

    OPEN = 0
    BAD_FRAME = 1
    BAD_HEAD = 2
    STORE_STOPPED = 3


class Ring:
    """The words of the ring in `memory`, for a process with `role` ("producer", "append")."""

    def __init__(self, memory: Mapping, role: str = READER) -> None:
        self.memory = memory
        self.role = role

    def word(self, field: str) -> Word:
        """A word to read."""
        return Word(self.memory, RING[field][0])

    def own(self, field: str) -> OwnedWord:
        """A word to write. Raises NotTheWriter if another role writes it."""
        check_writer(f"the ring's {field}", WRITERS["ring"].get(field, STARTUP), self.role)
        return OwnedWord(self.memory, RING[field][0])


def largest_frame(capacity: int) -> int:
    """Bytes of the longest frame that fits into an empty ring at any position: half the ring,
    because frames do not wrap.
    """
    return capacity // 2 // ALIGNMENT * ALIGNMENT


def create(capacity: int, session: int) -> int:
    """A sealed memfd with an empty ring of `capacity` bytes of frames. The caller owns the
    descriptor. Raises ValueError for a capacity that is not allowed, OSError.
    """
    if capacity < MIN_CAPACITY or capacity % 4096:
        raise ValueError(f"ring capacity {capacity}: a multiple of 4096 from {MIN_CAPACITY} on")
    fd = sealed.create(f"silomq-ring-{session}", DATA + capacity)
    try:
        fresh = Ring(Mapping(fd, 0, DATA), STARTUP)
        fresh.own("capacity").store(capacity)
        fresh.own("session").store(session)
        fresh.own("magic").store(MAGIC)
    except BaseException:
        os.close(fd)
        raise
    return fd
