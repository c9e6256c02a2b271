"""What stands in a declared hole: records, so that every scan of the log passes it.

RocketMQ knows no holes: it ends the log at the first bytes that are no record, and it cuts a queue
at the first entry without a size. So each gap is filled with good records:

- **a stand-in** for each message that was there, of its topic, queue and queue offset, with an
  empty body and the property SILOMQ_LOST=START-END if there is room. So queue offsets stay what
  they were, also when queues are built anew. Our readers raise CorruptRange there; RocketMQ hands
  the stand-in out;
- **a filler** for the space that is left: a rolled-back transaction, which gets no entry in a queue
  and none in the index, neither here nor in RocketMQ;
- an end-of-file record if the gap reaches to the file's end.

The stand-in of a message is never longer than the message was, so the gap always has room for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from ...store.errors import StoreError
from ...store.record.format import (
    BLANK_BYTES,
    TRANSACTION_ROLLBACK,
    Record,
    encode_blank,
    encode_record,
)
from ...store.record.ids import LOCALHOST
from ...store.record.properties import encode_properties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .log_damage import Gap
    from .lost_messages import Lost

LOST: Final = "SILOMQ_LOST"
_FILLER_TOPIC: Final = b"_"
_LEAST_FILLER: Final = len(encode_record(_FILLER_TOPIC, b""))
_FILLER_BODY: Final = 1 << 20


class NoRoom(StoreError):
    """A gap has no room for what must stand in it."""


class Filling(msgspec.Struct, frozen=True):
    """The records of one gap: the stand-ins of `lost`, in this order, each with `properties`.
    `to_end` says that the gap ends with its file.
    """

    gap: Gap
    lost: tuple[Lost, ...]
    properties: bytes
    to_end: bool

    def pieces(self) -> Iterator[bytes]:
        """The bytes of the gap from its start on. An end-of-file record is cut off behind its
        first bytes: what follows must be zeros.
        """
        at, end = self.gap.start, self.gap.end - BLANK_BYTES * self.to_end
        sizes = [_least(one, self.properties) for one in self.lost]
        left = end - at - sum(sizes)
        for number, one in enumerate(self.lost):
            more = left if number + 1 == len(self.lost) and 0 < left < _LEAST_FILLER else 0
            yield self._stand_in(at, one, more)
            at += sizes[number] + more
            left -= more
        if self.to_end and at == self.gap.base and left >= _LEAST_FILLER:
            yield self._filler(at, 0)  # RocketMQ looks at the first record of a file
            at += _LEAST_FILLER
        while not self.to_end and left >= _LEAST_FILLER:
            body = left - _LEAST_FILLER
            if body > _FILLER_BODY:  # what is left must be enough for another one
                body = min(_FILLER_BODY, body - _LEAST_FILLER)
            yield self._filler(at, body)
            at += _LEAST_FILLER + body
            left -= _LEAST_FILLER + body
        if self.to_end:
            yield encode_blank(self.gap.end - at)

    def _stand_in(self, at: int, one: Lost, more: int) -> bytes:
        return encode_record(
            one.topic,
            bytes(more),
            self.properties,
            queue_id=one.queue_id,
            queue_offset=one.queue_offset,
            physical_offset=at,
            born_timestamp=self.gap.newest,
            store_timestamp=self.gap.newest,
        )

    def _filler(self, at: int, body: int) -> bytes:
        return encode_record(
            _FILLER_TOPIC,
            bytes(body),
            physical_offset=at,
            sys_flag=TRANSACTION_ROLLBACK,
            born_timestamp=self.gap.newest,
            store_timestamp=self.gap.newest,
        )


def stands_in(record: Record) -> bool:
    """Whether a record is one of those with which a hole is filled, and no message. These have only
    zeros in their bodies, no other property than SILOMQ_LOST, one time, and no host. A producer's
    message has properties.
    """
    return (
        not record.body.strip(b"\0")
        and not record.properties.keys() - {LOST}
        and record.born_timestamp == record.store_timestamp
        and record.born_host == record.store_host == LOCALHOST
    )


def fillings(gaps: Sequence[Gap], lost: Sequence[Lost], file_size: int) -> list[Filling]:
    """What is to stand in each gap. A message for which a gap has no room goes into the next one
    that it may have been in. Raises NoRoom.
    """
    found = []
    waiting: list[Lost] = []
    for number, gap in enumerate(gaps):
        to_end = gap.end == gap.base + file_size
        room = gap.end - gap.start - BLANK_BYTES * to_end
        here = [*waiting, *(one for one in lost if one.gap == number)]
        fits = _fitting(here, room, b"")
        here, waiting = here[:fits], here[fits:]
        waiting = [one for one in waiting if one.sure or one.last > number]
        for one in waiting:
            if one.last <= number:
                raise NoRoom(
                    f"offsets {gap.start} to {gap.end} of the log have no room for queue offset "
                    f"{one.queue_offset} of queue {one.queue_id} of topic {one.topic.decode()}: "
                    "end the log before them with silo repair --truncate-at"
                )
        said = encode_properties({LOST: f"{gap.start}-{gap.end}"})
        properties = said if _fitting(here, room, said) == len(here) else b""
        left = room - sum(_least(one, properties) for one in here)
        if room < 0 or (not here and not to_end and left < _LEAST_FILLER):
            raise NoRoom(
                f"offsets {gap.start} to {gap.end} of the log are too few for a record: end the "
                f"log before them with silo repair --truncate-at {gap.start}"
            )
        found.append(Filling(gap, tuple(here), properties, to_end))
    return found


def _fitting(lost: Sequence[Lost], room: int, properties: bytes) -> int:
    """How many of the messages have room for their stand-ins."""
    for number, one in enumerate(lost):
        room -= _least(one, properties)
        if room < 0:
            return number
    return len(lost)


def _least(one: Lost, properties: bytes) -> int:
    """The bytes of the shortest stand-in of a message."""
    return len(encode_record(one.topic, b"", properties))
