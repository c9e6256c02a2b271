"""Adds queues that occur only in records of the log, while a start dispatches these records."""

from __future__ import annotations

from ..errors import StoreError
from ..topics.table_changes import grow
from ..topics.topic_table import TopicTable
from .plan import RecoveryPlan, TopicFound


def add_topic(table: TopicTable, topic: TopicFound) -> None:
    """Adds a topic of the plan to the table. Raises TableFull."""
    table.add_topic(
        topic.name,
        write_nums=topic.write_nums,
        read_nums=topic.read_nums,
        perm=topic.perm,
        least=topic.least,
        since=topic.since,
    )


class UnknownQueues:
    """Adds queues to the table when dispatch finds a record of a queue that is not in it.

    `default_nums` is the number of queues of a topic that is not in topics.json, if nothing tells
    how many it was made with. `store` is the
    path of the store, for messages of errors.
    """

    def __init__(
        self, table: TopicTable, plan: RecoveryPlan, default_nums: int, store: str
    ) -> None:
        self.table = table
        self.deletions = plan.deletions
        self.made = plan.made
        self.default_nums = default_nums
        self.store = store
        self.configured = frozenset(topic.name for topic in plan.topics if topic.configured)

    def add(self, topic: str, queue_id: int, offset: int) -> bool:
        """Adds the queue of the record at log offset `offset`. False if the record belongs to a
        deleted topic, which gets no queue. Raises StoreError, TableFull.
        """
        since = self.deletions.below(topic)
        if offset < since:
            return False
        if queue_id >= self.table.max_queues:
            raise StoreError(
                f"{self.store}: the record at offset {offset} is of queue {queue_id} "
                f"of topic {topic}, and there is room for {self.table.max_queues}: raise "
                "max_queues. If the topic never had so many queues, that record is damaged"
            )
        nums = queue_id + 1
        found = self.table.find(topic)
        if found is None:
            default = self.made.get(topic, self.default_nums)
            add_topic(self.table, TopicFound.unconfigured(topic, nums, default, since))
        else:
            grow(self.table, found.index, nums, since)
            if topic not in self.configured:
                self.table.set_topic(found.index, write_nums=nums, read_nums=nums)
        return True
