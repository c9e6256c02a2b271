"""Look-ups do not hand out what stands in a declared hole."""

from __future__ import annotations

from ...store.commitlog.holes import Holes
from ...store.reading.running_store import ServedQueue

Entry = tuple[int, int, int]


def before_hole(holes: Holes, queue: ServedQueue, offset: int, entries: list[Entry]) -> list[Entry]:
    """The entries of a queue, the first at queue offset `offset`, that lie before the next declared
    hole. Raises CorruptRange if there are none.
    """
    if not holes or not entries:
        return entries
    count = holes.first_of(lambda number: entries[number][0], 0, len(entries))
    hole = holes.at(entries[0][0])
    if hole is None:
        return entries[:count]
    end = holes.behind(lambda at: queue.entry(at)[0], hole, offset, queue.end)
    raise hole.error(queue.topic, queue.queue_id, first=offset, end=end)


def check_hole(holes: Holes, offset: int) -> None:
    """Raises CorruptRange if a commit-log offset lies in a declared hole."""
    hole = holes.at(offset)
    if hole is not None:
        raise hole.error()
