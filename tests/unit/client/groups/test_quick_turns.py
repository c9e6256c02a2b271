"""Quick turns give each message once, and end when there is something else to do."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import pytest
from support.mapped_queues import QueueInMemory

from silomq.client.groups._assigned_queue import AssignedQueue
from silomq.client.groups._quick_turns import QuickTurns
from silomq.client.groups.messages_ahead import MessagesAhead
from silomq.client.groups.subscription import Selection
from silomq.client.liveness import RECENT_S
from silomq.store.disk.files import Folder
from silomq.store.groups import ack_file
from silomq.store.groups.ack_file import About, AckReader, AckWriter, Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from silomq.client.consuming.cursor import Cursor
    from silomq.client.consuming.message_view import MessageView
    from silomq.client.groups.listener import Listener

ANY = sys.maxsize
#: Longer than any of these tests takes, s.
LONG_S = 3600.0


class Calls:
    """A listener: what it was called for, and what it sent back."""

    def __init__(self, do: Callable[[int], object] = lambda _: None) -> None:
        self._stopping = False
        self._do = do
        self.given: list[int] = []
        self.failed: list[int] = []
        self.returned: list[int] = []

    def _callback(self, message: MessageView) -> object:
        self.given.append(message.queue_offset)
        return self._do(message.queue_offset)

    def _note_failure(self, message: MessageView) -> None:
        self.failed.append(message.queue_offset)

    def _send_back(self, message: MessageView) -> None:
        self.returned.append(message.queue_offset)


class Lock:
    """Counts how often it was let go, and then calls `after`."""

    def __init__(self) -> None:
        self.after: Callable[[], object] = lambda: None
        self.held = threading.RLock()

    def __enter__(self) -> None:
        self.held.acquire()

    def __exit__(self, *_: object) -> None:
        self.held.release()
        self.after()


class Member:
    """Two queues of a member, whose turns these are."""

    def __init__(self, folder: Folder, there: int) -> None:
        self.folder = folder
        about = About(
            "g", 7, "clustering", "", {"topic": ("TAG", "*")}, [("topic", 3), ("topic", 4)]
        )
        ack_file.create(folder, 1, about, [Progress(0), Progress(0)])
        fds = ack_file.hand_out(folder, 1)
        writer = AckWriter(*fds)
        for fd in fds:
            os.close(fd)
        self.one, self.two = QueueInMemory(2100, there), QueueInMemory(10, 0)
        self.queues = [
            AssignedQueue(("topic", 3 + i), cast("Cursor", queue.cursor), writer, i)
            for i, queue in enumerate((self.one, self.two))
        ]
        self.lock = Lock()
        self.notice = self.one.notice
        self.turns = QuickTurns(
            self.lock,
            [self.notice, self.one.arrival, self.two.arrival],
            self.queues,
            [Selection("TAG", "*")] * 2,
            self.one.wrote,
        )
        self.looked()

    def looked(self, seconds: float = 0.0, most_written: int = ANY) -> None:
        """The session was looked at at this moment, seconds from now."""
        until_s = time.monotonic() + seconds + RECENT_S
        self.turns.begin(self.notice.load(), most_written, until_s)

    def run(self, calls: Calls, limit: int = 32) -> tuple[AssignedQueue, list[int]] | None:
        left = self.turns.call_back(cast("Listener", calls), limit, ANY)
        if left is None:
            return None
        return left[0], [message.queue_offset for message in left[1]]

    def acknowledged(self) -> list[int]:
        progress = AckReader(self.folder, 1).progress()
        return [progress["topic", 3].offset, progress["topic", 4].offset]


@contextmanager
def later(do: Callable[[], object], seconds: float) -> Iterator[None]:
    thread = threading.Timer(seconds, do)
    thread.start()
    try:
        yield
    finally:
        thread.join()


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
