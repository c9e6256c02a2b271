"""Tables of topics.json, as tests make them."""

from __future__ import annotations

from silomq.store.config.topics import TopicConfig, TopicTable


def with_topic(table: TopicTable, config: TopicConfig, now_ms: int) -> TopicTable:
    """The table with `config` added or replaced."""
    topics = {**table.topics, config.topic_name: config}
    return TopicTable(topics, table.data_version.next(now_ms))
