"""`poll_arrow` of members that pop: batches of leased messages, acknowledged whole or by rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from silomq import Consumer, GroupConsumer, Producer, Sql
from silomq.store.errors import IllegalArgument, IllegalUse

if TYPE_CHECKING:
    from support.harness import StoreProcess


def send(store: StoreProcess, topic: str, count: int, **options: object) -> list[bytes]:
    bodies = [b"%05d" % number for number in range(count)]
    with Producer(store.path) as producer:
        for number, body in enumerate(bodies):
            producer.send(
                topic, body, tags="even" if number % 2 == 0 else "odd", properties={"n": "x"}
            )
    store.await_dispatch()
    return bodies


def member(store: StoreProcess, topic: str, **options: object) -> GroupConsumer:
    given = {"start": "earliest", "mode": "pop", "auto_ack": False, **options}
    return GroupConsumer(store.path, f"g-{topic}", topic, **given)  # type: ignore[arg-type]


def bodies_of(batch: pa.RecordBatch) -> list[bytes]:
    return sorted(batch.column("body").to_pylist())


def test_a_batch_has_the_rows_that_a_consumer_gets(store: StoreProcess, topic: str) -> None:
    bodies = send(store, topic, 3000)
    with Consumer(store.path, topic, start="earliest") as consumer:
        wanted = consumer.poll_arrow(4000, timeout=20)
    with member(store, topic) as worker:
        found = worker.poll_arrow(4000, timeout=20)
        assert found.schema == wanted.schema
        assert bodies_of(found) == bodies
        by_place = [("physical_offset", "ascending")]
        assert found.sort_by(by_place).equals(wanted.sort_by(by_place))
        assert worker.poll_arrow(10).num_rows == 0
        few = worker.poll_arrow(10, columns=("queue_offset", "body"))
        assert few.schema.names == ["queue_offset", "body"]
        worker.ack_polled()
    with member(store, topic) as worker:
        assert worker.poll(10) == []


@pytest.mark.parametrize("views", [False, True])
def test_rows_are_acknowledged(store: StoreProcess, topic: str, views: bool) -> None:
    bodies = send(store, topic, 40)
    with member(store, topic) as worker:
        batch = worker.poll_arrow(40, timeout=20, body_views=views)
        tags = batch.column("tags")
        if views:
            even = batch.drop_columns(["body"]).filter(pc.equal(tags, "even"))
        else:
            even = batch.filter(pc.equal(tags, "even"))
        assert worker.ack(even) == 20
        assert worker.ack(even) == 0
        with pytest.raises(IllegalArgument, match="physical_offset"):
            worker.ack(batch.select(["queue_offset"]))
    with member(store, topic) as worker:
        rest = worker.poll_arrow(100, timeout=20)
        assert bodies_of(rest) == bodies[1::2]
        # Rows that come again say how often they came before.
        assert rest.column("reconsume_times").to_pylist() == [1] * 20
        assert rest.column("tags").to_pylist() == ["odd"] * 20
        assert worker.ack(rest) == 20


def test_the_next_call_acknowledges_with_auto_ack(store: StoreProcess, topic: str) -> None:
    bodies = send(store, topic, 30)
    with member(store, topic, auto_ack=True) as worker:
        first = worker.poll_arrow(10, timeout=20)
        second = worker.poll_arrow(10, timeout=20)
        third = worker.poll(10, timeout=20)
        worker.poll_arrow(1)
    found = bodies_of(first) + bodies_of(second) + [one.body for one in third]
    assert sorted(found) == bodies
    with member(store, topic) as worker:
        assert worker.poll_arrow(100).num_rows == 0


def test_limits_and_filters(store: StoreProcess, topic: str) -> None:
    bodies = send(store, topic, 100)
    with GroupConsumer(
        store.path, f"f-{topic}", {topic: "odd"}, mode="pop", start="earliest", auto_ack=False
    ) as worker:
        assert bodies_of(worker.poll_arrow(1000, timeout=20)) == bodies[1::2]
    with GroupConsumer(
        store.path, f"s-{topic}", {topic: Sql("TAGS = 'even'")},
        mode="pop", start="earliest", auto_ack=False,
    ) as worker:  # fmt: skip
        assert bodies_of(worker.poll_arrow(1000, timeout=20)) == bodies[::2]
    with member(store, topic) as worker:
        size = worker.poll_arrow(1, timeout=20).column("size")[0].as_py()
        small = worker.poll_arrow(1000, timeout=20, max_bytes=3 * size)
        assert 1 <= small.num_rows <= 4
        rest = worker.poll_arrow(1000, timeout=20)
        assert 1 + small.num_rows + rest.num_rows == 100


def test_rows_of_an_assigned_queue_are_not_acknowledged(store: StoreProcess, topic: str) -> None:
    send(store, topic, 4)
    with GroupConsumer(
        store.path, f"h-{topic}", topic, start="earliest", auto_ack=False
    ) as assigned:
        batch = assigned.poll_arrow(10, timeout=20)
        with pytest.raises(IllegalUse, match="ack_polled"):
            assigned.ack(batch)
