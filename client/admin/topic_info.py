"""What `Admin` says about topics, and the limits that it gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...shm.protocol.answers import TopicEntry
from ...store.retention.topic_limits import (
    MOST_HOURS,
    MOST_SIZE,
    NO_LIMITS,
    SIZE,
    TIME,
    UNCONSUMED,
    TopicLimits,
    limits_of,
)
from .. import arguments


@dataclass(frozen=True)
class TopicInfo:
    """One topic, as RocketMQ's TopicConfig has it, and how much it holds.

    `perm` is 2 (producers may write), 4 (consumers may read) or 6 (both). Producers use the queues
    0 to `write_queues` - 1, consumers those from 0 to `read_queues` - 1. `messages` counts the
    messages in the queues that consumers read. `order` is only kept, for RocketMQ's tools. `limits`
    are those by which the topic's messages expire, where they are not the store's.
    """

    topic: str
    write_queues: int
    read_queues: int
    perm: int
    messages: int
    order: bool = False
    limits: TopicLimits = NO_LIMITS


@dataclass(frozen=True)
class QueueInfo:
    """One queue. It holds the messages with the queue offsets from `min_offset` up to, and without,
    `max_offset`. `read` and `write` say whether consumers and producers use it.
    """

    queue_id: int
    min_offset: int
    max_offset: int
    read: bool
    write: bool


@dataclass(frozen=True)
class TopicStatus(TopicInfo):
    """A topic with its queues in the order of their ids, also those that it no longer uses."""

    queues: tuple[QueueInfo, ...] = ()


def settings_of(entry: TopicEntry) -> dict[str, Any]:
    """The settings of a topic, as arguments for `TopicInfo`."""
    return {
        "write_queues": entry.write_queues,
        "read_queues": entry.read_queues,
        "perm": entry.perm,
        "order": entry.order,
        "limits": limits_of(entry.attributes),
    }


def limit_changes(time_h: object, size: object, unconsumed_h: object) -> dict[str, str]:
    """The attributes that change: all but those whose limit is None. Raises IllegalArgument and
    IllegalType, which name the arguments of `Admin.update_topic`.
    """
    given = (
        ("reserved_time_h", TIME, time_h, MOST_HOURS),
        ("reserved_size", SIZE, size, MOST_SIZE),
        ("reserved_unconsumed_h", UNCONSUMED, unconsumed_h, MOST_HOURS),
    )
    return {
        attribute: str(arguments.whole(argument, value, -1, most))
        for argument, attribute, value, most in given
        if value is not None
    }
