"""The topic table: adding, finding, and what a registry killed half-way leaves."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from support.append_rig import LONG_TOPIC

from silomq.shm._words import OwnedWord
from silomq.shm.ownership import READER, NotTheWriter
from silomq.store.topics._table import find_queue, insert_bucket, queue_hash
from silomq.store.topics.table_changes import end_deletion, grow, repair, retire
from silomq.store.topics.table_layout import HEADER, QUEUE, WRITERS, Plan
from silomq.store.topics.topic_table import (
    DELETED,
    NO_MARK,
    TableFull,
    TopicState,
    TopicTable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PLAN = Plan(max_topics=20, max_queues=50, max_sessions=3)


def new_table(plan: Plan = PLAN) -> TopicTable:
    return TopicTable.create(bytearray(plan.size), plan)


def add(table: TopicTable, name: str, nums: int = 4) -> list[int]:
    return list(table.add_topic(name, write_nums=nums, read_nums=nums, perm=6).slots)


def test_what_was_added_is_found() -> None:
    rng = random.Random(1)
    table = new_table(Plan(max_topics=300, max_queues=1200, max_sessions=1))
    names = ["ä", "t", LONG_TOPIC, "x" * 255, *(f"topic-{n}" for n in range(250))]
    slots = {name: add(table, name, rng.randrange(1, 6)) for name in names}
    other = TopicTable(table.memory)
    for index, (name, mine) in enumerate(slots.items()):
        for seen in (table, other):
            found = seen.find(name)
            assert found is not None
            assert (found.index, found.name, list(found.slots)) == (index, name, mine)
            assert [seen.slot(name, queue_id) for queue_id in range(len(mine))] == mine
            assert seen.slot(name, len(mine)) == -1
        for queue_id, slot in enumerate(mine):
            assert table.queue(slot) == (index, queue_id)
            assert table.queue_word(slot, "mark").load() == NO_MARK
    assert table.find("missing") is None
    assert table.slot("missing", 0) == -1
    assert [topic.name for topic in other.topics()] == names


def test_read_and_write_numbers_may_differ() -> None:
    table = new_table()
    topic = table.add_topic("t", write_nums=2, read_nums=5, perm=4)
    assert (topic.write_queue_nums, topic.read_queue_nums, topic.perm) == (2, 5, 4)
    assert topic.slots == tuple(range(5))
    assert table.slot("t", 4) == 4


def test_a_full_table_says_what_to_raise() -> None:
    table = new_table()
    add(table, "a", 49)
    with pytest.raises(TableFull, match="max_queues"):
        add(table, "b", 2)
    assert table.find("b") is None
    add(table, "b", 1)
    few = new_table(Plan(max_topics=1, max_queues=8, max_sessions=1))
    add(few, "a")
    with pytest.raises(TableFull, match="max_topics"):
        add(few, "b", 1)


def test_a_full_table_is_searched_to_an_end() -> None:
    plan = Plan(max_topics=64, max_queues=64, max_sessions=1)
    table = new_table(plan)
    assert plan.buckets >= 2 * plan.max_queues
    for number in range(64):
        add(table, f"t{number}", 1)
    assert [table.slot(f"t{number}", 0) for number in range(64)] == list(range(64))
    assert all(table.slot(f"t{number}", 1) == -1 for number in range(1000))


def test_words_of_queues() -> None:
    table = new_table()
    add(table, "t", 3)
    for slot in range(3):
        table.own_queue_word(slot, "next").store(10 + slot)
    assert table.queue_column("next") == [10, 11, 12]
    assert table.queue_column("max_offset") == [0, 0, 0]
    with pytest.raises(IndexError):
        table.queue_word(PLAN.max_queues, "next")
    with pytest.raises(IndexError):
        table.queue_word(-1, "next")


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


def test_grants() -> None:
    table = new_table(Plan(max_topics=600, max_queues=600, max_sessions=3))
    for number in range(600):
        add(table, f"t{number}", 1)
    start, end = table._grant_range(1)
    for topic in (0, 7, 8, 511, 512, 599):
        table.grant(1, topic)
    bits = int.from_bytes(table.view[start:end], "little")
    assert {topic for topic in range(8 * (end - start)) if bits >> topic & 1} == {
        0, 7, 8, 511, 512, 599,
    }  # fmt: skip
    for session in (0, 2):
        start, end = table._grant_range(session)
        assert not any(table.view[start:end])
    table.revoke_all(1)
    assert not any(table.view[slice(*table._grant_range(1))])
    assert table._grant_range(2)[1] <= len(table.view)


@pytest.mark.parametrize("role", ["registry", "append", "reput", "clean", "schedule", READER])
def test_each_word_of_a_queue_has_one_writer(role: str) -> None:
    made = new_table()
    (slot,) = add(made, "t", 1)
    table = TopicTable(made.memory, role)
    for field in ("next", "previous", "mark", "max_offset", "since", "min_offset"):
        writer = WRITERS["queue"][field]
        if writer == role:
            assert type(table.own_queue_word(slot, field)) is OwnedWord
        else:
            with pytest.raises(NotTheWriter, match=f"{field} of a queue .* by {writer} alone"):
                table.own_queue_word(slot, field)
        assert not hasattr(table.queue_word(slot, field), "store")


@pytest.mark.parametrize("role", ["registry", "append", "supervisor", READER])
def test_only_the_registry_changes_topics_and_sessions(role: str) -> None:
    made = new_table()
    add(made, "t", 1)
    table = TopicTable(made.memory, role)
    calls: list[Callable[[], object]] = [
        lambda: add(table, "u", 1),
        lambda: table.write_queue(2, 0, 1, 0),
        lambda: table.file_queue(0),
        lambda: table.set_topic(0, perm=4),
        lambda: table.count_topics(2),
        lambda: table.count_queues(2),
        table.count_deletion,
        lambda: grow(table, 0, 2),
        lambda: retire(table, 0),
        lambda: end_deletion(table, 0),
        lambda: table.grant(0, 0),
        lambda: table.grant_all(0),
        lambda: table.revoke(0, 1),
        lambda: table.revoke_all(0),
        lambda: table.lease(0, 5),
        lambda: table.notify(0),
    ]
    before = bytes(made.view)
    for call in calls:
        if role == "registry":
            call()
        else:
            with pytest.raises(NotTheWriter, match=f"by registry alone, and {role} asked"):
                call()
    assert (bytes(made.view) == before) is (role != "registry")


def test_an_entry_that_counts_is_not_written_again() -> None:
    table = new_table()
    add(table, "t", 2)
    with pytest.raises(AssertionError, match="the entry counts"):
        table.write_queue(1, 0, 1, 0)


def test_hash_tells_names_and_numbers_apart() -> None:
    names = [b"a", b"b", b"ab", b"ba", b"a" * 7, b"a" * 8, b"a" * 9, b"a" * 16, b"a" * 255]
    hashes = {queue_hash(name, queue_id) for name in names for queue_id in (0, 1, 2**31)}
    assert len(hashes) == 3 * len(names)


def test_a_table_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="not a topic table"):
        TopicTable(bytearray(8192))
    table = new_table()
    OwnedWord(table.memory, HEADER["version"][0]).store(2)
    with pytest.raises(ValueError, match="not a topic table"):
        TopicTable(table.memory)


def test_entries_share_no_cache_line_with_other_writers() -> None:
    lines = {name: at // 64 for name, (at, _) in QUEUE.items()}
    assert len({lines["hash"], lines["next"], lines["max_offset"], lines["min_offset"]}) == 4
    assert find_queue(new_table().memory, b"t", 0) == -1


def test_leases() -> None:
    table = new_table(PLAN)
    assert table.leases() == []
    table.lease(0, 0)
    table.lease(2, 700)
    assert table.leases() == [0, 700]
    table.lease(2, 900)
    table.lease(0, None)
    assert table.leases() == [900]
    table.revoke_all(2)
    assert table.leases() == []
    assert table._leases_at >= table._grants_at + 3 * table._grant_stride
    assert table._leases_at + 8 * PLAN.max_sessions <= PLAN.size


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


def test_a_topic_is_taken_back_from_all() -> None:
    table = new_table()
    for name in "abc":
        add(table, name, 1)
    for session in (0, 2):
        for topic in range(3):
            table.grant(session, topic)
    table.revoke(1, 2)  # of the clients' sessions alone
    assert [table.view[table._grant_range(session)[0]] for session in range(3)] == [5, 0, 7]
    table.revoke(1, 3)
    assert [table.view[table._grant_range(session)[0]] for session in range(3)] == [5, 0, 5]
