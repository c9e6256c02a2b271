"""RocketMQ's `checkpoint`: up to which store timestamps the log, the queues and the index are
durable.

The file is 4,096 bytes, of which five fields are used. RocketMQ chooses by it where an abnormal
recovery begins; this store does so for a store that another program wrote last.

Layout checkpoint:

======  ====  ====  =====================  =======
offset  size  type  field                  meaning
======  ====  ====  =====================  =======
0       8     i64   physic_msg_timestamp   of the last record known to be durable, epoch ms
8       8     i64   logics_msg_timestamp   of the last record whose queue entry is durable
16      8     i64   index_msg_timestamp    last one of the last index file that is full and durable
24      8     i64   master_flushed_offset  replication's; this store writes 0
32      8     i64   confirm_phy_offset     replication's; this store writes the durable log's end
======  ====  ====  =====================  =======
"""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass

from ..disk import files as disk
from ..disk.files import Folder

CHECKPOINT = "checkpoint"
CHECKPOINT_SIZE = 4096
# RocketMQ's distance between what it has noted and what it trusts.
_MARGIN_MS = 3000
_FIELDS = struct.Struct(">5q")
CHECKPOINT_FIELDS_SIZE = _FIELDS.size
LAYOUTS = {
    "checkpoint": {
        "physic_msg_timestamp": (0, 8),
        "logics_msg_timestamp": (8, 8),
        "index_msg_timestamp": (16, 8),
        "master_flushed_offset": (24, 8),
        "confirm_phy_offset": (32, 8),
    },
}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The fields, in the file's order."""

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0

    @property
    def durable_time_ms(self) -> int:
        """Records stored until then are durable."""
        return max(0, self.physic_msg_timestamp - _MARGIN_MS)

    @property
    def safe_time_ms(self) -> int:
        """Records stored until then are durable, and dispatched: RocketMQ's minTimestamp."""
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - _MARGIN_MS)


def careful(physic_ms: int, logics_ms: int, index_ms: int, flushed: int) -> Checkpoint:
    """What this store writes.

    After a crash RocketMQ drops index files that end later than `index_ms`, and dispatches again
    only from min(physic, logics) on: keys in between would be lost to it. So logics says no more
    than the index does (this store needs it for nothing).
    """
    return Checkpoint(physic_ms, min(logics_ms, index_ms), index_ms, 0, flushed)


def parse(data: bytes) -> Checkpoint:
    """The fields in the first bytes of the file; struct.error for too few."""
    return Checkpoint(*_FIELDS.unpack_from(data))


def read(root: Folder) -> Checkpoint | None:
    """The checkpoint of the store in `root`; None where there is none, or too few bytes of it."""
    try:
        with root.file(CHECKPOINT) as fd:
            data = disk.read_at(fd, _FIELDS.size, 0)
    except FileNotFoundError:
        return None
    return parse(data) if len(data) == _FIELDS.size else None


def write(root: Folder, checkpoint: Checkpoint) -> None:
    """Makes the checkpoint durable. Raises OSError."""
    with root.file(CHECKPOINT, write=True, create=True) as fd:
        disk.allocate(fd, 0, CHECKPOINT_SIZE)
        disk.write_at(fd, _FIELDS.pack(*astuple(checkpoint)), 0)
        disk.sync_data(fd)
