"""What the broker reads of queues for itself: whole records, decoded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ...store.errors import Corrupt
from ...store.record.fields import head_of
from ...store.record.format import MIN_RECORD_BYTES, Record, decode_record
from ..link.reading import Reading
from ..loop._loop import Loop
from ..loop.tasks import Waiter

#: One read has so many records, and so many bytes. Other work goes on between two reads.
_MOST = 32
_BYTES = 1 << 20


def read_on(reading: Reading, topic: str, place: int) -> tuple[list[Record], int]:
    """The next records of a topic's queue 0, from queue offset `place` on, and where to go on.
    Those that cannot be read are left out. Raises StoreError.
    """
    read = reading.read(topic, 0, place, most=_MOST, max_bytes=_BYTES, chosen=None)
    return list(_records(read.records)), max(read.next, place + 1)


async def let_others_work(loop: Loop) -> None:
    """Lets the loop do other work."""
    turn: Waiter[None] = Waiter()
    loop.call_soon(lambda: turn.set(None))
    await turn


def _records(data: bytes) -> Iterator[Record]:
    """Stored records that lie back to back."""
    at = 0
    while at < len(data):
        size = head_of(data, at).total_size
        if size < MIN_RECORD_BYTES:
            return
        with contextlib.suppress(Corrupt):
            yield decode_record(data[at : at + size])
        at += size
