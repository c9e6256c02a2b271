"""A queue of a group's member: acknowledged messages are in the ack file and never read again."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.client.consuming.message_view import MessageView
from silomq.client.groups._assigned_queue import AssignedQueue
from silomq.store.disk.files import Folder
from silomq.store.groups import ack_file
from silomq.store.groups.ack_file import About, AckReader, AckWriter, Progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from silomq.client.consuming.cursor import Cursor

QUEUE = ("topic", 3)
ABOUT = About("g", 7, "clustering", "", {"topic": ("TAG", "*")}, [QUEUE])
END = 3000


class Endless:
    """A cursor in a queue of END messages."""

    def __init__(self, start: int = 0) -> None:
        self.next = start

    def read(self, limit: int, _codes: frozenset[int] | None, _max_bytes: int) -> list[MessageView]:
        first, self.next = self.next, min(END, self.next + limit)
        return [MessageView(b"not parsed", offset) for offset in range(first, self.next)]


class Member:
    """An assigned queue with its ack files; a later file goes on where the one before it was."""

    def __init__(self, folder: Folder, start: Progress) -> None:
        self.folder = folder
        self.files = 0
        cursor = cast("Cursor", Endless(start.offset))
        self.queue = AssignedQueue(QUEUE, cursor, self._writer(start), 0)

    def _writer(self, start: Progress) -> AckWriter:
        self.files += 1
        ack_file.create(self.folder, self.files, ABOUT, [start])
        fds = ack_file.hand_out(self.folder, self.files)
        try:
            return AckWriter(*fds)
        finally:
            for fd in fds:
                os.close(fd)

    def progress(self) -> Progress:
        return AckReader(self.folder, self.files).progress()[QUEUE]

    def move(self) -> None:
        self.queue.move_to(self._writer(self.progress()), 0)

    def read(self, count: int) -> list[int]:
        found = self.queue.read(count, None, 1 << 20)
        if found:
            self.queue.hand_out(found)
        return [message.queue_offset for message in found]


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    with Folder.open(tmp_path) as folder:
        yield Member(folder, Progress(0))


STEPS = st.lists(
    st.tuples(st.sampled_from(["read", "read", "ack", "ack", "rewind", "move"]), st.integers(0, 60))
)


@given(STEPS, st.sets(st.integers(1, 50), max_size=20))
def test_what_is_acknowledged_is_never_read_again(
    steps: list[tuple[str, int]], before: set[int]
) -> None:
    with tempfile.TemporaryDirectory() as path, Folder.open(path) as folder:
        member = Member(folder, Progress(0, frozenset(before)))
        acked, out = set(before), set[int]()
        for step, number in steps:
            if step == "read":
                fresh = set(member.read(number))
                assert not fresh & (acked | out)
                out |= fresh
            elif step == "ack":
                assert member.queue.acknowledge(number) == (number in out)
                if number in out:
                    out.remove(number)
                    acked.add(number)
            elif step == "rewind":
                member.queue.rewind()
                out.clear()
            else:
                member.move()
            progress = member.progress()
            assert {*range(progress.offset), *progress.beyond} == acked


def test_what_is_not_acknowledged_ends_reading_at_the_window(member: Member) -> None:
    window = member.queue.window
    assert len(member.read(window + 10)) == window
    assert member.read(10) == []
    member.queue.acknowledge(1)
    assert member.read(10) == [], "the first message still keeps the window where it is"
    member.queue.acknowledge(0)
    assert member.read(10) == [window, window + 1]


def test_the_last_message_of_the_window_may_be_acknowledged_first(member: Member) -> None:
    window = member.queue.window
    assert member.read(window + 10) == list(range(window))
    assert member.queue.acknowledge(window - 1)
    assert member.progress() == Progress(0, frozenset({window - 1}))
    member.queue.rewind()
    member.move()
    assert member.read(window) == list(range(window - 1)), "the next member does not get it"
    for at in range(window - 1):
        assert member.queue.acknowledge(at)
    assert member.progress() == Progress(window)


def test_what_is_handed_out_stays_out_whatever_the_caller_does_with_the_list(
    member: Member,
) -> None:
    queue = member.queue
    found = queue.read(5, None, 1 << 20)
    queue.hand_out(found)
    found.clear()
    assert member.progress() == Progress(0)
    assert queue.acknowledge(4)
    assert member.progress() == Progress(0, frozenset({4}))
    assert not queue.acknowledge(5)
    assert queue.acknowledge_all()
    assert member.progress() == Progress(5)


def test_a_message_that_goes_back_is_acknowledged_last(member: Member) -> None:
    queue = member.queue
    assert member.read(4) == [0, 1, 2, 3]
    assert queue.begin_return(1)
    assert not queue.begin_return(1), "another thread sends it back"
    assert not queue.begin_return(7)
    assert not queue.acknowledge(1)
    assert queue.acknowledge(2)
    assert not queue.acknowledge_all()
    assert member.progress() == Progress(0, frozenset({2}))
    queue.end_return(1, sent=False)
    assert queue.begin_return(1), "it was not sent, so it can be"
    queue.end_return(1, sent=True)
    assert member.progress() == Progress(0, frozenset({1, 2}))
    assert queue.begin_return(0)
    queue.rewind()
    queue.end_return(0, sent=True)
    assert member.progress() == Progress(0, frozenset({1, 2})), "it was rewound meanwhile"
    assert member.read(4) == [0, 3]


def test_what_was_read_ahead_is_read_again(member: Member) -> None:
    queue = member.queue
    assert member.read(6) == list(range(6))
    assert queue.acknowledge(1)
    queue.take_back(3)
    assert queue.acknowledge_all()
    assert member.progress() == Progress(3)
    assert member.read(3) == [3, 4, 5]


def test_an_acknowledgement_of_one_message_is_not_one_of_its_batch(member: Member) -> None:
    queue = member.queue
    queue.read(10, None, 1 << 20)
    queue.hand_out_batch(0)
    assert not queue.acknowledge(0)
    assert not queue.begin_return(0)
    assert member.progress() == Progress(0)


def test_a_batch_is_acknowledged_as_a_whole(member: Member) -> None:
    queue = member.queue
    queue.read(10, None, 1 << 20)
    queue.hand_out_batch(0)
    queue.read(10, None, 1 << 20)
    queue.hand_out_batch(10)
    assert member.progress() == Progress(0)
    queue.acknowledge_all()
    assert member.progress() == Progress(20)


def test_a_batch_that_was_not_wanted_is_passed_over(member: Member) -> None:
    queue = member.queue
    member.read(1)
    queue.read(9, None, 1 << 20)
    queue.hand_out_batch(1)
    queue.drop_batch()
    assert member.progress() == Progress(0), "the message before it is still handed out"
    assert queue.acknowledge(0)
    assert member.progress() == Progress(10)


def test_a_rewound_queue_is_no_longer_revoked(member: Member) -> None:
    queue = member.queue
    assert member.read(3) == [0, 1, 2]
    queue.acknowledge(1)
    queue.revoked = True
    queue.rewind()
    assert not queue.revoked
    assert not queue.acknowledge(2), "nothing is handed out"
    assert member.read(3) == [0, 2], "what is left of the next three"
