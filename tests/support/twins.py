"""Plain-Python twins of the compiled kernel: append, dispatch to queues, index.

Each does in the plainest way what a kernel function does fast, from the same inputs to the same
bytes, by the rules of RocketMQ (reference 2.2, 2.7, 4.2, 5.1-5.4). They are for tests; nothing
ships them.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from support.plain_records import encode_blank, is_blank, patch_record

from silomq.store.names import SCHEDULE_TOPIC
from silomq.store.record.format import (
    BLANK_BYTES,
    SYS_TRANSACTION,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    Record,
    decode_record,
)
from silomq.store.record.javahash import index_key_hash, java_parse_int, tags_code
from silomq.store.record.properties import (
    DELAY,
    MULTI_DISPATCH,
    MULTI_QUEUE_OFFSET,
    index_keys,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Queue = tuple[str, int]

_S, _M, _H = 1000, 60_000, 3_600_000
#: RocketMQ's messageDelayLevel: level 1 is the first, in milliseconds.
DELAY_LEVELS_MS = (
    1 * _S, 5 * _S, 10 * _S, 30 * _S, 1 * _M, 2 * _M, 3 * _M, 4 * _M, 5 * _M,
    6 * _M, 7 * _M, 8 * _M, 9 * _M, 10 * _M, 20 * _M, 30 * _M, 1 * _H, 2 * _H,
)  # fmt: skip


class AppendMessageStatus(enum.IntEnum):
    """What RocketMQ's append to the active file answers, numbered as there."""

    PUT_OK = 0
    END_OF_FILE = 1
    MESSAGE_SIZE_EXCEEDED = 2
    PROPERTIES_SIZE_EXCEEDED = 3
    UNKNOWN_ERROR = 4
    ROCKSDB_ERROR = 5


class Appended(NamedTuple):
    """What became of one frame: offsets of its first record, bytes and number of its records."""

    status: AppendMessageStatus
    physical_offset: int = -1
    queue_offset: int = -1
    wrote_bytes: int = 0
    message_num: int = 0


def split_frame(frame: bytes) -> list[int]:
    """Positions of the records in a frame, which holds one or more of them without gaps."""
    positions, at = [], 0
    while at < len(frame):
        positions.append(at)
        at += decode_record(frame, at).total_size
    return positions


