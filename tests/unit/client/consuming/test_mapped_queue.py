"""What of a queue is mapped is read without a file; for all else the caller is asked."""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from support.mapped_queues import RECORD, TAGS_CODE, QueueInMemory

from silomq.client.consuming._mapped_queue import take, unread
from silomq.store.topics.topic_table import DELETED

if TYPE_CHECKING:
    from silomq.client.consuming.message_view import MessageView

ANY = sys.maxsize


def taken(queue: QueueInMemory, limit: int = ANY, codes: array[int] | None = None) -> object:
    return offsets(queue.cursor.take_mapped(limit, codes, ANY))


def offsets(messages: list[MessageView] | None) -> list[int] | None:
    return None if messages is None else [message.queue_offset for message in messages]


@given(
    st.integers(0, 20),
    st.integers(0, 20),
    st.integers(1, 8),
    st.none() | st.sets(st.sampled_from((TAGS_CODE, TAGS_CODE + 1, 99))),
    st.integers(1, 6 * RECORD),
)
def test_it_takes_what_take_does(
    there: int, at: int, limit: int, codes: set[int] | None, max_bytes: int
) -> None:
    queue = QueueInMemory(20, there)
    queue.cursor.next = at = min(at, there)
    chosen = None if codes is None else array("i", sorted(codes))
    entries = memoryview(queue.entries)[20 * at : 20 * there]
    wanted, examined, _ = take(queue.cursor.memory, entries, at, limit, chosen, max_bytes)
    found = queue.cursor.take_mapped(limit, chosen, max_bytes)
    assert found is not None
    assert [(m.queue_offset, m.place, m.record) for m in found] == [
        (m.queue_offset, m.place, m.record) for m in wanted
    ]
    assert queue.cursor.next == at + examined


def test_what_arrives_is_taken_next() -> None:
    queue = QueueInMemory(10, 3)
    assert taken(queue) == [0, 1, 2]
    assert taken(queue) == []
    queue.arrive(2)
    assert taken(queue, 1) == [3]
    assert taken(queue) == [4]


def test_unwanted_messages_are_passed_over() -> None:
    queue = QueueInMemory(10, 5)
    assert taken(queue, codes=array("i", [99])) == []
    assert queue.cursor.next == 5


def test_a_deleted_topic_is_for_the_caller() -> None:
    queue = QueueInMemory(10, 5)
    queue.since.store(DELETED)
    assert taken(queue) is None
    assert queue.cursor.next == 0


def test_removed_messages_are_for_the_caller() -> None:
    queue = QueueInMemory(10, 5)
    queue.start.store(1)
    assert taken(queue) is None
    queue.cursor.next = 1
    assert taken(queue) == [1, 2, 3, 4]


def test_entries_that_are_not_mapped_are_for_the_caller() -> None:
    queue = QueueInMemory(10, 10)
    queue.map(2, 3)
    assert taken(queue) is None, "before the mapped file"
    queue.cursor.next = 2
    assert taken(queue) == [2, 3, 4]
    assert taken(queue) is None, "behind it"
    queue.cursor.next = 2
    assert taken(queue, codes=array("i", [99])) is None, "what is behind it may be wanted"
    assert queue.cursor.next == 5
    queue.cursor.map_entries(None, 0)
    assert taken(queue) is None


def test_records_that_are_not_mapped_are_for_the_caller() -> None:
    queue = QueueInMemory(10, 10)
    queue.cursor.memory = None
    assert taken(queue) is None


def test_a_log_file_that_is_no_longer_written_is_for_the_caller() -> None:
    """It needs a lease, and may be unmapped when the reader sleeps."""
    queue = QueueInMemory(10, 5)
    queue.wrote.store(queue.base + len(queue.log) + 1)
    assert taken(queue) is None
    queue.wrote.store(queue.base + len(queue.log))
    assert taken(queue) == [0, 1, 2, 3, 4]


def test_a_damaged_entry_is_for_the_caller_once_it_is_next() -> None:
    queue = QueueInMemory(3, 3)
    queue.entries = queue.entries[:20] + bytes(20) + queue.entries[40:]
    queue.map(0, 3)
    assert taken(queue) == [0]
    assert taken(queue) is None
    assert queue.cursor.next == 1


def test_unread_queues() -> None:
    queues = [QueueInMemory(10, there) for there in (0, 2, 5, 0)]
    queues[2].cursor.next = 5
    assert unread([queue.cursor for queue in queues]) == [1]
    queues[3].arrive(1)
    assert unread([queue.cursor for queue in queues]) == [1, 3]
