"""Compares the progress of consumer groups (`config/consumerOffset.json`) with the queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...store.config import offsets as offsets_json
from ...store.disk.paths import CONFIG
from ...store.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Mapping


def check_progress(
    store: str, ends: Mapping[tuple[str, int], tuple[int, int]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The progress of each group in each queue, and what is wrong with it, as rows of
    `audit.FINDING`.

    A row of progress has store, topic, group, queueId, and

    - offset: of the next message to be read;
    - first, end: of the queue, None where there is no such queue;
    - lag: the number of messages still to be read;
    - missed: the number of messages that were removed before the group read them.

    A group that is ahead of its queue is wrong: it will not get the messages that are stored next.
    `ends` are first offset and end by topic and queue.
    """
    path = f"{store}/{CONFIG}/{offsets_json.OFFSETS_FILE}"
    rows: list[dict[str, Any]] = []
    wrong: list[dict[str, Any]] = []

    def note(what: str) -> None:
        place = {"store": store, "file": path, "offset": 0}
        wrong.append({"check": "progress", **place, "what": what})

    try:
        offsets, problems = offsets_json.load(path)
    except Corrupt as error:
        note(str(error))
        return rows, wrong
    for problem in problems:
        note(problem)
    for (topic, group), queues in sorted(offsets.items()):
        for queue_id, offset in sorted(queues.items()):
            first, end = ends.get((topic, queue_id), (None, None))
            row = {"store": store, "topic": topic, "group": group, "queueId": queue_id}
            rows.append(
                {
                    **row,
                    "offset": offset,
                    "first": first,
                    "end": end,
                    "lag": max(0, end - max(offset, first or 0)) if end is not None else None,
                    "missed": max(0, first - offset) if first is not None else None,
                }
            )
            if offset > (end or 0):
                has = f"ends at {end}" if end is not None else "is not there"
                note(f"group {group} has offset {offset} in {topic}/{queue_id}, which {has}")
    return rows, wrong
