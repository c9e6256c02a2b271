"""The progress record: the offsets up to which the store is durable, in `silomq/progress`. RocketMQ
ignores it.

It has two slots of 512 bytes, written in turn, each with a generation and a CRC-32C, so a torn
write leaves the other slot whole. After a crash a start scans and dispatches the log from the
offsets in the newest whole slot.

Layout slot:

======  ====  ====  ==============  =======
offset  size  type  field           meaning
======  ====  ====  ==============  =======
0       8     u64   magic           "SILOPRG1"
8       8     u64   generation      the greater of two whole slots counts
16      8     u64   flushed         the commit log is durable below it
24      8     u64   clean           1: written by a clean stop, the log ends at `flushed`
32      8     u64   dispatched      records below it have durable queue and index entries
40      8     u64   dispatch_count  queue entries written so far
48      8     u64   index_name      the index file in use, 0 = none
56      8     u64   index_count     its next entry number
64      8     u64   index_slots     its used slots
72      8     u64   begin_time      its first store timestamp, ms
80      8     u64   end_time        its last store timestamp, ms
88      8     u64   begin_offset    its first physical offset
96      8     u64   end_offset      its last physical offset
104     8     u64   store_time_ms   newest store timestamp of a record
112     8     u64   physic          physicMsgTimestamp of the checkpoint that was written with it
120     8     u64   logics          logicsMsgTimestamp of that checkpoint
128     8     u64   index           indexMsgTimestamp of that checkpoint
136     8     u64   crc             CRC-32C of bytes 0..136
======  ====  ====  ==============  =======
"""

from __future__ import annotations

import struct

import msgspec

from ...shm._checksum import crc32c
from ...shm.progress import PROGRESS as DISPATCH_FIELDS
from ...shm.progress import Progress
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


class DurableProgress(msgspec.Struct, frozen=True):
    """The values of one slot. `physic`, `logics` and `index` are the times (epoch ms) in the
    checkpoint that this store wrote with the slot.
    """

    flushed: int = 0
    clean: bool = False
    progress: Progress = msgspec.field(default_factory=Progress)
    store_time_ms: int = 0
    physic: int = 0
    logics: int = 0
    index: int = 0

    def agrees_with(self, noted: Checkpoint) -> bool:
        """Whether a checkpoint is the one that was written with this slot. It is another one if
        RocketMQ has run on the store since.
        """
        return (self.physic, self.logics, self.index) == (
            noted.physic_msg_timestamp,
            noted.logics_msg_timestamp,
            noted.index_msg_timestamp,
        )


def encode(record: DurableProgress, generation: int) -> bytes:
    """The bytes of one slot, with its CRC."""
    values = record.progress.fields() | {
        "magic": MAGIC,
        "generation": generation,
        "flushed": record.flushed,
        "clean": int(record.clean),
        "store_time_ms": record.store_time_ms,
        "physic": record.physic,
        "logics": record.logics,
        "index": record.index,
        "crc": 0,
    }
    body = _SLOT.pack(*(values[name] for name in FIELDS))[:-8]
    return body + struct.pack("<Q", crc32c(body))


def decode(data: bytes) -> tuple[int, DurableProgress] | None:
    """The (generation, record) of a slot; None if it is not whole."""
    if len(data) < _SLOT.size:
        return None
    values = dict(zip(FIELDS, _SLOT.unpack_from(data), strict=True))
    if values["magic"] != MAGIC or values["crc"] != crc32c(data[: _SLOT.size - 8]):
        return None
    record = DurableProgress(
        flushed=values["flushed"],
        clean=bool(values["clean"]),
        progress=Progress.of(values[name] for name in DISPATCH_FIELDS),
        store_time_ms=values["store_time_ms"],
        physic=values["physic"],
        logics=values["logics"],
        index=values["index"],
    )
    return values["generation"], record


def _slots(ours: Folder) -> list[tuple[int, DurableProgress]]:
    """The (generation, record) of each whole slot, the newest first."""
    try:
        with ours.file(PROGRESS) as fd:
            data = disk.read_at(fd, 2 * SLOT_SIZE, 0)
    except FileNotFoundError:
        return []
    found = [decode(data[at : at + SLOT_SIZE]) for at in (0, SLOT_SIZE)]
    whole = [slot for slot in found if slot is not None]
    return sorted(whole, key=lambda slot: slot[0], reverse=True)


def read(ours: Folder) -> DurableProgress | None:
    """The record of the newest whole slot; None if there is none, so that nothing is known to be
    durable.
    """
    return next((record for _, record in _slots(ours)), None)


def agrees(ours: Folder, noted: Checkpoint | None) -> bool:
    """Whether `noted` is the checkpoint that this store wrote last, with the newest record or the
    one before: flush writes the record first, and may be killed in between. None stands for a
    checkpoint of zeros, which only the newest record explains.
    """
    records = [record for _, record in _slots(ours)]
    counted = records if noted else records[:1]
    return any(record.agrees_with(noted or Checkpoint()) for record in counted)


def reserve(ours: Folder) -> None:
    """Allocates the record's space, durably, so that it can be written on a full disk. Raises
    OSError.
    """
    with ours.file(PROGRESS, write=True, create=True) as fd:
        disk.allocate(fd, 0, 2 * SLOT_SIZE)
        disk.sync_data(fd)
    ours.sync()


class ProgressFile:
    """Writes the record of a running store, from one process."""

    def __init__(self, ours: Folder) -> None:
        self.ours = ours
        self.generation = max((generation for generation, _ in _slots(ours)), default=0)

    def write(self, record: DurableProgress) -> None:
        """Writes `record` into the older slot, durably. The caller has made durable all that it
        counts. Raises OSError.
        """
        self.generation += 1
        slot = encode(record, self.generation).ljust(SLOT_SIZE, b"\0")
        with self.ours.file(PROGRESS, write=True, create=True) as fd:
            disk.write_at(fd, slot, SLOT_SIZE * (self.generation % 2))
            disk.sync_data(fd)
        if self.generation == 1:
            self.ours.sync()
