"""The progress record: what is durable up to where, in `silomq/progress`. RocketMQ ignores it.

Two slots of 512 bytes, written in turn, each with a generation and a CRC-32C: a torn write leaves
the other. What a start-up after a crash must read again begins where the newest whole slot says.

Layout slot:

======  ====  ====  ==============  =======
offset  size  type  field           meaning
======  ====  ====  ==============  =======
0       8     u64   magic           "SILOPRG1"
8       8     u64   generation      the greater of two whole slots counts
16      8     u64   flushed         the commit log is durable below it
24      8     u64   clean           1: written by a clean stop, nothing lies behind
32      8     u64   dispatched      queues and index hold all below it, durably
40      8     u64   dispatch_count  queue entries written so far
48      8     u64   index_name      the index file in use, 0 = none
56      8     u64   index_count     its next entry number
64      8     u64   index_slots     its used slots
72      8     u64   begin_time      its first store timestamp, ms
80      8     u64   end_time        its last store timestamp, ms
88      8     u64   begin_offset    its first physical offset
96      8     u64   end_offset      its last physical offset
104     8     u64   store_time_ms   newest store timestamp given out
112     8     u64   physic          of RocketMQ's checkpoint as we wrote it: physicMsgTimestamp
120     8     u64   logics          the same, logicsMsgTimestamp
128     8     u64   index           the same, indexMsgTimestamp
136     8     u64   crc             CRC-32C of bytes 0..136
======  ====  ====  ==============  =======
"""

from __future__ import annotations

import struct

import crc32c

from ..disk import files as disk
from ..disk.files import Folder
from ..disk.paths import PROGRESS
from .checkpoint import Checkpoint

MAGIC = int.from_bytes(b"SILOPRG1", "little")
SLOT_SIZE = 512
FIELDS = (
    "magic",
    "generation",
    "flushed",
    "clean",
    "dispatched",
    "dispatch_count",
    "index_name",
    "index_count",
    "index_slots",
    "begin_time",
    "end_time",
    "begin_offset",
    "end_offset",
    "store_time_ms",
    "physic",
    "logics",
    "index",
    "crc",
)
LAYOUTS = {"slot": {name: (8 * i, 8) for i, name in enumerate(FIELDS)}}
_SLOT = struct.Struct(f"<{len(FIELDS)}Q")


def encode(values: dict[str, int], generation: int) -> bytes:
    """One slot's bytes; `values` holds every field but magic, generation and crc."""
    filled = values | {"magic": MAGIC, "generation": generation, "crc": 0}
    body = _SLOT.pack(*(filled[name] for name in FIELDS))[:-8]
    return body + struct.pack("<Q", crc32c.crc32c(body))


def decode(data: bytes) -> dict[str, int] | None:
    """The fields of a whole slot, None for anything else."""
    if len(data) < _SLOT.size:
        return None
    values = dict(zip(FIELDS, _SLOT.unpack_from(data), strict=True))
    whole = values["crc"] == crc32c.crc32c(data[: _SLOT.size - 8])
    return values if whole and values["magic"] == MAGIC else None


def read(ours: Folder) -> dict[str, int] | None:
    """The newest whole slot, or None: nothing is known to be durable."""
    try:
        with ours.file(PROGRESS) as fd:
            data = disk.read_at(fd, 2 * SLOT_SIZE, 0)
    except FileNotFoundError:
        return None
    found = [decode(data[at : at + SLOT_SIZE]) for at in (0, SLOT_SIZE)]
    whole = [slot for slot in found if slot is not None]
    return max(whole, key=lambda slot: slot["generation"], default=None)


def reserve(ours: Folder) -> None:
    """Takes the record's space: a disk that is full later must not stop it from being written."""
    with ours.file(PROGRESS, write=True, create=True) as fd:
        disk.allocate(fd, 0, 2 * SLOT_SIZE)
        disk.sync_data(fd)
    ours.sync()


def agrees(found: dict[str, int], checkpoint: Checkpoint) -> bool:
    """Whether RocketMQ's checkpoint is still the one that was written with this record."""
    return (found["physic"], found["logics"], found["index"]) == (
        checkpoint.physic_msg_timestamp,
        checkpoint.logics_msg_timestamp,
        checkpoint.index_msg_timestamp,
    )


class ProgressFile:
    """The record of a running store; one process writes it."""

    def __init__(self, ours: Folder) -> None:
        self.ours = ours
        found = read(ours)
        self.generation = found["generation"] if found else 0

    def write(self, values: dict[str, int]) -> None:
        """Makes `values` the durable progress. The caller has made durable what they say. Raises
        OSError.
        """
        self.generation += 1
        slot = encode(values, self.generation).ljust(SLOT_SIZE, b"\0")
        with self.ours.file(PROGRESS, write=True, create=True) as fd:
            disk.write_at(fd, slot, SLOT_SIZE * (self.generation % 2))
            disk.sync_data(fd)
        if self.generation == 1:
            self.ours.sync()
