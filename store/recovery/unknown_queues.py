"""Queues of which only records of the log know: a start adds them while it dispatches."""

from __future__ import annotations

from ..errors import StoreError
from ..topics.table_changes import grow
from ..topics.topic_table import TopicTable
from .plan import RecoveryPlan, TopicFound


def add_topic(table: TopicTable, topic: TopicFound) -> None:
    """Adds a topic that was found to the table. Raises TableFull."""
    table.add_topic(
        topic.name,
        write_nums=topic.write_nums,
        read_nums=topic.read_nums,
        perm=topic.perm,
        least=topic.least,
        since=topic.since,
    )


class UnknownQueues:
    """Adds queues to the table when dispatch meets a record of one that is not there.

    `default_nums` is the number of queues of a topic that nobody configured, `store` the path for
    messages.
    """

    def __init__(
        self, table: TopicTable, plan: RecoveryPlan, default_nums: int, store: str
    ) -> None:
        self.table = table
        self.deletions = plan.deletions
        self.default_nums = default_nums
        self.store = store
        self.configured = frozenset(topic.name for topic in plan.topics if topic.configured)

    def add(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether there is now a queue for the record at log offset `offset`; a deleted topic gets
        none. Raises StoreError, TableFull.
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
            nums = max(nums, self.default_nums)
            add_topic(self.table, TopicFound.unconfigured(topic, nums, since))
        else:
            grow(self.table, found.index, nums, since)
            if topic not in self.configured:
                self.table.set_topic(found.index, write_nums=nums, read_nums=nums)
        return True
