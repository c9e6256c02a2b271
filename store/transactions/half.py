"""Half messages: the first part of a transaction, which waits in RMQ_SYS_TRANS_HALF_TOPIC.

A half has the properties of its message, and those below. REAL_TOPIC and REAL_QID say where the
message goes when the transaction is committed. A half that is put once more also has
TRAN_FIRST_HALF, a property of ours: the log offset of the transaction's first half, a space, and
its store time (epoch ms). Source: RocketMQ's `TransactionalMessageBridge`.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from typing import Final

import msgspec

from ..errors import IllegalMessage
from ..names import MAX_NAME_BYTES, SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC, TRANS_TOPICS
from ..record.copies import copy_record, without
from ..record.format import SYS_TRANSACTION, TRANSACTION_COMMIT, Record, masked_crc32
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
    encode_properties,
)
from ..status import PutMessageStatus
from ._parts import parts

TRAN_MSG: Final = "TRAN_MSG"
PRODUCER_GROUP: Final = "PGROUP"
CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
IMMUNITY_S: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
#: In halves that RocketMQ puts once more before their first check: the queue offset of the half
#: whose place they take. No op record of RocketMQ names that one, unless the transaction has ended.
#: Their TRANSACTION_CHECK_TIMES counts looks of RocketMQ's, not questions.
COPY_OF: Final = "TRAN_PREPARED_QUEUE_OFFSET"
FIRST_HALF: Final = "TRAN_FIRST_HALF"
#: The longest time without a check that a message may ask for: RocketMQ's fileReservedTime.
MOST_IMMUNITY_MS: Final = 72 * 3_600_000
#: RocketMQ's longest name of a group. A longer one is none.
MOST_GROUP: Final = 255
_MOST_KEY: Final = 255
#: The properties that make a half, in the order in which `_half` takes them.
_NAMES: Final = (
    *(REAL_TOPIC, REAL_QID, PRODUCER_GROUP, IMMUNITY_S, COPY_OF, UNIQ_KEY, CHECK_TIMES),
    FIRST_HALF,
)
_RAW_NAMES: Final = tuple(name.encode() for name in _NAMES)
#: What decides quickly that a half is no open one's, as `_parts.screen` takes it.
RAW_KEYS: Final = (PRODUCER_GROUP.encode(), UNIQ_KEY.encode())
_NO_GOALS: Final = frozenset((*TRANS_TOPICS, SCHEDULE_TOPIC, TIMER_TOPIC))


class Half(msgspec.Struct):
    """An open transaction, as its newest half says.

    `queue_offset` is in the half queue, `offset` and `size` (bytes) are in the log. `identity` is
    shared by all halves of the transaction: each check puts one more behind the others. `older`
    are the queue offsets of halves that no op record names yet. `checks` is how often the
    producers were asked. `stored_ms` is the newest half's store time, `first_ms` that of the first
    one, `due_ms` the next check (epoch ms). `copy_of` is RocketMQ's COPY_OF, or -1. `token` is a
    hash of what is quickly compared of the identity, equal for all halves of the transaction.
    """

    queue_offset: int
    offset: int
    size: int
    group: str
    key: str
    topic: str
    queue_id: int
    identity: bytes
    checks: int
    born_ms: int
    stored_ms: int
    immunity_ms: int
    first_ms: int = 0
    copy_of: int = -1
    token: int = 0
    due_ms: int = 0
    older: list[int] = []

    @property
    def queue_offsets(self) -> list[int]:
        """The queue offsets of all its halves that are not done, ascending."""
        return sorted([*self.older, self.queue_offset])


class NotAHalf(IllegalMessage):
    """A record of the half topic from which no message can be made. The text says why."""

    def __init__(self, why: str) -> None:
        super().__init__(PutMessageStatus.MESSAGE_ILLEGAL, why)


def encode_half(topic: str, queue_id: int, group: str, immunity_s: int = 0) -> bytes:
    """The property pairs that make a message for a queue of `topic` the half of a transaction of
    the producer group `group`. Its producers are not asked about it for `immunity_s`, or as long as
    the store waits if that is 0.
    """
    pairs = {TRAN_MSG: "true", PRODUCER_GROUP: group}
    if immunity_s:
        pairs[IMMUNITY_S] = str(immunity_s)
    return encode_properties({**pairs, REAL_TOPIC: topic, REAL_QID: str(queue_id)})


def read_half(record: Record) -> Half:
    """The transaction of a record of the half topic. Raises NotAHalf."""
    place = (record.queue_offset, record.physical_offset, record.total_size)
    if record.topic != TRANS_HALF_TOPIC:
        raise NotAHalf(f"the record at offset {record.physical_offset} is no half message")
    found = [record.properties.get(name, "") for name in _NAMES]
    times = (record.born_timestamp, record.store_timestamp)
    return _half(place, found, times, record.body_crc, record.body)


def half_in(memory: memoryview, at: int, place: tuple[int, int, int]) -> Half | None:
    """The same from position `at` of mapped memory, without decoding all of the record. `place` is
    the queue offset, the log offset and the size that the half's queue entry tells. None if only
    `decode_record` can tell what is wrong. Raises NotAHalf.
    """
    found = parts(memory, at, place[2], _RAW_NAMES)
    if found is None:
        return None
    topic, born_ms, stored_ms, body_crc, begin, end, values = found
    body = memory[begin:end]
    if masked_crc32(body) != body_crc:
        return None
    if topic != TRANS_HALF_TOPIC:
        raise NotAHalf(f"the record at offset {place[1]} is no half message")
    return _half(place, values, (born_ms, stored_ms), body_crc, body)


def _half(
    place: tuple[int, int, int],
    found: list[str],
    times: tuple[int, int],
    body_crc: int,
    body: bytes | memoryview,
) -> Half:
    queue_offset, offset, size = place
    topic, queue, group, immunity_s, copy, key, checks, first = found
    born_ms, stored_ms = times
    if not topic or topic in _NO_GOALS or len(topic) > 2 * MAX_NAME_BYTES:
        raise NotAHalf(f"the half at offset {offset} is for no topic: {topic!a}")
    queue_id = _number(queue)
    if queue_id is None or queue_id > 2**31 - 1:
        raise NotAHalf(f"the half at offset {offset} is for no queue: {queue!a}")
    if len(group) > MOST_GROUP:
        raise NotAHalf(f"the half at offset {offset} is of no group")
    copy_of = _number(copy)
    first_offset, first_ms = _first_half(first, offset, times, copied=bool(copy))
    # A digest of 16 bytes that all halves of one transaction share, and no other's. RocketMQ
    # forgets the flag of a message when it puts its half once more, so the flag does not count.
    said = f"{key or f'at {first_offset}'}\x02{group}\x02{topic}\x02{queue}\x02{born_ms}\x02"
    digest = hashlib.blake2b(said.encode(), digest_size=16)
    digest.update(body)
    return Half(
        queue_offset=queue_offset,
        offset=offset,
        size=size,
        group=sys.intern(group),
        key=key[:_MOST_KEY],
        topic=sys.intern(topic),
        queue_id=queue_id,
        identity=digest.digest(),
        checks=0 if copy_of is not None else _number(checks) or 0,
        born_ms=born_ms,
        stored_ms=stored_ms,
        immunity_ms=min(1000 * (_number(immunity_s) or 0), MOST_IMMUNITY_MS),
        first_ms=first_ms,
        copy_of=-1 if copy_of is None else copy_of,
        token=hash((key.encode(), born_ms, body_crc & 0xFFFFFFFF)),
    )


def first_half(record: Record) -> tuple[int, int]:
    """(log offset, store time in epoch ms) of the first half of a half's transaction."""
    found = record.properties
    times = (record.born_timestamp, record.store_timestamp)
    return _first_half(
        found.get(FIRST_HALF, ""), record.physical_offset, times, copied=COPY_OF in found
    )


