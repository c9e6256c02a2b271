"""Listeners on a real store: who is called with what, and what becomes of failures."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from e2e.groups.members import QUEUES, drain, send
from support.harness import StoreProcess, eventually

from silomq import Admin, Consumer, GroupConsumer, IllegalArgument, StoreClosed

if TYPE_CHECKING:
    from collections.abc import Callable

    from silomq import MessageView


class Log:
    """A callback that notes its messages, and fails for those that `fails` names."""

    def __init__(self, fails: Callable[[MessageView], bool] = lambda _: False) -> None:
        self.fails = fails
        self.lock = threading.Lock()
        self.calls: list[tuple[int, int]] = []  # (number, reconsume times)
        self.done: list[int] = []

    def __call__(self, message: MessageView) -> bool | None:
        number = int(message.body)
        with self.lock:
            self.calls.append((number, message.reconsume_times))
        if self.fails(message):
            if number % 2:
                raise RuntimeError("as a callback may")
            return False
        with self.lock:
            self.done.append(number)
        return None


def dead_letters(store: StoreProcess, group: str) -> list[int]:
    with Admin(store.path) as admin:
        if f"%DLQ%{group}" not in {topic.topic for topic in admin.topics()}:
            return []
    with Consumer(store.path, f"%DLQ%{group}") as consumer:
        return sorted(int(m.body) for m in consumer.poll(1000, 0.2))


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("orderly", [False, True])
def test_every_message_once_and_acknowledged(
    store: StoreProcess, topic: str, concurrency: int, orderly: bool
) -> None:
    log = Log()
    with GroupConsumer(store.path, f"l{concurrency}{orderly}", topic) as member:
        member.listen(log, concurrency=concurrency, orderly=orderly)
        eventually(lambda: len(member.assignment) == QUEUES + 1, "queues")
        send(store, topic, 2000)
        eventually(lambda: len(log.done) == 2000, "all consumed")
        with pytest.raises(RuntimeError, match="go to the callback"):
            member.poll()
    assert sorted(log.done) == list(range(2000))
    if orderly:
        for queue in range(QUEUES):
            mine = [i for i in log.done if i % QUEUES == queue]
            assert mine == sorted(mine)
    with GroupConsumer(store.path, f"l{concurrency}{orderly}", topic) as member:
        assert drain(member) == [[]]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_what_fails_comes_again_and_then_is_dead(
    store: StoreProcess, topic: str, concurrency: int
) -> None:
    group = f"retry{concurrency}"
    log = Log(lambda m: int(m.body) < 6 and m.reconsume_times < (9 if int(m.body) < 3 else 1))
    with GroupConsumer(store.path, group, topic, max_reconsume_times=2) as member:
        member.listen(log, concurrency=concurrency, delay_level=1)
        eventually(lambda: len(member.assignment) == QUEUES + 1, "queues")
        send(store, topic, 100)
        eventually(lambda: len(log.done) == 97, "all but the hopeless")
        eventually(lambda: dead_letters(store, group) == [0, 1, 2], "the hopeless are dead")
    tries = Counter(number for number, _ in log.calls)
    assert [tries[i] for i in range(8)] == [3, 3, 3, 2, 2, 2, 1, 1]
    assert sorted(times for number, times in log.calls if number == 0) == [0, 1, 2]
    with GroupConsumer(store.path, group, topic) as member:
        assert drain(member, quiet_s=1.5) == [[]]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_orderly_a_failure_holds_up_its_queue_alone(
    store: StoreProcess, topic: str, concurrency: int
) -> None:
    group = f"orderly{concurrency}"
    tries: Counter[int] = Counter()

    def fails(message: MessageView) -> bool:
        number = int(message.body)
        tries[number] += 1
        return number == 8 or (number == 9 and tries[number] < 3)

    log = Log(fails)
    with GroupConsumer(store.path, group, topic, max_reconsume_times=4) as member:
        member.listen(log, concurrency=concurrency, orderly=True, suspend_ms=50)
        eventually(lambda: len(member.assignment) == QUEUES + 1, "queues")
        send(store, topic, 160)
        eventually(lambda: len(log.done) == 159, "all but the hopeless")
    assert (tries[8], tries[9]) == (5, 3)
    assert dead_letters(store, group) == [8]
    for queue in range(QUEUES):
        mine = [i for i in log.done if i % QUEUES == queue]
        assert mine == [i for i in range(queue, 160, QUEUES) if i != 8]
    others = [i for i in log.done if i % QUEUES > 1]
    assert log.done.index(16) > log.done.index(max(others)), "other queues did not wait"


def test_orderly_no_two_members_have_a_queue_at_once(store: StoreProcess, topic: str) -> None:
    """Members come and go while all of them work; each queue is in one callback at a time, in
    order, and nothing is consumed twice.
    """
    rng = random.Random(3)
    lock = threading.Lock()
    busy: dict[int, object] = {}
    done: dict[int, list[int]] = defaultdict(list)
    clashes: list[object] = []

    def listener_of(member: GroupConsumer) -> None:
        def consume(message: MessageView) -> None:
            queue = message.queue_id
            with lock:
                if queue in busy:
                    clashes.append((queue, member, busy[queue]))
                busy[queue] = member
            time.sleep(rng.uniform(0, 0.002))
            with lock:
                del busy[queue]
                done[queue].append(int(message.body))

        member.listen(consume, concurrency=2, orderly=True)

    with ExitStack() as stack:
        first = stack.enter_context(GroupConsumer(store.path, "strict", topic))
        listener_of(first)
        eventually(lambda: len(first.assignment) == QUEUES + 1, "queues")
        for _ in range(10):
            with GroupConsumer(store.path, "strict", topic) as guest:
                listener_of(guest)
                send(store, topic, 160)
                time.sleep(rng.uniform(0, 0.2))
        eventually(lambda: sum(map(len, done.values())) == 1600, "all consumed")
    assert not clashes
    for queue, numbers in done.items():
        assert numbers == [i for _ in range(10) for i in range(queue, 160, QUEUES)]


def test_a_listener_ends_with_the_store(store: StoreProcess, topic: str) -> None:
    member = GroupConsumer(store.path, "ends", topic)
    listener = member.listen(lambda _: None)
    with pytest.raises(RuntimeError, match="listens already"):
        member.listen(lambda _: None)
    for wrong in ({"concurrency": 0}, {"max_pending": 0}, {"suspend_ms": -1}):
        with (
            GroupConsumer(store.path, "wrong", topic) as other,
            pytest.raises(IllegalArgument, match="a whole number"),
        ):
            other.listen(lambda _: None, **wrong)  # type: ignore[arg-type]
    eventually(lambda: len(member.assignment) == QUEUES + 1, "queues")
    assert not listener.wait(0.0)
    store.stop()
    with pytest.raises(StoreClosed):
        listener.wait(10.0)
    member.close()
    store.start()


def test_slow_consumers_hold_up_nobody(store: StoreProcess, topic: str) -> None:
    """One group stops in its callback; producers and another group do not notice."""
    gate = threading.Event()
    log = Log()
    with (
        GroupConsumer(store.path, "stuck", topic) as stuck,
        GroupConsumer(store.path, "free", topic) as free,
    ):
        stuck.listen(lambda _: gate.wait(30.0), concurrency=3, max_pending=10)
        free.listen(log)
        eventually(lambda: len(stuck.assignment) == QUEUES + 1, "queues")
        eventually(lambda: len(free.assignment) == QUEUES + 1, "queues")
        send(store, topic, 3000)
        eventually(lambda: len(log.done) == 3000, "the other group has all")
        with Admin(store.path) as admin:
            assert admin.group("stuck").lag == 3000
        gate.set()
        with Admin(store.path) as admin:
            eventually(lambda: admin.group("stuck").lag == 0, "it went on")
