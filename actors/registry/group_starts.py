"""Where a consumer group begins in a queue, and where it may be set to."""

from __future__ import annotations

from collections.abc import Mapping

from ...shm.protocol.requests import Start
from ...store.topics.topic_table import TopicTable
from .group_offsets import GroupProgress
from .refusals import illegal
from .sides import Side


def begin(
    table: TopicTable,
    progress: GroupProgress,
    key: str,
    topic: str,
    *,
    start: Start,
    side: Side | None,
) -> None:
    """Sets the offsets at which a group begins in queues of a topic that are new to it. Queues that
    its members on the network have (`side`) are begun by them. Raises Refused for a topic that
    cannot be read.

    An offset of `start.offsets` is used as it is. Otherwise the group begins at the queue's end, if
    it asked for the latest messages and the topic is new to it, or else at the queue's first
    message. So no message of a queue that is added later is missed.
    """
    found = table.find(topic)
    if found is None:
        raise illegal(f"topic {topic} does not exist: create it (silo topics create)")
    if not found.perm & 4:
        raise illegal(f"topic {topic} may not be read (perm {found.perm})")
    last = start.at == "latest" and not progress.has_topic(key, topic)
    offsets = start.offsets.get(topic, {})
    for queue_id, slot in enumerate(found.slots[: found.read_queue_nums]):
        queue = (topic, queue_id)
        if progress.knows(key, queue) or (side is not None and side.holds(queue)):
            continue
        word = table.queue_word(slot, "max_offset" if last else "min_offset")
        progress.begin(key, queue, offsets.get(queue_id, word.load()))


def check_offsets(table: TopicTable, topic: str, offsets: Mapping[int, int]) -> None:
    """Raises Refused for an offset that a queue of the topic does not have; `offsets` is by queue
    id.
    """
    found = table.find(topic)
    if found is None or max(offsets) >= len(found.slots):
        raise illegal(f"topic {topic} has no queue {max(offsets)}")
    for queue_id, offset in offsets.items():
        slot = found.slots[queue_id]
        low = table.queue_word(slot, "min_offset").load()
        high = table.queue_word(slot, "max_offset").load()
        if not low <= offset <= high:
            raise illegal(f"queue {queue_id} of {topic}: offset {offset}, it has {low} to {high}")
