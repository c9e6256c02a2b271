"""Changes of topics in the table, and what a registry killed half-way leaves."""

from __future__ import annotations

import pytest
from support.frames import LONG_TOPIC
from support.small_tables import add, new_table

from silomq.shm._words import OwnedWord
from silomq.store.topics import table_changes
from silomq.store.topics._table import insert_bucket
from silomq.store.topics.table_changes import end_deletion, grow, retire
from silomq.store.topics.table_layout import HEADER
from silomq.store.topics.topic_table import (
    DELETED,
    NO_MARK,
    TableFull,
    TopicState,
    TopicTable,
)


def repair(table: TopicTable) -> int:
    """How many queues were filed, by a registry that beats for each topic."""
    beats: list[int] = []
    filed = table_changes.repair(table, lambda: beats.append(1))
    assert len(beats) >= table.topic_count
    return filed


def killed(table: TopicTable, *, queues: bool, topic: bool, buckets: int) -> None:
    """`add_topic("late", 4 queues)` that stopped: which counts it had stored, how many buckets."""
    before = (table.queue_count, table.topic_count)
    at, end = table._queues_at, table._grants_at
    kept = bytes(table.view[at:end])
    slots = add(table, "late")
    entries = bytes(table.view[table._queue_at(slots[0]) :][: 256 * 4])
    table.view[at:end] = kept
    table.view[table._queue_at(slots[0]) :][: 256 * 4] = entries
    OwnedWord(table.memory, HEADER["queue_count"][0]).store(before[0] + 4 * queues)
    OwnedWord(table.memory, HEADER["topic_count"][0]).store(before[1] + topic)
    for slot in slots[:buckets]:
        insert_bucket(table.memory, slot)


@pytest.mark.parametrize(
    ("queues", "topic", "buckets", "filed"),
    [
        (False, False, 0, 0),
        (True, False, 0, 0),
        (True, True, 0, 4),
        (True, True, 3, 1),
        (True, True, 4, 0),
    ],
)
def test_repair_after_each_step(queues: bool, topic: bool, buckets: int, filed: int) -> None:
    table = new_table()
    first = add(table, "first", 3)
    killed(table, queues=queues, topic=topic, buckets=buckets)
    again = TopicTable(table.memory, "registry")
    assert repair(again) == filed
    assert repair(again) == 0
    if not topic:
        assert again.find("late") is None
        assert (again.queue_count, again.topic_count) == (3, 1)
        assert add(again, "other", 2) == [3, 4]
        assert add(again, "late") == [5, 6, 7, 8]
    found = again.find("late")
    assert found is not None
    assert [again.slot("late", queue_id) for queue_id in range(4)] == list(found.slots)
    assert [again.slot("first", queue_id) for queue_id in range(3)] == first


def test_a_topic_grows_out_of_its_row() -> None:
    table = new_table()
    add(table, "t", 2)
    add(table, "u", 1)
    grow(table, 0, 4)
    grow(table, 1, 2)
    grow(table, 0, 5)
    grow(table, 0, 3)
    for seen in (table, TopicTable(table.memory)):
        assert [topic.slots for topic in seen.topics()] == [(0, 1, 3, 4, 6), (2, 5)]
    assert [table.queue(slot) for slot in (3, 4, 6, 5)] == [(0, 2), (0, 3), (0, 4), (1, 1)]
    assert all(table.queue_word(slot, "mark").load() == NO_MARK for slot in range(7))
    with pytest.raises(TableFull, match="max_queues"):
        grow(table, 0, 49)
    assert repair(table) == 0
    assert table.topic(0).slots == (0, 1, 3, 4, 6)


def test_a_topic_without_queues_grows() -> None:
    """Its first queues have no other one to take their `since` from."""
    table = new_table()
    table.add_topic("t", write_nums=0, read_nums=0, perm=6)
    assert table.topic(0).slots == ()
    grow(table, 0, 2, since=500)
    grow(table, 0, 3)
    assert table.topic(0).slots == (0, 1, 2)
    assert [table.queue_word(slot, "since").load() for slot in range(3)] == [500] * 3
    assert [table.slot("t", queue_id) for queue_id in range(4)] == [0, 1, 2, -1]


@pytest.mark.parametrize("filed", range(4))
def test_repair_finishes_growth(filed: int) -> None:
    table = new_table()
    add(table, "t", 2)
    grow(table, 0, 3)
    for slot in range(3, 6):
        table.write_queue(slot, 0, slot, 0)
    table.count_queues(6)
    for slot in range(3, 3 + filed):
        insert_bucket(table.memory, slot)
    assert repair(table) == 3
    assert repair(table) == 0
    assert table.topic(0).slots == tuple(range(6))
    assert add(table, "u", 2) == [6, 7]


def delete(table: TopicTable, name: str) -> None:
    topic = table.find(name)
    assert topic is not None
    table.set_topic(topic.index, state=TopicState.DELETING)
    retire(table, topic.index)
    end_deletion(table, topic.index)


def test_a_new_topic_takes_the_place_of_a_deleted_one() -> None:
    table = new_table()
    other = TopicTable(table.memory)
    for name in ("t", LONG_TOPIC):
        add(table, name, 3)
        assert other.find(name) is not None
        delete(table, name)
        assert other.find(name) is table.find(name) is None
    assert other.deletions == 2
    assert list(table.topics()) == []
    # A record of it still finds its queue, which takes none.
    assert [table.slot(LONG_TOPIC, queue_id) for queue_id in range(3)] == [3, 4, 5]
    assert all(table.is_deleted(slot) for slot in range(6))
    topic = table.add_topic(LONG_TOPIC, write_nums=2, read_nums=2, perm=6, since=700)
    assert topic.slots == (6, 7)
    assert [table.slot(LONG_TOPIC, queue_id) for queue_id in range(3)] == [6, 7, 5]
    found = other.find(LONG_TOPIC)
    assert found == topic
    assert [table.queue_word(slot, "since").load() for slot in (5, 6, 7)] == [DELETED, 700, 700]
    grow(table, topic.index, 4)
    assert table.topic(topic.index).slots == (6, 7, 8, 9)
    assert [table.slot(LONG_TOPIC, queue_id) for queue_id in range(5)] == [6, 7, 8, 9, -1]
    assert table.queue_word(9, "since").load() == 700
    assert repair(table) == 0
    assert [entry.state for entry in table.entries()] == [2, 2, 0]


def test_repair_puts_a_new_topic_into_the_place_of_a_deleted_one() -> None:
    table = new_table()
    add(table, "t", 3)
    delete(table, "t")
    at = table._header("buckets_at")
    kept = bytes(table.view[at : table._grants_at])
    add(table, "t", 3)
    table.view[at : table._grants_at] = kept
    assert table.slot("t", 0) == 0
    assert repair(table) == 3
    assert [table.slot("t", queue_id) for queue_id in range(3)] == [3, 4, 5]
