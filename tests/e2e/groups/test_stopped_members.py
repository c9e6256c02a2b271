"""Members whose process is stopped lose their queues soon; members that are only slow keep them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from e2e.groups.members import QUEUES, drain, numbers, send
from support.harness import PYTHON, eventually

from silomq import Admin, GroupConsumer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.harness import StoreProcess

    from silomq import MessageView

STOPPED_MS = 3000
#: A process that reads as a member and says what it has got, until it loses its session.
MEMBER = """
import sys
from silomq import GroupConsumer, SessionLost
path, group, topic = sys.argv[1:]
member = GroupConsumer(path, group, topic, start="earliest")
had = 0
try:
    while True:
        member.poll(100, 0.05)
        has = len(member.assignment)
        if has != had:
            print(has, flush=True)
        had = has
except SessionLost as lost:
    print("lost", lost, flush=True)
"""


@pytest.fixture(scope="module")
def store_settings() -> dict[str, Any]:
    """The time in which a queue must be given back stays a minute."""
    return {"consumer_stopped_timeout_ms": STOPPED_MS, "flush_consumer_offset_interval_ms": 500}


@contextlib.contextmanager
def other_process(store: StoreProcess, group: str, topic: str) -> Iterator[subprocess.Popen[bytes]]:
    """A member in a process of its own, once it has queues."""
    command = [*PYTHON, "-c", MEMBER, str(store.path), group, topic]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline().strip().isdigit()
        yield process
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def last_words(process: subprocess.Popen[bytes]) -> str:
    """What a member says in the end."""
    assert process.stdout is not None
    said = b""
    while line := process.stdout.readline():
        said = line
    return said.decode()


def test_a_stopped_member_gives_way_to_one_that_joins(store: StoreProcess, topic: str) -> None:
    send(store, topic, 80)
    group = f"g-{topic}"
    with other_process(store, group, topic) as stopped:
        with Admin(store.path) as admin:
            eventually(lambda: admin.group(group).lag == 0, "it has read all")
        stopped.send_signal(signal.SIGSTOP)
        with GroupConsumer(store.path, group, topic) as member:
            send(store, topic, 80)
            seen: list[int] = []

            def all_read() -> bool:
                seen.extend(numbers(member.poll(100, 0.1)))
                return len(seen) >= 80

            eventually(all_read, "it has the queues, though a minute is not over")
            assert sorted(seen) == list(range(80))
            assert len(member.assignment) == QUEUES + 1
        stopped.send_signal(signal.SIGCONT)
        assert last_words(stopped).startswith("lost")


def test_a_stopped_member_gives_way_to_one_that_shares_with_it(
    store: StoreProcess, topic: str
) -> None:
    """Nobody joins and nothing is revoked: messages wait in the queues of the stopped one."""
    group = f"g-{topic}"
    with (
        other_process(store, group, topic) as stopped,
        GroupConsumer(store.path, group, topic) as member,
    ):
        eventually(lambda: not member.poll(1) and member.assignment, "they share the queues")
        assert len(member.assignment) < QUEUES
        stopped.send_signal(signal.SIGSTOP)
        send(store, topic, 80)
        seen: list[int] = []

        def all_read() -> bool:
            seen.extend(numbers(member.poll(100, 0.1)))
            return len(seen) >= 80

        eventually(all_read, "also what lay in the other's queues")
        assert sorted(seen) == list(range(80))
        stopped.send_signal(signal.SIGCONT)
        assert last_words(stopped).startswith("lost")


class Slow:
    """A callback, or the body of a loop, that takes longer than a stopped process may."""

    def __init__(self) -> None:
        self.begun, self.over = threading.Event(), threading.Event()
        self.seen: list[int] = []

    def __call__(self, message: MessageView) -> None:
        self.seen += numbers([message])
        self.begun.set()
        assert self.over.wait(60)


class SlowMember:
    """A member with its `slow` callback, and another one that waits for its queues."""

    def __init__(self, store: StoreProcess, group: str, topic: str, stack: ExitStack) -> None:
        self.group = group
        self.slow = Slow()
        self.given: list[int] = []  # what the other one got
        self._places = (store.path, group, topic)
        self._stack = stack
        self.member = self._join()
        self._over = threading.Event()
        self._poller: threading.Thread | None = None

    def _join(self) -> GroupConsumer:
        path, group, topic = self._places
        member = GroupConsumer(path, group, topic, start="earliest", auto_ack=False)
        return self._stack.enter_context(member)

    def poll_slowly(self) -> None:
        """Uses the callback as the body of a loop."""
        self._poller = threading.Thread(target=self._poll)
        self._poller.start()

    def _poll(self) -> None:
        for message in self.member.poll(QUEUES, 10.0):
            self.slow(message)
            self.member.ack(message)
        while not self._over.is_set():
            self.slow.seen += numbers(self.member.poll(1, 0.05))
            self.member.ack_polled()

    def add_other(self) -> None:
        self.other = self._join()

    def poll_other(self) -> int:
        """How many messages the two have got so far."""
        self.given += numbers(self.other.poll(10, 0.05))
        self.other.ack_polled()
        return len(self.given) + len(self.slow.seen)

    def finish(self) -> None:
        """The callback ends. Nothing is missing then, and nothing came twice."""
        self.slow.over.set()
        eventually(lambda: self.poll_other() >= 2 * QUEUES, f"{self.group}: nothing is missing")
        both = sorted(self.slow.seen + self.given)
        assert both == sorted([*range(QUEUES), *range(QUEUES)]), f"{self.group}: nothing twice"
        self._over.set()
        if self._poller is not None:
            self._poller.join()


def test_a_member_that_is_slow_keeps_its_queues(store: StoreProcess, topic: str) -> None:
    """In a listener of one thread, in one of several, and between two polls; for as long as a
    stopped one would have lost them. A stopped member that is alone in its group keeps them too.
    """
    send(store, topic, QUEUES)
    with ExitStack() as stack, Admin(store.path) as admin:
        one, many, polls = members = [
            SlowMember(store, f"{name}-{topic}", topic, stack) for name in ("one", "many", "polls")
        ]
        one.member.listen(one.slow)
        many.member.listen(many.slow, concurrency=3)
        polls.poll_slowly()
        for each in members:
            assert each.slow.begun.wait(30)
        alone = stack.enter_context(other_process(store, f"alone-{topic}", topic))
        alone.send_signal(signal.SIGSTOP)
        send(store, topic, QUEUES)
        for each in members:
            each.add_other()
        began = time.monotonic()
        while time.monotonic() - began < 1.7 * STOPPED_MS / 1000:
            for each in members:
                each.poll_other()
        for each in members:
            assert len(admin.group(each.group).members) == 2, f"{each.group}: one was expelled"
        assert len(admin.group(f"alone-{topic}").members) == 1
        for each in members:
            each.finish()
        alone.send_signal(signal.SIGCONT)
        eventually(lambda: admin.group(f"alone-{topic}").lag == 0, "it goes on")
    for each in members:
        with GroupConsumer(store.path, each.group, topic) as member:
            assert drain(member) == [[]]
