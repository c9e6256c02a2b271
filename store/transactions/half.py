"""Half messages: the first part of a transaction, which waits in RMQ_SYS_TRANS_HALF_TOPIC.

A half has the properties of its message, and those below. REAL_TOPIC and REAL_QID say where the
message goes when the transaction is committed. Source: RocketMQ's `TransactionalMessageBridge`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ..errors import IllegalMessage
from ..names import MAX_NAME_BYTES, SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC, TRANS_TOPICS
from ..record.copies import copy_record, without
from ..record.format import SYS_TRANSACTION, TRANSACTION_COMMIT, Record
from ..record.ids import Host
from ..record.properties import (
    CRC32,
    DELAY,
    MULTI_QUEUE_OFFSET,
    REAL_QID,
    REAL_TOPIC,
    UNIQ_KEY,
    encode_properties,
)
from ..status import PutMessageStatus

TRAN_MSG: Final = "TRAN_MSG"
PRODUCER_GROUP: Final = "PGROUP"
CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
IMMUNITY_S: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
#: The longest time without a check that a message may ask for: RocketMQ's fileReservedTime.
MOST_IMMUNITY_MS: Final = 72 * 3_600_000
_NO_GOALS: Final = frozenset((*TRANS_TOPICS, SCHEDULE_TOPIC, TIMER_TOPIC))


@dataclass(slots=True)
class Half:
    """An open transaction, as its newest half says.

    `queue_offset` is in the half queue, `offset` and `size` (bytes) are in the log. `identity` is
    shared by all halves of the transaction: each check puts one more behind the others. `older`
    are the queue offsets of halves that no op record names yet. `checks` is how often the
    producers were asked, `stored_ms` the newest half's store time, `due_ms` the next check (epoch
    ms).
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
    due_ms: int = 0
    older: list[int] = field(default_factory=list)

    @property
    def queue_offsets(self) -> list[int]:
        """The queue offsets of all its halves that are not done, ascending."""
        return [*self.older, self.queue_offset]


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
    found = record.properties
    if record.topic != TRANS_HALF_TOPIC:
        raise NotAHalf(f"the record at offset {record.physical_offset} is no half message")
    topic, queue = found.get(REAL_TOPIC, ""), found.get(REAL_QID, "")
    if not topic or topic in _NO_GOALS or len(topic) > 2 * MAX_NAME_BYTES:
        raise NotAHalf(f"the half at offset {record.physical_offset} is for no topic: {topic!a}")
    queue_id = _number(queue)
    if queue_id is None or queue_id > 2**31 - 1:
        raise NotAHalf(f"the half at offset {record.physical_offset} is for no queue: {queue!a}")
    immunity = _number(found.get(IMMUNITY_S, "")) or 0
    return Half(
        queue_offset=record.queue_offset,
        offset=record.physical_offset,
        size=record.total_size,
        group=found.get(PRODUCER_GROUP, ""),
        key=found.get(UNIQ_KEY, ""),
        topic=topic,
        queue_id=queue_id,
        identity=_identity(record),
        checks=checks_of(found),
        born_ms=record.born_timestamp,
        stored_ms=record.store_timestamp,
        immunity_ms=min(1000 * immunity, MOST_IMMUNITY_MS),
    )


def _identity(record: Record) -> bytes:
    """A digest of 16 bytes that all halves of one transaction share, and no other's."""
    found = record.properties
    key = found.get(UNIQ_KEY, "") or f"at {record.physical_offset}"
    names = (PRODUCER_GROUP, REAL_TOPIC, REAL_QID)
    numbers = (record.born_timestamp, record.flag, record.body_crc, len(record.body))
    said = "\x02".join([key, *(found.get(name, "") for name in names), *map(str, numbers)])
    return hashlib.blake2b(said.encode(), digest_size=16).digest()


def checks_of(properties: Mapping[str, str]) -> int:
    """How often the producers were asked about a half, this one included. 0 for the first half."""
    return _number(properties.get(CHECK_TIMES, "")) or 0


def _number(text: str) -> int | None:
    """A decimal number of up to 10 digits, None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None


# -- records that are made of halves. Each returns the record, and (begin, end) of its body, bytes.


def final(
    record: Record, topic: str, queue_id: int, store_host: Host, *, record_crc: bool
) -> tuple[bytes, tuple[int, int]]:
    """The committed message of a half. It leads back to the half, and keeps REAL_TOPIC, REAL_QID
    and TRAN_MSG, as in RocketMQ (`EndTransactionProcessor.endMessageTransaction`).
    """
    return copy_record(
        record,
        topic,
        queue_id,
        without(record.properties_raw, CRC32, MULTI_QUEUE_OFFSET, DELAY),
        store_host,
        sys_flag=record.sys_flag & ~SYS_TRANSACTION | TRANSACTION_COMMIT,
        prepared_transaction_offset=record.physical_offset,
        record_crc=record_crc,
    )


def checked(
    record: Record, checks: int, store_host: Host, *, record_crc: bool
) -> tuple[bytes, tuple[int, int]]:
    """The half once more, for the producers to see. `checks` counts how often that was done."""
    properties = without(record.properties_raw, CRC32, MULTI_QUEUE_OFFSET, CHECK_TIMES)
    return copy_record(
        record,
        TRANS_HALF_TOPIC,
        0,
        properties + f"{CHECK_TIMES}\x01{checks}\x02".encode(),
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
    return copy_record(
        record,
        topic,
        0,
        without(record.properties_raw, CRC32, MULTI_QUEUE_OFFSET),
        store_host,
        sys_flag=record.sys_flag & ~SYS_TRANSACTION,
        prepared_transaction_offset=record.physical_offset,
        record_crc=record_crc,
    )
