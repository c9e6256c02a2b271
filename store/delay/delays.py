"""Delayed messages: the progress of their delivery, and the records that are delivered.

`silomq/schedule` has four slots of 512 bytes. The schedule process writes the first two in turn
after each step; they stay in the page cache, for its successor. It writes the last two in turn when
the deliveries in them are durable; they are for a start after a power cut. The newest whole slot
whose `scan_from` is not behind the log's end counts: all that it calls delivered is in the log.

The first two may reach the disk before the timers' files that they count on. So the first start in
another boot of the machine clears them.

Layout slot:

======  ====  ====  ==========  =======
offset  size  type  field       meaning
======  ====  ====  ==========  =======
0       8     u64   magic       "SILODLY2"
8       8     u64   generation  the greatest counts
16      8     u64   scan_from   deliveries below it are in `next` and the buckets' marks, none above
24      8     u64   timer_next  queue offset: entries of the timer topic below it are in buckets
32      384   u64   next        by level: queue offset of the first entry that is not delivered
416     8     u64   crc         CRC-32C of bytes 0..416
======  ====  ====  ==========  =======
"""

from __future__ import annotations

import hashlib
import struct
import threading
from dataclasses import dataclass, field

import crc32c

from ...conf.kinds import MAX_DELAY_LEVELS
from ...shm._memory import Mapping
from ..disk import files as disk
from ..disk.files import Folder
from ..errors import IllegalMessage
from ..names import SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC, allows_light_queues
from ..record.format import LAYOUT, Record, encode_record
from ..record.ids import Host
from ..record.properties import (
    CRC32,
    DELAY,
    MULTI_DISPATCH,
    MULTI_QUEUE_OFFSET,
    REAL_QID,
    REAL_TOPIC,
    UNIQ_KEY,
    encode_light_offsets,
    parse_light_queues,
)

FILE = "schedule"
MAGIC = int.from_bytes(b"SILODLY2", "little")
SLOT_SIZE = 512
SIZE = 4096
_SLOT = struct.Struct(f"<{4 + MAX_DELAY_LEVELS}Q")
_CRC = struct.Struct("<Q")
LAYOUTS = {
    "slot": {
        "magic": (0, 8),
        "generation": (8, 8),
        "scan_from": (16, 8),
        "timer_next": (24, 8),
        "next": (32, 8 * MAX_DELAY_LEVELS),
        "crc": (_SLOT.size, 8),
    }
}
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
_BODY_AT = sum(LAYOUT["bodyLength"]) - 8  # less the hosts' addresses
_NOT_KEPT = (CRC32.encode() + b"\x01", MULTI_QUEUE_OFFSET.encode() + b"\x01")


@dataclass(slots=True)
class Progress:
    """The progress in a slot. `scan_from` is a log offset, `timer_next` and `next` are queue
    offsets.
    """

    scan_from: int = 0
    timer_next: int = 0
    next: list[int] = field(default_factory=lambda: [0] * MAX_DELAY_LEVELS)

    def copy(self) -> Progress:
        return Progress(self.scan_from, self.timer_next, list(self.next))


def keep_durable_slots(ours: Folder) -> None:
    """Clears the slots that only a successor in the same boot of the machine may use, durably.
    `ours` may have no slots. Raises OSError.
    """
    try:
        with ours.file(FILE, write=True) as fd:
            disk.write_at(fd, bytes(2 * SLOT_SIZE), 0)
            disk.sync_data(fd)
    except FileNotFoundError:
        return


class ProgressFile:
    """The mapped slots below the folder `ours`. Only the schedule process writes them: one of its
    threads the first two, another the durable ones. Raises OSError (ENOSPC).
    """

    def __init__(self, ours: Folder) -> None:
        with ours.file(FILE, write=True, create=True) as fd:
            disk.allocate(fd, 0, SIZE)
            self._mapping: Mapping = disk.map_file(fd, 0, SIZE, writable=True)
        ours.sync()
        self._view = memoryview(self._mapping)
        found = [self._read(slot) for slot in range(4)]
        self._slots = [slot for slot in found if slot is not None]
        self._generation = max((generation for generation, _ in self._slots), default=0)
        self._live = self._durable = 0
        self._lock = threading.Lock()

    def _read(self, slot: int) -> tuple[int, Progress] | None:
        at = SLOT_SIZE * slot
        data = bytes(self._view[at : at + _SLOT.size + _CRC.size])
        magic, generation, scan_from, timer_next, *following = _SLOT.unpack_from(data)
        whole = _CRC.unpack_from(data, _SLOT.size)[0] == crc32c.crc32c(data[: _SLOT.size])
        if magic != MAGIC or not whole:
            return None
        return generation, Progress(scan_from, timer_next, following)

    def newest(self, log_end: int) -> Progress | None:
        """The progress in the newest slot that is not ahead of a log which ends at `log_end`. Only
        slots that were there when the file was opened count; None if there is none.
        """
        known = [slot for slot in self._slots if slot[1].scan_from <= log_end]
        return max(known, key=lambda slot: slot[0])[1].copy() if known else None

    def publish(self, progress: Progress) -> None:
        """Writes a slot for a successor, which survives the death of all processes."""
        self._live = 1 - self._live
        self._write(self._live, progress)

    def make_durable(self, progress: Progress) -> None:
        """Writes a durable slot. The caller has made durable all that `progress` counts. Raises
        OSError.
        """
        self._durable = 1 - self._durable
        self._write(2 + self._durable, progress)
        disk.sync_range(self._mapping, 0, SIZE)

    def _write(self, slot: int, progress: Progress) -> None:
        with self._lock:
            self._generation += 1
            generation = self._generation
        body = _SLOT.pack(
            MAGIC, generation, progress.scan_from, progress.timer_next, *progress.next
        )
        data = body + _CRC.pack(crc32c.crc32c(body))
        self._view[SLOT_SIZE * slot : SLOT_SIZE * slot + len(data)] = data