def _first_half(text: str, offset: int, times: tuple[int, int], *, copied: bool) -> tuple[int, int]:
    born_ms, stored_ms = times
    if text:
        first, _, since = text.partition(" ")
        if all(part.isascii() and part.isdigit() and len(part) < 19 for part in (first, since)):
            return int(first), min(int(since), stored_ms)
    if copied:  # RocketMQ counts from the time of birth
        return offset, min(born_ms, stored_ms)
    return offset, stored_ms


def checks_of(properties: Mapping[str, str]) -> int:
    """How often the producers were asked about a half, this one included. 0 for the first half."""
    return _number(properties.get(CHECK_TIMES, "")) or 0


def _number(text: str) -> int | None:
    """A decimal number of up to 10 digits, None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None


# -- records that are made of halves. Each returns the record, and (begin, end) of its body, bytes.


def final(
    record: Record,
    topic: str,
    queue_id: int,
    store_host: Host,
    *,
    light: int = 0,
    record_crc: bool,
) -> tuple[bytes, tuple[int, int]]:
    """The committed message of a half. It leads back to the half, and keeps REAL_TOPIC, REAL_QID
    and TRAN_MSG, as in RocketMQ (`EndTransactionProcessor.endMessageTransaction`). It has room for
    its offsets in so many `light` queues.
    """
    dropped = (CRC32, MULTI_QUEUE_OFFSET, DELAY, FIRST_HALF, *(() if light else (MULTI_DISPATCH,)))
    properties = without(record.properties_raw, *dropped)
    return copy_record(
        record,
        topic,
        queue_id,
        properties + (encode_light_offsets(light) if light else b""),
        store_host,
        sys_flag=record.sys_flag & ~SYS_TRANSACTION | TRANSACTION_COMMIT,
        prepared_transaction_offset=record.physical_offset,
        record_crc=record_crc,
    )


def checked(
    record: Record, checks: int, store_host: Host, *, record_crc: bool
) -> tuple[bytes, tuple[int, int]]:
    """The half once more. `checks` counts how often its producers were asked: they are asked now if
    that is more than before. It is no copy in RocketMQ's sense (COPY_OF): an op record names the
    half before it. The half topic has no light queues, so it does not name any.
    """
    dropped = (CRC32, MULTI_QUEUE_OFFSET, MULTI_DISPATCH, CHECK_TIMES, COPY_OF, FIRST_HALF)
    offset, stored = first_half(record)
    properties = without(record.properties_raw, *dropped)
    properties += f"{FIRST_HALF}\x01{offset} {stored}\x02".encode()
    if checks:
        properties += f"{CHECK_TIMES}\x01{checks}\x02".encode()
    return copy_record(
        record,
        TRANS_HALF_TOPIC,
        0,
        properties,
        store_host,
        sys_flag=record.sys_flag & ~SYS_TRANSACTION,
        record_crc=record_crc,
    )


def discarded(
    record: Record, topic: str, store_host: Host, *, record_crc: bool
) -> tuple[bytes, tuple[int, int]]:
    """The copy of a half that nobody has decided about, for `topic`. It leads back to the half,
    so that a successor does not discard it again.
    """
    dropped = (CRC32, MULTI_QUEUE_OFFSET, MULTI_DISPATCH, COPY_OF, FIRST_HALF)
    return copy_record(
        record,
        topic,
        0,
        without(record.properties_raw, *dropped),
        store_host,
        sys_flag=record.sys_flag & ~SYS_TRANSACTION,
        prepared_transaction_offset=record.physical_offset,
        record_crc=record_crc,
    )
