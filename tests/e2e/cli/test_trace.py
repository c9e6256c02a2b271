"""`silo query trace`: the way of a message from traces and from the store."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.commands import sentence, silo
from support.harness import StoreProcess
from support.small_settings import SHIPPED_LIMITS

from silomq import GroupConsumer, Producer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TRACES = "RMQ_SYS_TRACE_TOPIC"


def text(*fields: object) -> str:
    return "\x01".join(map(str, fields)) + "\x02"


def published(key: str) -> str:
    return text("Pub", 1000, "r", "senders", "orders", key, "", "", "h:1", 5, 3, 0, "O", "true")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("trace") / "store"
    with StoreProcess(path, base=SHIPPED_LIMITS):
        yield path


@pytest.fixture
def producer(store: Path) -> Iterator[Producer]:
    with Producer(store) as found:
        yield found


def traced(store: Path, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        silo("query", "trace", *arguments, "--json", store=store).stdout
    )
    return found


def test_a_message_that_is_published_and_consumed(store: Path, producer: Producer) -> None:
    producer.send("orders", b"earlier", queue=1)
    with GroupConsumer(store, "readers", "orders", start="latest") as consumer:
        sent = producer.send("orders", b"x", queue=1)
        key = sent.message_id
        assert key is not None
        consumed = text("SubBefore", 2000, "r", "readers", "R", key, 0, "k")
        consumed += text("SubAfter", "R", key, 7, "true", "k", 0)
        other = published("ANOTHER")
        producer.send(TRACES, (published(key) + other + "junk\x02").encode(), keys=f"{key} k")
        producer.send(TRACES, consumed.encode(), keys=key)
        before = traced(store, key)
        while not consumer.poll(10, timeout=0.1):
            continue
        consumer.poll(1, timeout=0.01)  # acknowledges
        after = traced(store, sent.offset_message_id)
    assert [one["kind"] for one in before["traces"]] == ["published", "consuming", "consumed"]
    assert [one["group"] for one in before["traces"]] == ["senders", "readers", "readers"]
    assert before["bad_records"] == 1
    (copy,) = before["copies"]
    assert (copy["what"], copy["topic"], copy["queue_id"]) == ("stored", "orders", 1)
    assert copy["offset_message_id"] == sent.offset_message_id
    assert [(one["group"], one["passed"]) for one in before["groups"]] == [("readers", False)]
    assert [(one["group"], one["passed"]) for one in after["groups"]] == [("readers", True)]
    assert after["message_id"] == key
    shown = silo("query", "trace", key, store=store).stdout.decode()
    assert "Records that could not be read: 1" in shown
    assert "published (5 bytes)" in shown
    assert "yes" in shown


def test_a_message_that_waits_and_comes_again(store: Path, producer: Producer) -> None:
    due = int(time.time() * 1000) + 60_000
    later = producer.send("later", b"x", deliver_at=due).message_id
    assert later is not None
    (copy,) = traced(store, later, "--topic", "later")["copies"]
    assert (copy["what"], copy["topic"]) == ("delayed, for later", "rmq_sys_wheel_timer")
    assert abs(copy["due_ms"] - due) <= 1000
    key = producer.send("orders", b"y").message_id
    assert key is not None
    with GroupConsumer(store, "refusers", "orders", start="earliest") as consumer:
        found = next(one for one in iter_messages(consumer) if one.message_id == key)
        consumer.nack(found, delay_level=5)
    copies = traced(store, key, "--topic", "orders")["copies"]
    assert [one["what"] for one in copies] == ["stored", "delayed by level 5, for %RETRY%refusers"]


def iter_messages(consumer: GroupConsumer) -> Iterator[Any]:
    while True:
        yield from consumer.poll(10, timeout=0.1)


@pytest.mark.parametrize("named", [True, False], ids=["in a topic", "by its trace alone"])
def test_a_message_of_a_batch(store: Path, producer: Producer, *, named: bool) -> None:
    """RocketMQ's clients write one trace for a batch. Its key is all ids, joined by commas."""
    keys = [producer.send("orders", body).message_id or "" for body in (b"a", b"b", b"c")]
    for _ in range(40):
        producer.send(TRACES, published("SOMETHING").encode(), keys="SOMETHING")
    producer.send(TRACES, published(",".join(keys)).encode(), keys=",".join(keys))
    for _ in range(40):
        producer.send(TRACES, published(f"{keys[1]}X,ANOTHER").encode(), keys="ANOTHER")
    found = traced(store, keys[1], *(("--topic", "orders") if named else ()))
    assert [one["message_ids"] for one in found["traces"]] == [keys]
    assert [one["what"] for one in found["copies"]] == ["stored"]


def test_nothing_is_known(store: Path) -> None:
    done = silo("query", "trace", "C0" * 16, store=store, status=1)
    assert "--topic" in sentence(done)


def test_names_from_traces_are_escaped(store: Path, producer: Producer) -> None:
    record = published("EVIL").replace("senders", "\x1b[31mred")
    producer.send(TRACES, record.encode(), keys="EVIL")
    shown = silo("query", "trace", "EVIL", store=store).stdout
    assert b"\x1b" not in shown
    assert traced(store, "EVIL")["copies"] == []