def identity(record: Record) -> bytes:
    """A digest of 16 bytes that a delayed message shares with its delivery, but not with another
    message of the same producer.

    It depends neither on the order of properties nor on further ones, so it also fits deliveries by
    RocketMQ.
    """
    found = record.properties
    parts = [found.get(name, "") for name in (UNIQ_KEY, REAL_TOPIC, REAL_QID, DELAY, TIMER_OUT_MS)]
    numbers = (
        record.born_timestamp,
        record.reconsume_times,
        record.flag,
        record.body_crc,
        len(record.body),
    )
    said = "\x02".join([*parts, *map(str, numbers)])
    return hashlib.blake2b(said.encode(), digest_size=16).digest()


def due_ms(record: Record) -> int:
    """When a message of the timer topic is due, epoch ms; see `due_by`."""
    return due_by(record.properties)


def due_by(properties: dict[str, str]) -> int:
    """When a message of the timer topic with these properties is due, epoch ms: its
    TIMER_DELIVER_MS, the exact time. If RocketMQ stored it, its TIMER_OUT_MS, which is up to a
    second earlier. 0 without both.
    """
    for name in (TIMER_DELIVER_MS, TIMER_OUT_MS):
        value = properties.get(name, "")
        if value.isascii() and value.isdigit():
            return min(int(value), 2**62)
    return 0


def destination(record: Record) -> tuple[str, int] | None:
    """The (topic, queue id) to which a delayed message is delivered; None if it names none, or a
    topic to which no message is delivered.
    """
    topic = record.properties.get(REAL_TOPIC, "")
    queue = record.properties.get(REAL_QID, "")
    if topic in ("", SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC):
        return None
    if not (queue.isascii() and queue.isdigit() and len(queue) < 10):
        return None
    return topic, int(queue)


def light_queues(record: Record) -> tuple[str, ...]:
    """The light queues that a delayed message names, if it may be put into them all: RocketMQ
    numbers a message there when it is delivered.
    """
    text = record.properties.get(MULTI_DISPATCH)
    if text is None or not allows_light_queues(record.properties.get(REAL_TOPIC, "")):
        return ()
    try:
        return parse_light_queues(text)
    except IllegalMessage:
        return ()


def restore(
    record: Record,
    topic: str,
    queue_id: int,
    store_host: Host,
    *,
    light: int = 0,
    record_crc: bool,
) -> tuple[bytes, tuple[int, int]]:
    """The record to deliver, and (begin, end) of the body in it, bytes.

    It follows RocketMQ's `ScheduleMessageService.messageTimeup`: it keeps the property string with
    DELAY, REAL_TOPIC and REAL_QID, the flags, the time and host of birth, and reconsumeTimes. It
    has room for its offsets in so many `light` queues. With `record_crc` it has a checksum of the
    whole record. Raises IllegalMessage if it does not fit into a record.
    """
    kept = record.properties_raw.split(b"\x02")
    properties = b"\x02".join(pair for pair in kept if not pair.startswith(_NOT_KEPT))
    if light:
        separator = b"" if properties.endswith(b"\x02") else b"\x02"
        properties += separator + encode_light_offsets(light)
    made = encode_record(
        topic=topic.encode(),
        body=record.body,
        properties=properties,
        queue_id=queue_id,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=store_host,
        reconsume_times=record.reconsume_times,
        record_crc=record_crc,
        max_message_size=2**31 - 1 - 65536,
    )
    body_at = _BODY_AT + len(record.born_host.address) + len(store_host.address)
    return made, (body_at, body_at + len(record.body))
