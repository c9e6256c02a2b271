"""RocketMQ's `checkpoint`: the store timestamps up to which the log, the queues and the index are
durable.

The file has 4,096 bytes, of which five fields are used. After a crash RocketMQ begins its recovery
at a place that it finds by the checkpoint. This store does so only if RocketMQ wrote it last.

Layout checkpoint:

======  ====  ====  =====================  =======
offset  size  type  field                  meaning
======  ====  ====  =====================  =======
0       8     i64   physic_msg_timestamp   of the last record known to be durable, epoch ms
8       8     i64   logics_msg_timestamp   of the last record whose queue entry is durable
16      8     i64   index_msg_timestamp    last one of the last index file that is full and durable
24      8     i64   master_flushed_offset  for replication; this store writes 0
32      8     i64   confirm_phy_offset     for replication; this store writes the durable log's end
======  ====  ====  =====================  =======
"""

from __future__ import annotations

import struct

import msgspec
from msgspec.structs import astuple

from ..disk import files as disk
from ..disk.files import Folder

CHECKPOINT = "checkpoint"
CHECKPOINT_SIZE = 4096
# RocketMQ trusts its checkpoint only up to 3 s before the times in it.
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


class Checkpoint(msgspec.Struct, frozen=True):
    """The fields in the file's order: times in epoch ms, and log offsets."""

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0

    @property
    def durable_time_ms(self) -> int:
        """Records that were stored until then, epoch ms, are durable."""
        return max(0, self.physic_msg_timestamp - _MARGIN_MS)

    @property
    def safe_time_ms(self) -> int:
        """Records that were stored until then, epoch ms, are durable, and so are their queue
        entries: RocketMQ's `StoreCheckpoint.getMinTimestamp`.
        """
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - _MARGIN_MS)


def careful(physic_ms: int, logics_ms: int, index_ms: int, flushed: int) -> Checkpoint:
    """The checkpoint that this store writes, from three times (epoch ms) and the durable end of the
    log.

    After a crash RocketMQ drops index files that end later than `index_ms`, but dispatches again
    only from min(physic, logics) on. Keys in between would be missing. So the logics time is never
    later than the index time; this store does not use it itself.
    """
    return Checkpoint(physic_ms, min(logics_ms, index_ms), index_ms, 0, flushed)


def parse(data: bytes) -> Checkpoint:
    """The fields in the first bytes of the file. Raises struct.error for too few bytes."""
    return Checkpoint(*_FIELDS.unpack_from(data))


def read(root: Folder) -> Checkpoint | None:
    """The checkpoint of the store in `root`; None if there is none or it is too short."""
    try:
        with root.file(CHECKPOINT) as fd:
            data = disk.read_at(fd, _FIELDS.size, 0)
    except FileNotFoundError:
        return None
    return parse(data) if len(data) == _FIELDS.size else None


def write(root: Folder, checkpoint: Checkpoint) -> None:
    """Writes the checkpoint, durably. Raises OSError."""
    with root.file(CHECKPOINT, write=True, create=True) as fd:
        is_new = disk.size_of(fd) < CHECKPOINT_SIZE
        disk.allocate(fd, 0, CHECKPOINT_SIZE)
        disk.write_at(fd, _FIELDS.pack(*astuple(checkpoint)), 0)
        disk.sync_data(fd)
    if is_new:
        root.sync()
