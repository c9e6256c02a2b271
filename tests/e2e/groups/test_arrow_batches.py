"""`GroupConsumer.poll_arrow`: which rows come, and what acknowledges them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from e2e.groups.members import QUEUES, drain, numbers, send
from support.harness import StoreProcess, eventually

from silomq import Admin, GroupConsumer, Producer, Sql

if TYPE_CHECKING:
    pass

pa = pytest.importorskip("pyarrow")


def bodies(member: GroupConsumer, most: int = 1000, timeout: float = 0.3, **how: bool) -> list[int]:
    """The numbers in the batches until none comes."""
    found: list[int] = []
    while (batch := member.poll_arrow(most, timeout, columns=["body"], **how)).num_rows:
        assert batch.schema.names == ["body"]
        assert batch.num_rows <= most
        found += [int(body) for body in batch.column("body").to_pylist()]
    return found


@pytest.mark.parametrize("most", [7, 1000])
def test_every_message_is_a_row_once(store: StoreProcess, topic: str, most: int) -> None:
    send(store, topic, 800)
    with GroupConsumer(store.path, "every", topic, start="earliest") as member:
        found = bodies(member, most)
        assert sorted(found) == list(range(800))
        for queue in range(QUEUES):
            mine = [number for number in found if number % QUEUES == queue]
            assert mine == sorted(mine)
        with Admin(store.path) as admin:
            assert [q.lag for q in admin.group("every").queues if q.topic == topic] == [0] * QUEUES
        batch = member.poll_arrow()
        assert batch.num_rows == 0
        assert "properties" in batch.schema.names


def test_a_batch_is_acknowledged_by_the_next_call(store: StoreProcess, topic: str) -> None:
    send(store, topic, 80)
    member = GroupConsumer(store.path, "next", topic, start="earliest")
    with contextlib.closing(member):  # which acknowledges nothing
        first = member.poll_arrow(30, 5.0, columns=["body"])
        polled = member.poll(10)
        last = member.poll_arrow(10, columns=["body"])
        assert last.num_rows == 10
    done = {int(body) for body in first.column("body").to_pylist()} | set(numbers(polled))
    with GroupConsumer(store.path, "next", topic) as member:
        assert sorted(drain(member)[0]) == sorted(set(range(80)) - done)


def test_without_auto_ack_a_batch_comes_again(store: StoreProcess, topic: str) -> None:
    send(store, topic, 80)
    with GroupConsumer(store.path, "again", topic, start="earliest", auto_ack=False) as member:
        eventually(lambda: member.poll_arrow(1, 0.1).num_rows, "one row")
        member.ack_polled()
        single = member.poll(8, 1.0)
        assert len(bodies(member)) == 80 - 1 - len(single)
        # What is acknowledged beside a batch does not take the batch with it.
        assert member.ack(single) == len(single)
    with GroupConsumer(store.path, "again", topic, auto_ack=False) as member:
        found = bodies(member)
        assert len(found) == 80 - 1 - len(single)
        assert not set(found) & set(numbers(single))
        member.ack_polled()
    with GroupConsumer(store.path, "again", topic) as member:
        assert bodies(member) == []


def test_what_was_acknowledged_out_of_order_is_no_row(store: StoreProcess, topic: str) -> None:
    send(store, topic, 400)
    with GroupConsumer(store.path, "gaps", topic, start="earliest", auto_ack=False) as member:
        found = member.poll(400, 5.0)
        while len(found) < 400:
            found += member.poll(400, 1.0)
        chosen = [message for message in found if int(message.body) % 3 == 1]
        assert member.ack(chosen) == len(chosen)
    with GroupConsumer(store.path, "gaps", topic) as member:
        assert sorted(bodies(member)) == [i for i in range(400) if i % 3 != 1]


@pytest.mark.parametrize("body_views", [False, True])
def test_a_filter_leaves_rows_out(store: StoreProcess, topic: str, *, body_views: bool) -> None:
    with Producer(store.path) as producer:
        for i in range(90):
            tags = ("Aa", "BB", "c")[i % 3]  # the first two have one hash
            producer.send(topic, b"%d" % i, tags=tags, properties={"price": str(i)})
    for group, wanted, expected in (
        ("tags", "BB || d", [i for i in range(90) if i % 3 == 1]),
        ("sql", Sql("price >= 50 AND TAGS = 'c'"), [i for i in range(50, 90) if i % 3 == 2]),
        ("none", "zzz", []),
        ("hash", "AaBB", []),
    ):
        with GroupConsumer(store.path, group, {topic: wanted}, start="earliest") as member:
            assert sorted(bodies(member, body_views=body_views)) == expected, group
            with Admin(store.path) as admin:
                lags = [q.lag for q in admin.group(group).queues if q.topic == topic]
                assert lags == [0] * QUEUES, "what a filter passes over is no lag"


def test_bad_arguments_are_refused(store: StoreProcess, topic: str) -> None:
    with GroupConsumer(store.path, "bad", topic) as member:
        with pytest.raises(ValueError, match="no column 'colour'"):
            member.poll_arrow(columns=["colour"])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="at least 1"):
            member.poll_arrow(0)
        with pytest.raises(ValueError, match="at least 1"):
            member.poll_arrow(max_bytes=0)
