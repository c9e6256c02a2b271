"""Offsets of a stream, and the end of one micro-batch. Spark-free.

An offset is JSON: {"stores": {folder: {topic: {queue id: next queue offset}}}}. Queues that are not
in it are new, and are read from their beginning.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...store.consumequeue.queue import ENTRY_FIELDS, ENTRY_SIZE
from ...store.consumequeue.queue_reader import QueueReader
from ...store.disk.files import Folder
from ...store.disk.paths import CONSUME_QUEUE
from .part_reader import Slice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .options import Options
    from .snapshot import Queue, Snapshot

#: Folder of a store -> queue -> the next queue offset.
Offsets = dict[str, dict["Queue", int]]
_ENTRIES_AT_ONCE = 65536


def to_json(offsets: Mapping[str, Mapping[Queue, int]]) -> dict[str, Any]:
    """Offsets in the form that Spark writes into the checkpoint: equal offsets give equal text."""
    stores: dict[str, Any] = {}
    for path, queues in sorted(offsets.items()):
        topics: dict[str, dict[str, int]] = {}
        for (topic, queue_id), offset in sorted(queues.items()):
            topics.setdefault(topic, {})[str(queue_id)] = offset
        stores[path] = topics
    return {"stores": stores}


def from_json(value: Mapping[str, Any]) -> Offsets:
    """Offsets from the form that `to_json` makes. Raises ValueError for anything else."""
    try:
        return {
            path: {
                (topic, int(queue_id)): int(offset)
                for topic, queues in topics.items()
                for queue_id, offset in queues.items()
            }
            for path, topics in value["stores"].items()
        }
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"the checkpoint holds no offsets of the source silomq ({str(value)[:200]}): give the "
            "query a checkpointLocation of its own"
        ) from error


@dataclass(frozen=True, slots=True)
class Waiting:
    """Messages [`first`, `end`) of a queue that wait to be read."""

    path: str
    queue: Queue
    first: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.first


def waiting(found: Snapshot, seen: Offsets, options: Options) -> list[Waiting]:
    """The unread messages of a store after the offsets `seen`, including queues without any. Raises
    DataLoss where unread messages were removed, unless failOnDataLoss is false.
    """
    before = seen.get(found.path)
    result = []
    for queue, (least, end) in sorted(found.queues.items()):
        if not options.wants(*queue):
            continue
        next_offset = None if before is None else before.get(queue, 0)
        result.append(Waiting(found.path, queue, _first(found, queue, next_offset, options), end))
        assert least <= end
    for queue in sorted(set(before or ()) - found.queues.keys()):
        assert before is not None
        if before[queue] and options.wants(*queue):
            options.lose(f"{found.path}: queue {queue[1]} of {queue[0]}, which was read, is gone")
    return result


def _first(found: Snapshot, queue: Queue, wanted: int | None, options: Options) -> int:
    """The offset from which a queue is read: `wanted`, if it is there."""
    least, end = found.queues[queue]
    if wanted is None or least <= wanted <= end:
        return least if wanted is None else wanted
    what = f"{found.path}: queue {queue[1]} of {queue[0]} holds the offsets {least} to {end}"
    if wanted < least:
        options.lose(f"{what}; those from {wanted} on were removed before they were read")
    else:
        options.lose(f"{what}, and was read up to {wanted}: it was made anew, or cut off")
    return least


def slices(
    found: Snapshot, seen: Offsets, until: Mapping[Queue, int], options: Options
) -> list[Slice]:
    """The messages of a store from `seen` up to `until`, which a micro-batch reads."""
    result = []
    for one in waiting(found, seen, options):
        end = until.get(one.queue, 0)
        if end > one.end:
            topic, queue_id = one.queue
            options.lose(
                f"{found.path}: queue {queue_id} of {topic} ends at {one.end}, and the batch that "
                f"is to be read once more goes up to {end}"
            )
        if one.first < min(end, one.end):
            result.append(Slice(*one.queue, one.first, min(end, one.end)))
    return result


def share(counts: list[int], limit: int, turn: int) -> list[int]:
    """Divides `limit` among queues in which `counts` messages wait. Each gets its proportion,
    rounded down; the rest is given out one by one from queue number `turn` on. The sum is `limit`,
    or all messages if they are fewer.
    """
    total = sum(counts)
    if total <= limit:
        return list(counts)
    found = [limit * count // total for count in counts]
    left = limit - sum(found)
    at = turn
    while left:
        number = at % len(counts)
        if found[number] < counts[number]:
            found[number] += 1
            left -= 1
        at += 1
    return found


def cut_to_rows(wait: list[Waiting], limit: int) -> list[Waiting]:
    """Cuts `wait` to at most `limit` messages in all."""
    if not wait:
        return []
    # The offsets grow with every batch, so each queue gets its turn.
    parts = share([one.count for one in wait], limit, sum(one.first for one in wait) % len(wait))
    return [
        Waiting(one.path, one.queue, one.first, one.first + count)
        for one, count in zip(wait, parts, strict=True)
    ]


def cut_to_bytes(wait: list[Waiting], limit: int, found: Mapping[str, Snapshot]) -> list[Waiting]:
    """Cuts `wait` to at most `limit` bytes of records in all, but to at least one message.

    A queue's share of the remaining bytes is in proportion to its messages, compared with those of
    all remaining queues. Bytes that a queue does not use are left for the next ones.
    """
    busy = [one for one in wait if one.count]
    if not busy:
        return wait
    turn = sum(one.first for one in wait) % len(busy)
    left, remaining = limit, sum(one.count for one in busy)
    ends: dict[tuple[str, Queue], int] = {}
    for one in busy[turn:] + busy[:turn]:
        budget = left * one.count // remaining
        end, used = _fitting(one, budget, found[one.path])
        ends[one.path, one.queue] = end
        left -= used
        remaining -= one.count
    if left == limit:  # no message fits into its queue's share
        first = busy[turn]
        ends[first.path, first.queue] = first.first + 1
    return [
        Waiting(one.path, one.queue, one.first, ends.get((one.path, one.queue), one.end))
        for one in wait
    ]


def _fitting(one: Waiting, budget: int, found: Snapshot) -> tuple[int, int]:
    """(queue offset behind the messages of a queue whose records fit into `budget` bytes, their
    bytes).
    """
    import numpy as np

    entry = np.dtype(list(ENTRY_FIELDS))
    end, used = one.first, 0
    topic, queue_id = one.queue
    with contextlib.ExitStack() as opened:
        root = opened.enter_context(Folder.open(found.path))
        queues = opened.enter_context(root.folder(CONSUME_QUEUE))
        parent = opened.enter_context(queues.folder(topic))
        reader = QueueReader(opened.enter_context(parent.folder(str(queue_id))), found.queue_size)
        while end < one.end:
            view = reader.view(end, min(one.end - end, _ENTRIES_AT_ONCE))
            sizes = np.frombuffer(view, entry)["size"].astype(np.int64).cumsum()
            fitting = int(np.searchsorted(sizes, budget - used, side="right"))
            if fitting:
                used += int(sizes[fitting - 1])
                end += fitting
            if fitting < len(view) // ENTRY_SIZE:
                break
    return end, used


def ends_of(wait: Iterable[Waiting], seen: Offsets) -> Offsets:
    """The offsets after all of `wait` is read."""
    found: Offsets = {path: dict(queues) for path, queues in seen.items()}
    for one in wait:
        found.setdefault(one.path, {})[one.queue] = one.end
    return found
