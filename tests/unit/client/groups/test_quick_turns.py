"""Quick turns give each message once, and end when there is something else to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from support.quick_members import ANY, LONG_S, Calls, Member, later

from silomq.client.groups._assigned_queue import AssignedQueue
from silomq.client.groups._quick_turns import QuickTurns
from silomq.client.groups.messages_ahead import MessagesAhead
from silomq.client.groups.subscription import Selection
from silomq.store.disk.files import Folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from silomq.client.consuming.message_view import MessageView


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    with Folder.open(tmp_path) as folder:
        yield Member(folder, 5)


def test_each_message_is_given_once_and_acknowledged(member: Member) -> None:
    calls = Calls()
    member.two.arrive(3)
    assert member.run(calls, limit=2) is None
    assert calls.given == [0, 1, 0, 1, 2, 3, 2, 4], "the queues take turns"
    assert member.acknowledged() == [5, 3]
    found, missed, messages = member.turns.take_counts()
    assert (found, messages) == (5, 8)
    assert missed > 0
    assert member.turns.take_counts() == (0, 0, 0)


def test_what_is_not_consumed_is_sent_back(member: Member) -> None:
    def do(at: int) -> object:
        if at == 3:
            raise SystemExit
        return at != 1

    calls = Calls(do)
    assert member.run(calls) is None
    assert calls.given == [0, 1, 2, 3, 4]
    assert calls.returned == [1, 3]
    assert calls.failed == [3]
    assert member.acknowledged() == [1, 0]


def test_another_assignment_is_taken_between_two_callbacks(member: Member) -> None:
    calls = Calls(lambda at: member.notice.store(at + 1) if at == 1 else None)
    assert member.run(calls) == (member.queues[0], [2, 3, 4])
    assert calls.given == [0, 1]
    assert member.acknowledged() == [2, 0]
    assert member.run(calls) is None
    assert calls.given == [0, 1], "not before it was taken"


def test_a_listener_that_is_to_end_calls_no_more(member: Member) -> None:
    calls = Calls(lambda at: setattr(calls, "_stopping", at == 1))
    assert member.run(calls) is None
    assert calls.given == [0, 1]
    assert member.acknowledged() == [2, 0]
    assert member.run(calls) is None
    assert calls.given == [0, 1]


def test_a_member_that_has_left_acknowledges_nothing(member: Member) -> None:
    calls = Calls(lambda at: setattr(member.turns, "closed", at == 1))
    assert member.run(calls) is None
    assert member.acknowledged() == [1, 0]


def test_an_acknowledgement_in_a_callback(member: Member) -> None:
    calls = Calls(member.queues[0].acknowledge)
    assert member.run(calls) is None
    assert calls.returned == []
    assert member.acknowledged() == [5, 0]


def test_a_message_wakes_it(member: Member) -> None:
    calls = Calls()
    member.run(calls)
    member.looked(LONG_S)

    def send() -> None:
        member.two.arrive(1)
        member.two.arrival.wake()

    def end() -> None:
        member.notice.add(1)
        member.notice.wake()

    with later(send, 0.05), later(end, 0.1):
        assert member.run(calls) is None
    assert calls.given == [0, 1, 2, 3, 4, 0]


def test_what_comes_after_the_look_ends_the_sleep(member: Member) -> None:
    """Nobody wakes it: the word has changed, so the kernel does not let it sleep."""
    calls = Calls(lambda at: setattr(calls, "_stopping", at == 5))
    member.looked(LONG_S)
    released = 0

    def after() -> None:
        nonlocal released
        released += 1
        if released == 7:  # a look that found five messages, five acknowledgements, and a look
            member.one.arrive(1)

    member.lock.after = after
    assert member.run(calls) is None
    assert calls.given == [0, 1, 2, 3, 4, 5]


def test_it_does_not_sleep_without_a_look_at_the_session(member: Member) -> None:
    calls = Calls()
    member.looked(-1.0)
    assert member.run(calls) is None
    assert calls.given == [0, 1, 2, 3, 4], "for what is there no look is needed"


def test_it_does_not_sleep_while_it_may_hold_an_old_file(member: Member) -> None:
    calls = Calls()
    member.looked(LONG_S, most_written=member.one.wrote.load() - 1)
    assert member.run(calls) is None
    assert calls.given == [0, 1, 2, 3, 4]


def test_what_is_not_mapped_is_left_to_the_caller(member: Member) -> None:
    calls = Calls()
    member.looked(LONG_S)
    member.one.map(0, 3)
    assert member.run(calls) is None
    assert calls.given == [0, 1, 2]


def test_a_full_window_is_left_to_the_caller(member: Member) -> None:
    window = member.queues[0].window
    member.looked(LONG_S)
    member.one.arrive(window)
    ahead, read = MessagesAhead(), set[AssignedQueue]()
    assert member.turns.read_ahead(ahead, read, ANY)
    assert len(ahead) == window
    assert not member.turns.read_ahead(ahead, read, ANY)


def test_unwanted_messages_are_passed_over_and_acknowledged(member: Member) -> None:
    member.turns = QuickTurns(
        member.lock,
        [member.notice, member.one.arrival],
        member.queues[:1],
        [Selection("TAG", "other")],
        member.one.wrote,
    )
    member.looked()
    calls = Calls()
    assert member.run(calls) is None
    assert calls.given == []
    assert member.acknowledged() == [5, 0]


class From40:
    """A filter that looks into the messages."""

    chosen = None
    takes_all = False

    def select(self, messages: list[MessageView]) -> list[MessageView]:
        return [message for message in messages if message.queue_offset >= 40]


def test_it_goes_on_behind_a_batch_of_which_nothing_passes_the_filter(member: Member) -> None:
    selection = cast("Selection", From40())
    member.one.arrive(37)
    member.turns = QuickTurns(
        member.lock,
        [member.notice, member.one.arrival],
        member.queues[:1],
        [selection],
        member.one.wrote,
    )
    member.looked(-1.0)
    calls = Calls()
    assert member.run(calls) is None
    assert calls.given == [40, 41]
    assert member.acknowledged() == [42, 0]


def test_each_queue_has_its_filter(member: Member) -> None:
    with pytest.raises(ValueError, match="1 filters"):
        QuickTurns(
            member.lock, [member.notice], member.queues, [Selection("TAG", "*")], member.one.wrote
        )


def test_an_iteration_reads_ahead(member: Member) -> None:
    ahead, read = MessagesAhead(), set[AssignedQueue]()
    assert member.turns.read_ahead(ahead, read, 3)
    assert [message.queue_offset for message in ahead] == [0, 1, 2]
    assert read == {member.queues[0]}
    assert member.acknowledged() == [0, 0]
    ahead.clear()
    assert member.turns.read_ahead(ahead, read, 3)
    assert not member.turns.read_ahead(ahead, read, 3), "there is nothing more"
    assert [message.queue_offset for message in ahead] == [3, 4]
    assert member.queues[0].acknowledge(0)
    assert member.acknowledged() == [1, 0]
