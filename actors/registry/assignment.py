"""The division of a topic's queues among the members of a consumer group: the arithmetic alone.

Which members take part in which topic is decided in `division.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Name = TypeVar("Name")


def average(queues: int, members: Sequence[Name]) -> dict[Name, range]:
    """Divides queue ids 0 to `queues`-1 as RocketMQ's AllocateMessageQueueAveragely does.

    Each member, in the given order, gets a range of consecutive ids. If the queues do not divide
    evenly, the first members get one more each.
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


def java_order(name: str) -> bytes:
    """A key that sorts text as Java's String.compareTo does: by its UTF-16 code units. RocketMQ's
    clients sort client ids so before they divide.
    """
    return name.encode("utf-16-be", "surrogatepass")
