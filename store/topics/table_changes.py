"""Changes of existing topics in the table: more queues, deletion, and repair after a registry was
killed. The registry calls these functions, and a start calls `grow`.

Entries are never moved. Queues that a topic gets later have slots outside the row of its first
ones, and are found by their hash. The entries of a deleted topic stay until the store stops. No
record belongs to them, because their `since` is above all offsets. The buckets lead to them until
the queues of a new topic of that name take the buckets. So a look-up finds a queue at every moment.
"""

from __future__ import annotations

from collections.abc import Callable

from ...shm._words import fault
from .topic_table import DELETED, TableFull, TopicState, TopicTable


def grow(table: TopicTable, index: int, nums: int, since: int = 0) -> None:
    """Gives the topic `index` queues until it has `nums`. They take the word `since` of the
    topic's first queue; the argument is for a topic that has none. Raises TableFull.
    """
    topic, first = table.topic(index), table.queue_count
    added = range(len(topic.slots), nums)
    if not added:
        return
    if first + len(added) > table.max_queues:
        why = f"no room for {len(added)} more of {table.max_queues} queues: raise max_queues"
        raise TableFull(why)
    if topic.slots:
        since = table.queue_word(topic.slots[0], "since").load()
    for slot, queue_id in enumerate(added, first):
        table.write_queue(slot, index, queue_id, since)
    table.count_queues(first + len(added))
    fault("registry:growing")
    for slot in range(first, first + len(added)):
        table.file_queue(slot)
    table.set_topic(index, queue_nums=nums)


def retire(table: TopicTable, index: int) -> None:
    """Sets `since` of a topic's queues above all offsets, so that no record belongs to them."""
    for slot in table.topic(index).slots:
        table.own_queue_word(slot, "since").store(DELETED)


def end_deletion(table: TopicTable, index: int) -> None:
    """Marks a topic as deleted, and makes reput unmap the files of its queues."""
    table.set_topic(index, state=TopicState.DELETED)
    table.count_deletion()


def repair(table: TopicTable, beat: Callable[[], None]) -> int:
    """Makes buckets for queues that a killed registry had counted, but not filed yet, and returns
    how many. A registry calls it before it serves. `beat` is called for each topic.
    """
    counted = 0
    for topic in table.entries():
        counted += len(topic.slots)
        beat()
    orphans = range(counted, table.queue_count)
    if orphans and table.queue(orphans[0])[0] >= table.topic_count:
        # They are queues of a topic that was not counted yet: free their slots.
        table.count_queues(counted)
        orphans = range(0)
    for slot in orphans:  # they are new queues of a topic that was growing
        index, queue_id = table.queue(slot)
        table.file_queue(slot)
        table.set_topic(index, queue_nums=queue_id + 1)
    filed = len(orphans)
    for topic in table.topics():
        beat()
        for queue_id, slot in enumerate(topic.slots):
            if table.slot(topic.name, queue_id) != slot:
                table.file_queue(slot)
                filed += 1
    return filed
