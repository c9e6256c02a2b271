"""The topic table: adding, finding, and what a registry killed half-way leaves."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from support.frames import LONG_TOPIC
from support.small_tables import PLAN, add, new_table

from silomq.shm._words import OwnedWord
from silomq.shm.ownership import READER, NotTheWriter
from silomq.store.topics._table import find_queue, queue_hash
from silomq.store.topics.table_changes import end_deletion, grow, retire
from silomq.store.topics.table_layout import HEADER, QUEUE, WRITERS, Plan
from silomq.store.topics.topic_table import (
    NO_MARK,
    TableFull,
    TopicTable,
)

if TYPE_CHECKING:
    from collections.abc import Callable


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


def test_each_queue_has_its_words() -> None:
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


def test_a_grant_is_one_bit_of_one_session() -> None:
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


def test_leases_of_sessions_are_told() -> None:
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
