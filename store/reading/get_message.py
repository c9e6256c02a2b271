"""Reads a batch of a queue by the rules of RocketMQ's `DefaultMessageStore.getMessage`. These are
functions over plain values; the callers map the files.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Generic, Protocol, Self, TypeVar

import msgspec

from ..consumequeue.queue import ENTRY_SIZE, LEAST_TAGS_CODE
from ..errors import Corrupt
from ..record.format import MAGIC_V1, MAGIC_V2
from ..status import GetMessageStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...conf.settings import Settings

#: RocketMQ's maxFilterMessageSize: a read may examine at least so many bytes of entries.
SCAN_BYTES: Final = 16_000
#: RocketMQ's bounds of the limit on bytes that a caller passes.
LEAST_BYTES: Final = 100
MOST_BYTES: Final = 128 * 1024 * 1024
_MACHINE_BYTES: Final = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
_MAGICS: Final = frozenset(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2))


class Transfer(msgspec.Struct, frozen=True):
    """RocketMQ's limits of one read, in bytes and messages: a pair for messages in memory, and one
    for older messages on disk.

    The last bytes of the log count as in memory: as many as `memory_ratio` % of the machine's
    memory. `batch` is the most messages that a query by key returns by RocketMQ's rules.
    """

    memory_ratio: int
    bytes_in_memory: int
    count_in_memory: int
    bytes_on_disk: int
    count_on_disk: int
    batch: int

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The limits that these settings name."""
        return cls(
            memory_ratio=settings.access_message_in_memory_max_ratio,
            bytes_in_memory=settings.max_transfer_bytes_on_message_in_memory,
            count_in_memory=settings.max_transfer_count_on_message_in_memory,
            bytes_on_disk=settings.max_transfer_bytes_on_message_in_disk,
            count_on_disk=settings.max_transfer_count_on_message_in_disk,
            batch=settings.max_msgs_num_batch,
        )

    def is_in_memory(self, distance: int) -> bool:
        """Whether a record `distance` bytes before the log's end counts as in memory."""
        return distance <= _MACHINE_BYTES * self.memory_ratio // 100


V = TypeVar("V")
M_contra = TypeVar("M_contra", contravariant=True)


class Filter(Protocol[M_contra]):
    """Chooses messages: by the tags code (int32) in the queue entry, then by the message itself.

    If `codes` is None, every code is accepted. `matches` is called only for messages whose code is
    among `codes`. It must compare tags exactly, because different tags may have the same code.
    (RocketMQ's broker leaves that to the client.)
    """

    @property
    def codes(self) -> frozenset[int] | None: ...

    def matches(self, message: M_contra, /) -> bool: ...


class Batch(msgspec.Struct, Generic[V]):
    """The result of a read. `next` is the queue offset at which the next read begins, `size` the
    bytes of the records.
    """

    status: GetMessageStatus
    next: int
    messages: list[V]
    size: int = 0


def judge(offset: int, least: int, end: int) -> tuple[GetMessageStatus, int] | None:
    """The status and next offset of a read at `offset`, for a queue that has [least, end). None if
    `offset` is within.
    """
    if end == 0:
        return GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < least:
        return GetMessageStatus.OFFSET_TOO_SMALL, least
    if offset == end:
        return GetMessageStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > end:
        return GetMessageStatus.OFFSET_OVERFLOW_BADLY, end
    return None


def scan_count(max_messages: int) -> int:
    """The most queue entries that one read examines."""
    return max(SCAN_BYTES // ENTRY_SIZE, max_messages)


def next_queue_file(offset: int, file_size: int) -> int:
    """The first queue offset of the next queue file, at which a read continues if the file of
    `offset` is missing. `file_size` is in bytes.
    """
    entries = file_size // ENTRY_SIZE
    return offset + entries - offset % entries


def is_full(
    batch: Batch[V], size: int, most: int, max_bytes: int, transfer: Transfer, *, in_memory: bool
) -> bool:
    """Whether the batch has no room for a message of `size` bytes (`isTheBatchFull`). An empty
    batch always has.
    """
    count = len(batch.messages)
    if count == 0:
        return False
    size += batch.size
    if count + 1 > most or size > max_bytes:
        return True
    if in_memory:
        return size > transfer.bytes_in_memory or count >= transfer.count_in_memory
    return size > transfer.bytes_on_disk or count >= transfer.count_on_disk


def collect(
    entries: Iterable[tuple[int, int, int]],
    record: Callable[[int, int], bytes | None],
    make: Callable[[bytes, int], V],
    *,
    offset: int,
    most: int,
    max_bytes: int,
    transfer: Transfer,
    log_end: int,
    file_size: int,
    path: str,
    wanted: Filter[V] | None,
) -> Batch[V]:
    """Reads queue entries (log offset, size, tags code) from queue offset `offset` on into a batch.

    `record` returns the bytes at a log offset, or None if they have been removed. `make` returns a
    message for bytes and queue offset. `most` and `max_bytes` limit the batch, besides `transfer`.
    `file_size` is that of a commit-log file, `log_end` the log's end and `path` its folder. A
    damaged record ends the batch; if the batch is empty it raises Corrupt.
    """
    batch: Batch[V] = Batch(GetMessageStatus.NO_MATCHED_MESSAGE, offset, [])
    codes = None if wanted is None else wanted.codes
    pull_bytes = min(max(max_bytes, LEAST_BYTES), MOST_BYTES)
    skip_below = -1
    for number, (at, size, code) in enumerate(entries, offset):
        in_memory = transfer.is_in_memory(log_end - at)
        if batch.size >= pull_bytes or is_full(
            batch, size, most, pull_bytes, transfer, in_memory=in_memory
        ):
            break
        reached = number + 1
        if at < skip_below:
            batch.next = reached
            continue
        status = GetMessageStatus.NO_MATCHED_MESSAGE
        if codes is None or code < LEAST_TAGS_CODE or _low32(code) in codes:
            data = record(at, size)
            if data is None:
                skip_below = at + file_size - at % file_size
                status = GetMessageStatus.MESSAGE_WAS_REMOVING
            else:
                if bytes(data[:4]) != size.to_bytes(4, "big") or bytes(data[4:8]) not in _MAGICS:
                    if batch.messages:
                        break
                    raise Corrupt(path, at, f"no record of {size} bytes, as entry {number} says")
                message = make(data, number)
                if wanted is None or wanted.matches(message):
                    batch.messages.append(message)
                    batch.size += size
                    batch.status = GetMessageStatus.FOUND
                    skip_below = -1
        batch.next = reached
        if not batch.messages:
            batch.status = status
    return batch


def _low32(code: int) -> int:
    """The low 32 bits as a signed number: Java's cast to int."""
    return (code + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000
