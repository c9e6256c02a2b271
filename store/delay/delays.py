"""Delayed messages: the progress of their delivery, and the records that are delivered.

`silomq/schedule` has four slots of 512 bytes, as `store/disk/slots.py` describes: two for the next
schedule process, two that are durable. The newest whole slot whose `scan_from` is not behind the
log's end counts: all that it calls delivered is in the log.

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
from typing import Final

import msgspec

from ...conf.digits import number
from ...conf.kinds import MAX_DELAY_LEVELS
from ..disk import slots
from ..disk.files import Folder
from ..disk.slots import Slots
from ..errors import IllegalMessage
from ..names import SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC, allows_light_queues
from ..record.copies import copy_record, without
from ..record.format import Record
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
LAYOUTS = {
    "slot": {
        "magic": (0, 8),
        "generation": (8, 8),
        "scan_from": (16, 8),
        "timer_next": (24, 8),
        "next": (32, 8 * MAX_DELAY_LEVELS),
        "crc": (32 + 8 * MAX_DELAY_LEVELS, 8),
    }
}
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"


class Progress(msgspec.Struct):
    """The progress in a slot. `scan_from` is a log offset, `timer_next` and `next` are queue
    offsets.
    """

    scan_from: int = 0
    timer_next: int = 0
    next: list[int] = msgspec.field(default_factory=lambda: [0] * MAX_DELAY_LEVELS)

    def copy(self) -> Progress:
        return Progress(self.scan_from, self.timer_next, list(self.next))


def keep_durable_slots(ours: Folder) -> None:
    """Clears the slots that only a successor in the same boot of the machine may use, durably.
    `ours` may have no slots. Raises OSError.
    """
    slots.keep_durable(ours, FILE, SLOT_SIZE)


class ProgressFile:
    """The mapped slots below the folder `ours`. Only the schedule process writes them: one of its
    threads the first two, another the durable ones. Raises OSError (ENOSPC).
    """

    def __init__(self, ours: Folder) -> None:
        self._slots = Slots(ours, FILE, MAGIC, 2 + MAX_DELAY_LEVELS, SLOT_SIZE)

    def newest(self, log_end: int) -> Progress | None:
        """The progress in the newest slot that is not ahead of a log which ends at `log_end`. Only
        slots that were there when the file was opened count; None if there is none.
        """
        found = self._slots.newest(lambda words: words[0] <= log_end)
        return None if found is None else Progress(found[0], found[1], list(found[2:]))

    def publish(self, progress: Progress) -> None:
        """Writes a slot for a successor, which survives the death of all processes."""
        self._slots.publish(_words(progress))

    def make_durable(self, progress: Progress) -> None:
        """Writes a durable slot. The caller has made durable all that `progress` counts. Raises
        OSError.
        """
        self._slots.make_durable(_words(progress))


def _words(progress: Progress) -> list[int]:
    return [progress.scan_from, progress.timer_next, *progress.next]


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


#: A time that is later counts as this (epoch ms).
_LATEST: Final = 2**62


def due_by(properties: dict[str, str]) -> int:
    """When a message of the timer topic with these properties is due, epoch ms: its
    TIMER_DELIVER_MS, the exact time. If RocketMQ stored it, its TIMER_OUT_MS, which is up to a
    second earlier. 0 without both.
    """
    for name in (TIMER_DELIVER_MS, TIMER_OUT_MS):
        value = properties.get(name, "")
        if value.isascii() and value.isdigit():
            found = number(value, _LATEST)
            return _LATEST if found is None else found
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
    properties = without(record.properties_raw, CRC32, MULTI_QUEUE_OFFSET)
    if light:
        properties += encode_light_offsets(light)
    return copy_record(
        record,
        topic,
        queue_id,
        properties,
        store_host,
        sys_flag=record.sys_flag,
        record_crc=record_crc,
    )
