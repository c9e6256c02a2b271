"""Batches for `GroupConsumer.poll_arrow`: rows of several queues, each by its topic's filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...store.errors import Corrupt, CorruptRange
from ...store.filters.tags import TagFilter
from ...store.reading._columns import Columns
from ...store.reading.columns import filter_rows, to_batch
from ..consuming.fill_columns import fill_from
from ..consuming.wanted_columns import WantedColumns
from ..errors import TopicDeleted
from ._assigned_queue import AssignedQueue
from .subscription import Selection

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows [start, stop) of a batch, which came from one queue, from the offset `first` on."""

    assigned: AssignedQueue
    selection: Selection
    first: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class _Row:
    """One row in the form that an SQL filter takes (`Filterable`)."""

    tags: str | None
    properties: Mapping[str, str]


def next_batch(
    order: Sequence[AssignedQueue],
    selections: Mapping[str, Selection],
    wanted: WantedColumns,
) -> tuple[pa.RecordBatch, list[AssignedQueue]]:
    """Reads a `wanted` batch from the queues in `order`. Returns (the batch, the queues that its
    rows come from).

    The batch counts as handed out in each of these queues. It has no rows when no message passes
    the filters now.

    Three kinds of rows are dropped after reading:

    - rows whose tags only share the hash of a wanted tag;
    - rows that an SQL expression does not match, which is evaluated in Python for each row;
    - rows that were acknowledged before this member had the queue.

    Raises Corrupt and CorruptRange if no row comes before the damage.
    """
    while True:
        batch, read = _gather(order, selections, wanted)
        if batch.num_rows or not read:
            return batch, read
        for assigned in read:
            assigned.drop_batch()


def _gather(
    order: Sequence[AssignedQueue],
    selections: Mapping[str, Selection],
    wanted: WantedColumns,
) -> tuple[pa.RecordBatch, list[AssignedQueue]]:
    needed = _needed(order, selections)
    parts: list[_Part] = []
    try:
        filled = wanted.empty(*needed)
        parts.extend(_fill(order, selections, filled, wanted.rows, wanted.size))
        return _selected(parts, filled, wanted, needed), [part.assigned for part in parts]
    except BaseException:  # the caller gets none of the rows, so they come again
        for part in parts:
            part.assigned.take_back(part.first)
        raise


def _selected(
    parts: Sequence[_Part], filled: Columns, wanted: WantedColumns, needed: tuple[str, ...]
) -> pa.RecordBatch:
    """The rows that pass the filters."""
    checked = [p for p in parts if p.assigned.beyond or not p.selection.takes_all]
    if not checked:
        return to_batch(filled, wanted.names)
    batch = to_batch(filled, tuple(dict.fromkeys((*wanted.names, *needed))))
    keep = [True] * batch.num_rows
    for part in checked:
        keep[part.start : part.stop] = _wanted(part, batch)
    if not all(keep):
        batch = filter_rows(batch, keep)
    return batch.select(list(wanted.names))


def _needed(order: Sequence[AssignedQueue], selections: Mapping[str, Selection]) -> tuple[str, ...]:
    """The columns that the filters need."""
    found: dict[str, None] = {}
    for assigned in order:
        selection = selections[assigned.queue[0]]
        if not selection.takes_all:
            found["tags" if isinstance(selection.filter, TagFilter) else "properties"] = None
        if assigned.beyond:
            found["queue_offset"] = None
    return tuple(found)


def _fill(
    order: Sequence[AssignedQueue],
    selections: Mapping[str, Selection],
    filled: Columns,
    limit: int,
    max_bytes: int,
) -> Iterator[_Part]:
    """Fills `filled` from the queues. Yields which rows came from which queue."""
    is_first = True
    for assigned in order:
        if filled.rows >= limit or filled.size >= max_bytes:
            break
        selection = selections[assigned.queue[0]]
        start, first = filled.rows, assigned.cursor.next
        try:
            fill_from([assigned.cursor], filled, limit, selection.codes, max_bytes)
        except TopicDeleted:
            pass  # the store is about to revoke the queue
        except (Corrupt, CorruptRange):
            if is_first:
                raise
            break  # the next batch raises the error
        except BaseException:
            assigned.cursor.next = first
            raise
        if assigned.cursor.next != first:
            assigned.hand_out_batch(first)
            is_first = False
            yield _Part(assigned, selection, first, start, filled.rows)


def _wanted(part: _Part, batch: pa.RecordBatch) -> list[bool]:
    """For each row of the part, whether it stays in the batch."""
    count = part.stop - part.start
    keep = [True] * count

    def values(name: str) -> list[Any]:
        found: list[Any] = batch.column(name).slice(part.start, count).to_pylist()
        return found

    if part.assigned.beyond:
        keep = [at not in part.assigned.beyond for at in values("queue_offset")]
    if part.selection.takes_all:
        return keep
    matches = part.selection.filter.matches
    if isinstance(part.selection.filter, TagFilter):
        tags = values("tags")
        wanted = part.selection.filter.tags
        return [kept and tag in wanted for kept, tag in zip(keep, tags, strict=True)]
    rows = values("properties")
    return [k and matches(_Row(None, dict(pairs))) for k, pairs in zip(keep, rows, strict=True)]
