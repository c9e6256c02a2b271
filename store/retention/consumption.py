"""How far consumer groups have consumed the commit log, for the rule that keeps what they have not.

The source is `config/consumerOffset.json`, which the registry replaces every
`flush_consumer_offset_interval_ms` and at a stop. So a group counts from some seconds after it has
begun, and its progress is some seconds old, which keeps a file a little longer. Queues in which a
group has never begun do not count, and broadcasting members do not either: each has progress of its
own, and may never come back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from ..config import offsets as offsets_json
from ..names import is_system_topic

if TYPE_CHECKING:
    from .removal import QueueCleaner


#: (topic, group) -> {queue id: offset of the next message}
Offsets: TypeAlias = Mapping[tuple[str, str], Mapping[int, int]]


class Unconsumed(msgspec.Struct, frozen=True, order=True):
    """The first message, by its log offset, that a group has not consumed."""

    log_offset: int
    group: str
    topic: str
    queue_id: int
    queue_offset: int


def read_offsets(config: str) -> Offsets:
    """What the folder `config` says. Raises Corrupt if neither the file nor its backup can be
    read.
    """
    return offsets_json.load(os.path.join(config, offsets_json.OFFSETS_FILE))[0]


def first_unconsumed(
    offsets: Offsets,
    cleaner: QueueCleaner,
    beat: Callable[[], None],
) -> Unconsumed | None:
    """The message of the least log offset that a group has not consumed, None if all groups have
    consumed everything. `cleaner` finds the entries, and leaves out what lies below the log's
    begin. Calls `beat` for each queue. Raises OSError.
    """
    found: list[Unconsumed] = []
    for (topic, group), queues in offsets.items():
        if is_system_topic(topic):
            continue
        for queue_id, offset in queues.items():
            beat()
            at, log_offset = cleaner.first_from(topic, queue_id, offset)
            if log_offset is not None:
                found.append(Unconsumed(log_offset, group, topic, queue_id, at))
    return min(found, default=None)
