"""A quick poll takes of all queues, gives each message once, and waits as long as it is told."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, cast

import pytest
from support.quick_members import ANY, LONG_S, Member, later

from silomq.client.groups._assigned_queue import AssignedQueue
from silomq.client.groups._quick_turns import QuickTurns
from silomq.client.groups.subscription import Selection
from silomq.store.disk.files import Folder
from silomq.store.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from silomq.client.consuming.message_view import MessageView


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    with Folder.open(tmp_path) as folder:
        yield Member(folder, 5)


def polled(
    member: Member, limit: int = ANY, max_bytes: int = ANY, wait_s: float = 0.0
) -> list[tuple[int, int]] | None:
    """(queue id, offset) of the messages of a poll."""
    read = set[AssignedQueue]()
    found = member.turns.poll(read, limit, max_bytes, time.monotonic() + wait_s)
    if found is None:
        return None
    given = [(message.queue[1], message.queue_offset) for message in found]
    assert {assigned.queue[1] for assigned in read} == {queue for queue, _ in given}
    return given


def test_a_poll_takes_of_all_queues_in_turn(member: Member) -> None:
    member.two.arrive(3)
    assert polled(member, 2) == [(3, 0), (3, 1)]
    assert polled(member) == [(4, 0), (4, 1), (4, 2), (3, 2), (3, 3), (3, 4)]
    assert member.turns.take_counts() == (3, 0, 8)
    assert polled(member) == []
    assert member.turns.take_counts() == (0, 1, 0)
    assert member.acknowledged() == [0, 0]


def test_a_poll_ends_at_a_number_of_bytes(member: Member) -> None:
    member.two.arrive(3)
    first = member.turns.poll(set(), 1, ANY, 0.0)
    assert first is not None
    size = first[0].size
    assert polled(member, max_bytes=size) == [(4, 0)]
    assert polled(member, max_bytes=1) == [(3, 1)], "one always comes"
    assert polled(member, max_bytes=2 * size + 1) == [(4, 1), (4, 2), (3, 2)]


def test_a_poll_waits_no_longer_than_it_is_told(member: Member) -> None:
    assert len(polled(member) or []) == 5
    member.looked(LONG_S)
    assert polled(member, wait_s=0.05) == []

    def send() -> None:
        member.two.arrive(1)
        member.two.arrival.wake()

    with later(send, 0.05):
        assert polled(member, wait_s=LONG_S) == [(4, 0)]
    member.looked(-1.0)
    assert polled(member, wait_s=LONG_S) is None, "the session must be looked at"
    assert polled(member) == [], "for what is there no look is needed"
    member.one.arrive(1)
    assert polled(member, wait_s=sys.float_info.max) == [(3, 5)]


def test_a_poll_returns_what_it_has_before_something_else_is_to_do(member: Member) -> None:
    member.two.arrive(3)
    member.two.map(0, 2)
    assert polled(member, 5) == [(3, 0), (3, 1), (3, 2), (3, 3), (3, 4)]
    assert polled(member) == [(4, 0), (4, 1)]
    assert polled(member) is None
    member.notice.add(1)
    assert polled(member) is None


class Fails:
    """A filter that fails at a queue's second message."""

    chosen = None
    takes_all = False

    def __init__(self, error: BaseException) -> None:
        self.error: BaseException | None = error

    def select(self, messages: list[MessageView]) -> list[MessageView]:
        if self.error and any(message.queue_offset == 1 for message in messages):
            raise self.error
        return messages


def failing(member: Member, error: BaseException) -> Fails:
    """Has the filter of the second queue, with three messages, fail."""
    found = Fails(error)
    member.two.arrive(3)
    member.turns = QuickTurns(
        member.lock,
        [member.notice, member.one.arrival, member.two.arrival],
        member.queues,
        [Selection("TAG", "*"), cast("Selection", found)],
        member.one.wrote,
    )
    member.looked()
    return found


def test_what_no_caller_got_comes_again(member: Member) -> None:
    """A filter of one queue is interrupted when messages of another one were read."""
    selection = failing(member, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        polled(member)
    assert all(queue.acknowledge_all() for queue in member.queues)
    assert member.acknowledged() == [0, 0]
    selection.error = None
    assert polled(member) == [*((4, i) for i in range(3)), *((3, i) for i in range(5))]


def test_a_damaged_message_is_told_after_those_of_other_queues(member: Member) -> None:
    failing(member, Corrupt("", 0, "damaged"))
    assert polled(member) == [*((3, i) for i in range(5)), (4, 0)]
    with pytest.raises(Corrupt):
        polled(member)
    member.one.arrive(1)
    assert polled(member) == [(3, 5)]
