"""Random histories of several consumer groups on a real store, against a plain model of them.

Sends, polls, acknowledgements, messages sent back, members that join, leave and die, store
processes that are killed, one by one or all at once, and cleaning. What must hold: an acknowledged
message never comes again to its group; every other one does, until it is acknowledged or dead;
within a queue a member gets messages in order; dead letters are exactly those that were given up.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.cleaned_stores import await_durable, await_runs, least_offsets
from support.harness import LONG, StoreProcess
from support.small_settings import BY_HAND

from silomq import (
    Admin,
    Consumer,
    GroupConsumer,
    IllegalMessage,
    MessageView,
    NotHandedOut,
    Producer,
)
from silomq.store.names import RETRY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

QUEUES = 4
GROUPS = ("a", "b")
MOST_TRIES = 1
ACTORS = ("append", "reput", "registry", "flush", "schedule", "clean")
SETTINGS = {
    **BY_HAND,  # cleans only when asked, then MANUAL_RUNS times
    "clean_resource_interval_ms": 10,
    "max_topics": 20_000,
    "max_queues": 40_000,
    "flush_consumer_offset_interval_ms": 300,
}
_numbers = itertools.count()
_store: list[StoreProcess] = []


class Group:
    """What the model knows of a group: message number -> tries so far, for what is still to come;
    the numbers of what is done with.
    """

    def __init__(self) -> None:
        self.due: dict[int, int] = {}
        self.acked: set[int] = set()
        self.dead: list[int] = []
        self.letters: list[int] = []  # of the dead, those whose letter was not cleaned away


class Groups(RuleBasedStateMachine):
    """One history, with a topic and groups of its own."""

    @initialize(crash=st.booleans())
    def begin(self, *, crash: bool) -> None:
        """A new topic, one member in each group."""
        self.store = _store[0]
        self.run = next(_numbers)
        self.topic = f"t{self.run}"
        self.sent = itertools.count()
        self.place: dict[int, tuple[int, int]] = {}  # number -> queue, queue offset
        self.groups = {name: Group() for name in GROUPS}
        self.members: dict[str, list[GroupConsumer]] = {name: [] for name in GROUPS}
        self.hands: dict[GroupConsumer, dict[int, MessageView]] = {}
        self.may_crash = crash  # once: that takes longer than all the rest
        self.producer = Producer(self.store.path, timeout=30.0)
        with Admin(self.store.path) as admin:
            admin.create_topic(self.topic, QUEUES)
        for name in GROUPS:
            self.join(name)

    def name_of(self, group: str) -> str:
        return f"{group}{self.run}"

    @rule(group=st.sampled_from(GROUPS))
    def join(self, group: str) -> None:
        if len(self.members[group]) < 3:
            member = GroupConsumer(
                self.store.path,
                self.name_of(group),
                self.topic,
                start="earliest",
                auto_ack=False,
                max_reconsume_times=MOST_TRIES,
            )
            self.members[group].append(member)
            self.hands[member] = {}

    @rule(count=st.integers(1, 60), size=st.sampled_from((0, 0, 3000)))
    def send(self, count: int, size: int) -> None:
        for _ in range(count):
            number = next(self.sent)
            body = b"%d " % number + b"." * size
            result = self.producer.send(self.topic, body, queue=number % QUEUES)
            self.place[number] = (number % QUEUES, result.queue_offset)
            for group in self.groups.values():
                group.due[number] = 0

    @rule(group=st.sampled_from(GROUPS), who=st.integers(0, 2), most=st.integers(1, 80))
    def poll(self, group: str, who: int, most: int) -> None:
        members = self.members[group]
        if members:
            self.take(group, members[who % len(members)], most, 0.01)

    def take(self, group: str, member: GroupConsumer, most: int, timeout: float) -> int:
        """Polls, and checks what comes against the model."""
        known, hand = self.groups[group], self.hands[member]
        messages = member.poll(most, timeout)
        last: dict[tuple[str, int], int] = {}
        for message in messages:
            number = int(message.body.split()[0])
            assert number not in known.acked, f"{number} was acknowledged and came again"
            assert number not in known.dead, f"{number} was given up and came again"
            assert message.reconsume_times == known.due[number], number
            queue = (message.topic, message.queue_id)
            assert message.queue_offset > last.get(queue, -1), "out of order"
            last[queue] = message.queue_offset
            if not message.topic.startswith(RETRY_PREFIX):
                assert (message.queue_id, message.queue_offset) == self.place[number]
            hand[number] = message
        return len(messages)

    @rule(group=st.sampled_from(GROUPS), who=st.integers(0, 2), seed=st.integers(0, 99))
    def ack(self, group: str, who: int, seed: int) -> None:
        """Some of what a member has in hand, in any order. What that is depends on how fast the
        store was: which of it, a seed decides, and not Hypothesis.
        """
        members = self.members[group]
        if not members:
            return
        member = members[who % len(members)]
        hand = self.hands[member]
        rng = random.Random(seed)
        for number in rng.sample(sorted(hand), rng.randint(0, len(hand))):
            self.acknowledge(group, member, number)

    def acknowledge(self, group: str, member: GroupConsumer, number: int) -> None:
        message = self.hands[member].pop(number)
        if member.ack(message):  # else it went to another member meanwhile
            self.groups[group].acked.add(number)
            self.groups[group].due.pop(number, None)  # it may be gone from the log, and in hand

    @rule(group=st.sampled_from(GROUPS), who=st.integers(0, 2), dead=st.booleans())
    def send_back(self, group: str, who: int, *, dead: bool) -> None:
        members = self.members[group]
        if not members:
            return
        member = members[who % len(members)]
        hand = self.hands[member]
        if not hand:
            return
        number = min(hand)
        message = hand.pop(number)
        try:
            member.nack(message, delay_level=-1 if dead else 1)
        except NotHandedOut:
            return  # it went to another member meanwhile
        known = self.groups[group]
        if dead or message.reconsume_times >= MOST_TRIES:
            known.dead.append(number)
            known.letters.append(number)
            known.due.pop(number, None)
        else:
            known.due[number] = message.reconsume_times + 1

    @rule(group=st.sampled_from(GROUPS), who=st.integers(0, 2), killed=st.booleans())
    def leave(self, group: str, who: int, *, killed: bool) -> None:
        """A member goes, or its process dies: the store sees its socket close, no more."""
        members = self.members[group]
        if members:
            member = members.pop(who % len(members))
            if killed:
                member._reader._link.close()
            member.close()
            del self.hands[member]

    @rule(actor=st.sampled_from(ACTORS))
    def kill_one(self, actor: str) -> None:
        self.store.replace(actor)

    @precondition(lambda self: self.may_crash)
    @rule()
    def kill_all(self) -> None:
        """Every process of the store at once. Its clients' sessions are over."""
        self.may_crash = False
        for members in self.members.values():
            for member in members:
                member.close()
            members.clear()
        self.hands.clear()
        self.producer.close()
        self.store.crash()
        self.store.start()
        self.producer = Producer(self.store.path, timeout=30.0)

    @precondition(lambda self: len(self.place) > 100)
    @rule()
    def clean(self) -> None:
        """Old commit-log files go, with whatever in them was not read."""
        if any(sum(group.due.values()) for group in self.groups.values()):
            return  # a message that came back lies elsewhere in the log
        await_durable(self.store)
        for name, group in self.groups.items():
            assert self.dead_letters(name) == sorted(group.letters)
        before = self.store.control.load("min_offset")
        with Admin(self.store.path) as admin:
            admin.clean()
        await_runs(self.store)
        if self.store.control.load("min_offset") > before:
            self.forget_what_is_gone()

    def forget_what_is_gone(self) -> None:
        least = least_offsets(self.store, self.topic)
        for name, group in self.groups.items():
            left = self.dead_letters(name)
            assert set(left) <= set(group.letters)
            group.letters = left
            for number in list(group.due):
                queue, offset = self.place[number]
                if offset < least[queue]:
                    del group.due[number]

    @invariant()
    def nothing_is_in_two_hands(self) -> None:
        """Of members that have the queue: who lost one does not know before it polls."""
        for members in self.members.values():
            held = [queue for member in members for queue in member.assignment]
            assert len(held) == len(set(held))

    def teardown(self) -> None:
        try:
            self.check_all_comes()
        finally:
            for members in self.members.values():
                for member in members:
                    member.close()
            self.producer.close()

    def check_all_comes(self) -> None:
        """Whatever is due comes, once; then nothing more, and the dead are as they should be."""
        for group, known in self.groups.items():
            for other in self.members[group][1:]:
                other.close()
            self.members[group] = self.members[group][:1]
            if not self.members[group]:
                self.join(group)
            member = self.members[group][0]
            for number in list(self.hands[member]):
                self.acknowledge(group, member, number)
            deadline = time.monotonic() + 20
            while known.due:
                assert time.monotonic() < deadline, f"never came: {known.due}"
                self.take(group, member, 500, 0.05)
                for number in list(self.hands[member]):
                    self.acknowledge(group, member, number)
            assert self.take(group, member, 500, 0.1) == 0
            assert self.dead_letters(group) == sorted(known.letters)

    def dead_letters(self, group: str) -> list[int]:
        self.store.await_dispatch()
        try:
            with Consumer(self.store.path, f"%DLQ%{self.name_of(group)}") as consumer:
                found: list[MessageView] = []
                while messages := consumer.poll(5000, 0.1):  # of one commit-log file
                    found += messages
                return sorted(int(m.body.split()[0]) for m in found)
        except IllegalMessage:
            return []


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path_factory.mktemp("model") / "store", **SETTINGS) as found:
        _store.append(found)
        yield found
        _store.clear()


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("runs", [8, pytest.param(1000, marks=LONG)])
@pytest.mark.usefixtures("store")
def test_any_history_is_that_of_the_model(runs: int) -> None:
    run_state_machine_as_test(
        Groups,
        settings=settings(
            max_examples=runs,
            stateful_step_count=30,
            deadline=None,
            phases=(Phase.generate,),  # a history that failed is told; another run differs anyway
            suppress_health_check=list(HealthCheck),
            derandomize="SILOMQ_LONG" not in os.environ,
        ),
    )
