"""Topics that are deleted, and made again, while somebody reads them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from e2e.groups.members import QUEUES, numbers, send, settle
from support.harness import StoreProcess, eventually

from silomq import Admin, Consumer, GroupConsumer, IllegalQuery, StoreReader, TopicDeleted

if TYPE_CHECKING:
    pass


def again(store: StoreProcess, topic: str, count: int) -> None:
    """Deletes the topic and makes it again, with `count` messages."""
    with Admin(store.path) as admin:
        assert admin.delete_topic(topic)
        admin.create_topic(topic, QUEUES)
    send(store, topic, count)


@pytest.mark.parametrize("begun", [True, False])
def test_a_consumer_is_told(store: StoreProcess, topic: str, *, begun: bool) -> None:
    """Also one that has not opened its queues' folders yet: those are the new topic's now."""
    send(store, topic, 80)
    with Consumer(store.path, topic) as consumer:
        if begun:
            assert len(consumer.poll(40)) == 40
        again(store, topic, 160)
        with pytest.raises(TopicDeleted, match=f"topic {topic} was deleted"):
            consumer.poll(40)
        with pytest.raises(TopicDeleted):
            consumer.poll_arrow()
    with Consumer(store.path, topic) as consumer:
        assert len(consumer.poll(1000)) == 160


def test_a_consumer_that_sleeps_is_woken(store: StoreProcess, topic: str) -> None:
    woken: list[float] = []

    def read() -> None:
        with Consumer(store.path, topic) as consumer:
            ready.set()
            with pytest.raises(TopicDeleted):
                consumer.poll(1, 30.0)
        woken.append(time.monotonic())

    ready = threading.Event()
    thread = threading.Thread(target=read)
    thread.start()
    ready.wait(10)
    time.sleep(0.1)
    with Admin(store.path) as admin:
        admin.delete_topic(topic)
    start = time.monotonic()
    thread.join(30)
    assert woken
    assert woken[0] - start < 1.0


def test_members_lose_the_queues_and_get_those_of_the_new_topic(
    store: StoreProcess, topic: str
) -> None:
    send(store, topic, 80)
    with (
        GroupConsumer(store.path, f"g{topic}", topic, start="earliest") as one,
        GroupConsumer(store.path, f"g{topic}", topic) as two,
    ):
        found = numbers(one.poll(10, 5.0)) + numbers(two.poll(10, 5.0))
        assert found
        with Admin(store.path) as admin:
            admin.delete_topic(topic)

        def given_back() -> bool:
            polled = one.poll(5) + two.poll(5)
            return not polled and not any(t == topic for t, _ in one.assignment + two.assignment)

        eventually(given_back, "the queues are taken back", 5.0)
        with Admin(store.path) as admin:
            admin.create_topic(topic, QUEUES)
        settle(one, two)
        send(store, topic, 160)
        fresh: list[int] = []
        deadline = time.monotonic() + 5
        while len(fresh) < 160 and time.monotonic() < deadline:
            fresh += numbers(one.poll(100, 0.05)) + numbers(two.poll(100, 0.05))
        assert sorted(fresh) == list(range(160))
        one.poll(1)
        two.poll(1)
        with Admin(store.path) as admin:
            eventually(lambda: admin.group(f"g{topic}").lag == 0, "all is acknowledged", 2.0)


def test_members_that_poll_while_it_happens(store: StoreProcess, topic: str) -> None:
    """Nothing but messages of the newest topic comes in the end, and nobody gets an error."""
    send(store, topic, 40)
    with GroupConsumer(store.path, f"w{topic}", topic, start="earliest") as member:
        for generation in range(3):
            member.poll(7, 0.05)
            again(store, topic, 40 * (generation + 2))
        found: list[int] = []
        deadline = time.monotonic() + 10
        while len(set(found)) < 160 and time.monotonic() < deadline:
            found += numbers(member.poll(100, 0.05))
        assert sorted(found) == list(range(160))


def test_a_store_reader_reads_the_new_topic(store: StoreProcess, topic: str) -> None:
    send(store, topic, 80)
    with StoreReader(store.path) as reader, StoreReader(store.path) as other:
        assert len(reader.get_message(topic, 0, 0).messages) == 10
        queue = other._store.queue(topic, 0)  # not opened yet
        again(store, topic, 160)
        found = reader.get_message(topic, 0, 0)
        assert (found.min_offset, found.max_offset) == (0, 20)
        assert [int(m.body) for m in found.messages] == list(range(0, 160, QUEUES))
        assert int(reader.at(topic, 0, 19).body) == 152
        with pytest.raises(IllegalQuery, match=f"topic {topic} was deleted"):
            queue.entries(0, 1)
        with Admin(store.path) as admin:
            admin.delete_topic(topic)
        with pytest.raises(IllegalQuery, match="does not exist"):
            reader.get_message(topic, 0, 0)
