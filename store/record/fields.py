"""Reads single fields from a record's bytes, for callers that do not need the whole record.

These functions check nothing. The caller knows that a record begins at the position, or checks the
values that it gets.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from .format import (
    LAYOUT,
    MAGIC_V1,
    MAGIC_V2,
    SYS_BORN_V6,
    SYS_STORE_V6,
    SYS_TRANSACTION,
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    ReadBuffer,
)

#: How many bytes an IPv6 address is longer than the IPv4 address of the layout.
IPV6_MORE: Final = 12
_FIXED: Final = struct.Struct(">iIiiiqqi")
_MAGIC_AT, _MAGIC_SIZE = LAYOUT["magic"]
_BODY_LENGTH = struct.Struct(">i")
_BODY_LENGTH_AT = LAYOUT["bodyLength"][0]
_TIME_AT, _TIME_SIZE = LAYOUT["storeTimestamp"]
#: The bytes at a record's beginning that hold all fields which this module reads.
HEAD_BYTES: Final = _TIME_AT + IPV6_MORE + _TIME_SIZE
assert _FIXED.size == sum(LAYOUT["sysFlag"])


class Head(NamedTuple):
    """The first fields of a record, whose places do not depend on the length of its hosts."""

    total_size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int

    @property
    def is_record(self) -> bool:
        """Whether the magic is that of a message's record."""
        return self.magic in (MAGIC_V1, MAGIC_V2)


def head_of(buffer: ReadBuffer, position: int = 0) -> Head:
    """The head of the record at a position. Raises struct.error if the buffer is too short."""
    return Head._make(_FIXED.unpack_from(buffer, position))


def with_more_reconsume_times(record: bytes, more: int) -> bytes:
    """A whole record that says it was consumed without success so many times more."""
    begin, end = _reconsume_times_at(record)
    times = min(reconsume_times_of(record) + more, 2**31 - 1)
    return record[:begin] + times.to_bytes(end - begin, "big", signed=True) + record[end:]


def reconsume_times_of(record: bytes) -> int:
    """How often a whole record says that it was consumed without success."""
    begin, end = _reconsume_times_at(record)
    return int.from_bytes(record[begin:end], "big", signed=True)


def _reconsume_times_at(record: bytes) -> tuple[int, int]:
    sys_flag = head_of(record).sys_flag
    shift = IPV6_MORE * (bool(sys_flag & SYS_BORN_V6) + bool(sys_flag & SYS_STORE_V6))
    at, size = LAYOUT["reconsumeTimes"]
    return at + shift, at + shift + size


class QueuePlace(NamedTuple):
    """The bytes of a record, and its place in a queue. A record that gets no queue entry (a half
    message, a rollback) is not `queued`.
    """

    size: int
    queued: bool
    topic: bytes
    queue_id: int
    queue_offset: int


def queue_place_of(buffer: ReadBuffer, position: int = 0) -> QueuePlace:
    """Size and place of the whole record at a position. Raises struct.error if it is not there."""
    head = head_of(buffer, position)
    shift = IPV6_MORE * (bool(head.sys_flag & SYS_BORN_V6) + bool(head.sys_flag & SYS_STORE_V6))
    at = position + _BODY_LENGTH_AT + shift
    at += _BODY_LENGTH.size + _BODY_LENGTH.unpack_from(buffer, at)[0]
    length_size = 1 if head.magic == MAGIC_V1 else 2
    length = int.from_bytes(buffer[at : at + length_size], "big")
    at += length_size
    return QueuePlace(
        head.total_size,
        head.sys_flag & SYS_TRANSACTION in (TRANSACTION_NONE, TRANSACTION_COMMIT),
        bytes(buffer[at : at + length]),
        head.queue_id,
        head.queue_offset,
    )


def magic_of(buffer: ReadBuffer, position: int = 0) -> int:
    """The magic of the record, or of the end-of-file record, at a position."""
    at = position + _MAGIC_AT
    return int.from_bytes(buffer[at : at + _MAGIC_SIZE], "big")


def store_time_of(buffer: ReadBuffer, position: int = 0) -> int:
    """The store timestamp (epoch ms) of the record at a position. The buffer must hold its first
    HEAD_BYTES.
    """
    shift = IPV6_MORE if head_of(buffer, position).sys_flag & SYS_BORN_V6 else 0
    at = position + _TIME_AT + shift
    return int.from_bytes(buffer[at : at + _TIME_SIZE], "big", signed=True)
