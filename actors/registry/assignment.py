"""Which member of a consumer group gets which queues of a topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Name = TypeVar("Name")


def average(queues: int, members: Sequence[Name]) -> dict[Name, range]:
    """RocketMQ's AllocateMessageQueueAveragely: each member, in order, gets a run of queue ids. If
    the queues do not divide evenly, the first members get one more each.
    """
    if not members:
        return {}
    share, more = divmod(queues, len(members))
    assigned: dict[Name, range] = {}
    first = 0
    for i, member in enumerate(members):
        count = share + (i < more)
        assigned[member] = range(first, first + count)
        first += count
    return assigned
