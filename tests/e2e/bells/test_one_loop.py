"""One thread and one selector serve a producer and two consumers. It sleeps while nothing is to do,
and is woken when there is something.
"""

from __future__ import annotations

import selectors
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.harness import StoreProcess, eventually

from silomq import Admin, Consumer, GroupConsumer, Producer, StoreClosed, TopicDeleted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from silomq import SendFuture

COUNT = 300
IDLE_S = 3.0


class Loop:
    """What sends and reads one topic in one thread. `wakes` counts how often it was woken."""

    def __init__(self, store: StoreProcess, topic: str) -> None:
        self.topic = topic
        with Admin(store.path) as admin:
            admin.create_topic(topic, 4)
        self.producer = Producer(store.path)
        self.consumer = Consumer(store.path, topic)
        self.member = GroupConsumer(store.path, f"group-of-{topic}", topic, start="earliest")
        self.selector = selectors.DefaultSelector()
        for client in (self.producer, self.consumer, self.member):
            self.selector.register(client, selectors.EVENT_READ)
        self.open: list[SendFuture] = []
        self.read: dict[Any, list[bytes]] = {self.consumer: [], self.member: []}
        self.wakes = 0

    def turn(self, timeout: float) -> int:
        """Sleeps until something may be to do, and does it. Returns how many were ready."""
        ready = self.selector.select(timeout)
        self.wakes += len(ready)
        for key, _ in ready:
            if key.fileobj is self.producer:
                self.producer.poll()
                self.open = [future for future in self.open if not future.done()]
            else:
                reader: Any = key.fileobj
                self.read[reader] += [message.body for message in reader.poll(1000)]
        return len(ready)

    def until(self, bodies: list[bytes], timeout_s: float = 30.0) -> None:
        """Turns until all is answered, and each consumer has read these messages."""
        deadline = time.monotonic() + timeout_s
        while self.open or any(sorted(got) != sorted(bodies) for got in self.read.values()):
            assert time.monotonic() < deadline, (self.open, self.read)
            self.turn(1.0)

    def close(self) -> None:
        self.selector.close()
        for client in (self.producer, self.consumer, self.member):
            client.close()


@pytest.fixture
def loop(store: StoreProcess, request: pytest.FixtureRequest) -> Iterator[Loop]:
    found = Loop(store, request.node.name.replace("test_", "")[:40])
    yield found
    found.close()


def test_one_thread_serves_all(loop: Loop) -> None:
    before = threading.enumerate()
    bodies = [b"%d" % number for number in range(COUNT)]
    for number, body in enumerate(bodies):
        loop.open.append(loop.producer.send_async(loop.topic, body))
        if number % 7 == 0:
            loop.turn(0)
    loop.until(bodies)
    assert threading.enumerate() == before


def test_who_is_idle_is_not_woken(loop: Loop) -> None:
    """Nor by messages of others."""
    loop.open.append(loop.producer.send_async(loop.topic, b"x"))
    loop.until([b"x"])
    while loop.turn(0.5):  # the last ones of a division of queues
        pass
    loop.wakes = 0
    with Producer(loop.producer.store) as other:
        other.send("of-nobody", b"x")
        until = time.monotonic() + IDLE_S
        while time.monotonic() < until:
            loop.turn(until - time.monotonic())
            other.send("of-nobody", b"x")
    # A new topic is news for all. Queues share arrival words only from 1,024 queues on.
    assert loop.wakes <= 3


def test_messages_one_at_a_time(loop: Loop) -> None:
    """The loop sleeps before each."""
    bodies = []
    for number in range(50):
        bodies.append(b"%d" % number)
        loop.open.append(loop.producer.send_async(loop.topic, bodies[-1]))
        loop.until(bodies, 5.0)


def test_a_deleted_topic_wakes_its_reader(store: StoreProcess, loop: Loop) -> None:
    loop.open.append(loop.producer.send_async(loop.topic, b"x"))
    loop.until([b"x"])
    with Admin(store.path) as admin:
        admin.delete_topic(loop.topic)
    with pytest.raises(TopicDeleted):
        loop.until([], 5.0)


def test_a_member_is_woken_for_another_assignment(store: StoreProcess, loop: Loop) -> None:
    loop.open.append(loop.producer.send_async(loop.topic, b"x"))
    loop.until([b"x"])
    eventually(lambda: loop.turn(0.01) or len(loop.member.assignment) >= 4, "all queues")
    with GroupConsumer(store.path, loop.member.group, loop.topic, start="earliest") as other:
        deadline = time.monotonic() + 10
        while not other.assignment:
            assert time.monotonic() < deadline
            loop.turn(0.2)
            other.poll(1, 0.01)
        assert set(other.assignment).isdisjoint(loop.member.assignment)


def poll_for_ever(selector: selectors.BaseSelector, client: Any) -> None:
    """Polls whenever the client's descriptor is readable, until an error ends it."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert selector.select(5.0), "nobody rang"
        client.poll()


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_the_end_of_the_store_wakes_all(tmp_path: Any, how: str) -> None:
    with StoreProcess(tmp_path / "store") as store:
        loop = Loop(store, "t")
        loop.open.append(loop.producer.send_async("t", b"x"))
        loop.until([b"x"])
        while loop.turn(0.2):
            pass
        getattr(store, how)()
        for client in (loop.producer, loop.consumer, loop.member):
            selector = selectors.DefaultSelector()
            selector.register(client, selectors.EVENT_READ)
            with pytest.raises(StoreClosed):
                poll_for_ever(selector, client)
            selector.close()
        loop.close()