def twin_append(
    log: bytearray,
    file_size: int,
    wrote: int,
    table: dict[Queue, int],
    frames: Iterable[bytes],
    *,
    store_timestamp: int,
    record_crc: bool = False,
) -> tuple[int, list[Appended]]:
    """Append `frames` at address `wrote`; returns the new `wrote` and a result for each frame.

    `log` begins at address 0 and grows by whole files of zeros. A frame's records go to one queue
    and into one file: if they and 8 bytes do not fit into what is left of it, an end-of-file record
    closes the file (only its 8 bytes are written) and all of them go to the next. Prepared and
    rollback records get queue offset 0 and do not move the queue. A frame that fits no file is
    refused and nothing is written: RocketMQ would close a file for it, and fail then.
    """
    results: list[Appended] = []
    for frame in frames:
        if len(frame) + BLANK_BYTES > file_size:
            results.append(Appended(AppendMessageStatus.MESSAGE_SIZE_EXCEEDED))
            continue
        left = file_size - wrote % file_size
        if len(frame) + BLANK_BYTES > left:
            _grow(log, wrote + left)
            log[wrote : wrote + BLANK_BYTES] = encode_blank(left)
            wrote += left
        _grow(log, (wrote // file_size + 1) * file_size)
        log[wrote : wrote + len(frame)] = frame
        first = -1
        positions = split_frame(frame)
        for at in positions:
            record = decode_record(frame, at)
            queue = (record.topic, record.queue_id)
            counted = has_queue_offset(record.sys_flag)
            queue_offset = table.get(queue, 0) if counted else 0
            first = queue_offset if at == 0 else first
            _number_lights(log, wrote + at, record, table)
            patch_record(
                log, wrote + at, queue_offset, wrote + at, store_timestamp, record_crc=record_crc
            )
            if counted:
                table[queue] = queue_offset + 1
        results.append(
            Appended(AppendMessageStatus.PUT_OK, wrote, first, len(frame), len(positions))
        )
        wrote += len(frame)
    return wrote, results


def _number_lights(log: bytearray, at: int, record: Record, table: dict[Queue, int]) -> None:
    """Fills in the offsets in light queues, of 19 digits each, where a record has room for them."""
    room = record.properties.get(MULTI_QUEUE_OFFSET, "")
    if set(room.split(",")) != {"0" * 19}:
        return  # made by RocketMQ
    numbers = []
    for name in record.properties[MULTI_DISPATCH].split(","):
        numbers.append(f"{table.get((name, 0), 0):019d}")
        table[name, 0] = table.get((name, 0), 0) + 1
    begin = log.index(f"{MULTI_QUEUE_OFFSET}\x01{room}".encode(), at) + len(MULTI_QUEUE_OFFSET) + 1
    log[begin : begin + len(room)] = ",".join(numbers).encode()


def has_queue_offset(sys_flag: int) -> bool:
    """Whether a record stands in its queue: all but prepared and rollback ones do."""
    return sys_flag & SYS_TRANSACTION not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)


def _grow(log: bytearray, size: int) -> None:
    log.extend(bytes(max(0, size - len(log))))


def walk(log: bytes, file_size: int, start: int = 0, end: int | None = None) -> Iterator[Record]:
    """The records of `log`, which begins at address `start`, until `end` or the first zeros."""
    at, end = start, start + len(log) if end is None else end
    while at < end:
        position = at - start
        left = file_size - at % file_size
        if is_blank(log, position, left):
            at += left
        elif not any(log[position + 4 : position + 8]):
            return
        else:
            record = decode_record(log, position, position + left)
            yield record
            at += record.total_size


class QueueEntry(NamedTuple):
    physical_offset: int
    size: int
    tags_code: int

    def pack(self) -> bytes:
        """The 20 bytes of the consume-queue entry."""
        return struct.pack(">qiq", *self)


def twin_dispatch(
    records: Iterable[Record], delay_levels_ms: tuple[int, ...] = DELAY_LEVELS_MS
) -> dict[Queue, dict[int, QueueEntry]]:
    """The queue entries of `records`: queue -> queue offset -> entry."""
    queues: dict[Queue, dict[int, QueueEntry]] = {}
    for record in records:
        if has_queue_offset(record.sys_flag):
            entry = QueueEntry(
                record.physical_offset, record.total_size, entry_code(record, delay_levels_ms)
            )
            queues.setdefault((record.topic, record.queue_id), {})[record.queue_offset] = entry
            _dispatch_light(record, entry, queues)
    return queues


def _dispatch_light(
    record: Record, entry: QueueEntry, queues: dict[Queue, dict[int, QueueEntry]]
) -> None:
    """Adds a record's entry to the light queues that it names (reference 4.12 with 4.4)."""
    if record.topic.startswith(("%RETRY%", "rmq_sys_")) or record.topic == SCHEDULE_TOPIC:
        return
    names = record.properties.get(MULTI_DISPATCH, "").rstrip(",").split(",")
    said = record.properties.get(MULTI_QUEUE_OFFSET, "").rstrip(",").split(",")
    if len(names) != len(said):
        return
    for name, number in zip(names, said, strict=True):
        if "/" in name or not number.isdigit():
            continue
        queue = (name, 0 if name.startswith("%LMQ%") else record.queue_id)
        entries = queues.setdefault(queue, {})
        end = max(entries, default=-1) + 1
        if entries and entries[end - 1].physical_offset >= record.physical_offset:
            continue
        if int(number) == 0 or int(number) >= end:
            entries[end if entries else int(number)] = entry


def entry_code(record: Record, delay_levels_ms: tuple[int, ...]) -> int:
    """The hash of the tags, or the time of delivery of a delayed message (reference 4.2)."""
    delay = record.properties.get(DELAY)
    if record.topic == SCHEDULE_TOPIC and delay is not None:
        level = min(java_parse_int(delay), len(delay_levels_ms))
        if level > 0:
            return record.store_timestamp + delay_levels_ms[level - 1]
    return tags_code(record.tags)


@dataclass
class IndexFileTwin:
    """One index file; `count_puts` lets hashSlotCount count entries, as RocketMQ < 4.7.1 does."""

    slots: int
    entries: int
    begin_phy: int = 0
    begin_timestamp: int = 0
    end_phy: int = 0
    end_timestamp: int = 0
    count_puts: bool = False
    hash_slot_count: int = 0
    index_count: int = 1
    data: bytearray = field(init=False)

    def __post_init__(self) -> None:
        self.data = bytearray(40 + 4 * self.slots + 20 * self.entries)

    @property
    def full(self) -> bool:
        return self.index_count >= self.entries

    def put(self, key_hash: int, phy: int, store_timestamp: int) -> bool:
        """One entry (reference 5.2); False when the file is full."""
        if self.full:
            return False
        slot_at = 40 + 4 * (key_hash % self.slots)
        (prev,) = struct.unpack_from(">i", self.data, slot_at)
        if not 0 < prev <= self.index_count:
            prev = 0
        span = store_timestamp - self.begin_timestamp
        # A negative span is 0 in the end, so Java's truncating division needs no care here.
        diff = min(max(span // 1000, 0), 0x7FFFFFFF) if self.begin_timestamp > 0 else 0
        entry_at = 40 + 4 * self.slots + 20 * self.index_count
        struct.pack_into(">iqii", self.data, entry_at, key_hash, phy, diff, prev)
        struct.pack_into(">i", self.data, slot_at, self.index_count)
        if self.index_count <= 1:
            self.begin_phy, self.begin_timestamp = phy, store_timestamp
        if prev == 0 or self.count_puts:
            self.hash_slot_count += 1
        self.index_count += 1
        self.end_phy, self.end_timestamp = phy, store_timestamp
        return True

    def bytes(self) -> bytes:
        """The whole file, as it is after its header was written."""
        struct.pack_into(
            ">qqqqii", self.data, 0, self.begin_timestamp, self.end_timestamp,
            self.begin_phy, self.end_phy, self.hash_slot_count, self.index_count,
        )  # fmt: skip
        return bytes(self.data)


def twin_index(
    records: Iterable[Record],
    slots: int,
    entries: int,
    *,
    files: list[IndexFileTwin] | None = None,
    count_puts: bool = False,
) -> list[IndexFileTwin]:
    """The index files of `records` (reference 5.3, 5.4); `files` are those that exist already.

    `entries` is maxIndexNum: entry 0 is never used, so a file takes one less. A new file's begin
    and end are preset from the end of the one before, and its first entry's time is measured
    against that. A file is opened for each record that comes to a full one, also for a record
    without keys.
    """
    files = files if files is not None else []

    def last() -> IndexFileTwin:
        if not files or files[-1].full:
            file = IndexFileTwin(slots, entries, count_puts=count_puts)
            if files:
                before = files[-1]
                file.begin_phy = file.end_phy = before.end_phy
                file.begin_timestamp = file.end_timestamp = before.end_timestamp
            files.append(file)
        return files[-1]

    for record in records:
        file = last()
        if record.physical_offset < file.end_phy:
            continue
        if record.transaction_type == TRANSACTION_ROLLBACK:
            continue
        for key in index_keys(record.properties):
            key_hash = index_key_hash(record.topic, key)
            while not file.put(key_hash, record.physical_offset, record.store_timestamp):
                file = last()
    return files
