"""Topic tables of a few topics, in plain memory."""

from __future__ import annotations

from silomq.store.topics.table_layout import Plan
from silomq.store.topics.topic_table import TopicTable

PLAN = Plan(max_topics=20, max_queues=50, max_sessions=3)


def new_table(plan: Plan = PLAN) -> TopicTable:
    return TopicTable.create(bytearray(plan.size), plan)


def add(table: TopicTable, name: str, nums: int = 4) -> list[int]:
    return list(table.add_topic(name, write_nums=nums, read_nums=nums, perm=6).slots)
