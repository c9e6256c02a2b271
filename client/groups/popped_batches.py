"""Batches for `GroupConsumer.poll_arrow` of a member that pops: the rows of what it was leased."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ...shm.protocol.pops import MOST_POPPED
from ...store.commitlog.log_reader import LogReader
from ...store.consumequeue.queue import ENTRY
from ...store.reading._columns import ALL_TAKEN, Columns
from ...store.reading.columns import MOST_BYTES, to_batch
from ..consuming.message_view import MessageView
from ..consuming.wanted_columns import WantedColumns
from .popped_messages import PoppedPart, size_of

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

_ANY: Final = 1 << 40  # more rows than any batch has


def popped_parts(
    pop: Callable[[int, float, int], list[PoppedPart]], wanted: WantedColumns, timeout: float
) -> list[PoppedPart]:
    """What one `wanted` batch is made of. `pop` takes how many messages, for how long to wait for
    the first one (s), and how many bytes; one request brings 1,024 at most.
    """
    found: list[PoppedPart] = []
    left, size = wanted.rows, min(wanted.size, MOST_BYTES)
    while left > 0 and size > 0:
        asked = min(left, MOST_POPPED)
        more = pop(asked, 0.0 if found else timeout, size)
        found += more
        count = sum(len(part.messages) for part in more)
        left -= count
        size -= sum(size_of(part.messages) for part in more)
        if count < asked:
            break
    return found


def batch_of(parts: Sequence[PoppedPart], wanted: WantedColumns, log: LogReader) -> pa.RecordBatch:
    """The messages of `parts` as a batch. Raises Corrupt for a damaged message."""
    columns = wanted.empty()
    for part in parts:
        for run in _runs(part.messages, log.file_size):
            _fill(columns, run, log)
    return to_batch(columns, wanted.names)


def _runs(messages: Sequence[MessageView], file_size: int) -> Iterator[list[MessageView]]:
    """Messages that follow each other in a queue, and lie in one file of the log. A message that
    was handed out before has its count in bytes of its own.
    """
    run: list[MessageView] = []
    for message in messages:
        last = run[-1] if run else None
        if last is not None and not (
            message.queue_offset == last.queue_offset + 1
            and message.place
            and last.place
            and message.place // file_size == last.place // file_size
        ):
            yield run
            run = []
        run.append(message)
    if run:
        yield run


def _fill(columns: Columns, run: list[MessageView], log: LogReader) -> None:
    first = run[0]
    memory: Buffer
    if first.place:
        base = first.place - first.place % log.file_size
        memory, places = log.file(base), [message.place for message in run]
    else:
        memory, base, places = first.record, first.physical_offset, [first.physical_offset]
    entries = b"".join(
        ENTRY.pack(place, message.size, 0) for place, message in zip(places, run, strict=True)
    )
    # The limits were those of the pops.
    rows, _, why = columns.take(
        memory, base, entries, first.queue_offset, _ANY, None, MOST_BYTES, check=False
    )
    if rows < len(run):
        run[rows].check()
        raise AssertionError(f"a sound message makes no row: {why} is not {ALL_TAKEN}")
