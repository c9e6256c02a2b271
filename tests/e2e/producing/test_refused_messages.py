"""What a producer refuses before it reaches the store, and the limits up to which it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.consumed import read
from support.harness import StoreProcess

from silomq import (
    Consumer,
    IllegalMessage,
    Producer,
    PutMessageStatus,
)

if TYPE_CHECKING:
    pass


OK = PutMessageStatus.PUT_OK
ILLEGAL = PutMessageStatus.MESSAGE_ILLEGAL
TOO_LONG = PutMessageStatus.PROPERTIES_SIZE_EXCEEDED


def test_a_body_above_the_limit_is_refused(producer: Producer, topic: str) -> None:
    limit = 1 << 18
    assert producer.send(topic, b"x" * limit).status == OK
    with pytest.raises(IllegalMessage, match="max_message_size") as error:
        producer.send(topic, b"x" * (limit + 1))
    assert error.value.status == ILLEGAL
    with pytest.raises(IllegalMessage, match="max_message_size") as error:
        producer.send_batch(topic, [b"x" * limit, b"x"])
    assert error.value.status == ILLEGAL


def test_properties_above_the_limit_are_refused(
    store: StoreProcess, producer: Producer, topic: str
) -> None:
    unique = len("UNIQ_KEY") + 1 + 32 + 1
    fits = 32767 - unique - len("x") - 2
    assert producer.send(topic, b"", properties={"x": "v" * fits}).status == OK
    (view,) = read(store, topic, 1)
    assert view.properties["x"] == "v" * fits
    with pytest.raises(IllegalMessage, match="hold 32767") as error:
        producer.send(topic, b"", properties={"x": "v" * (fits + 1)})
    assert error.value.status == TOO_LONG


@pytest.mark.parametrize(
    "arguments",
    [
        {"properties": {"UNIQ_KEY": "x"}},
        {"properties": {"TAGS": "x"}},
        {"properties": {"KEYS": "x"}},
        {"properties": {"DELAY": "1"}},
        {"properties": {"__CRC32#": "0000000000"}},
        {"properties": {"a": ""}},
        {"properties": {"": "a"}},
        {"properties": {"a": "b\x02c"}},
        {"properties": {"a\x01": "b"}},
        {"tags": "a\x01b"},
        {"keys": "a\x02b"},
        {"keys": ["a b"]},
        {"keys": [""]},
        {"shard_key": "a\x01"},
    ],
    ids=repr,
)
def test_what_would_break_a_record_is_refused(
    store: StoreProcess, producer: Producer, arguments: dict[str, Any]
) -> None:
    rejected = store.control.load("rejected")
    with pytest.raises(IllegalMessage) as error:
        producer.send("limits", b"x", **arguments)
    assert error.value.status == ILLEGAL
    assert producer.send("limits", b"x").status == OK
    assert store.control.load("rejected") == rejected, "it did not reach the store"


@pytest.mark.parametrize("arguments", [{"tags": b"x"}, {"keys": 5}, {"keys": [5]}], ids=repr)
def test_wrong_types_are_refused(producer: Producer, arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        producer.send("limits", b"x", **arguments)
    with pytest.raises(TypeError):
        producer.send(b"limits", b"x")  # type: ignore[arg-type] # on purpose
    assert producer.send("limits", b"x").status == OK


def test_a_ring_smaller_than_the_message(store: StoreProcess, topic: str) -> None:
    with Producer(store.path, ring_size=65536) as producer:
        with pytest.raises(IllegalMessage, match="larger ring_size") as error:
            producer.send(topic, b"x" * 40000)
        assert error.value.status == ILLEGAL
        with pytest.raises(IllegalMessage, match="larger ring_size"):
            producer.send_batch(topic, [b"x" * 1000] * 40)
        assert producer.send(topic, b"x" * 30000).status == OK
    with pytest.raises(IllegalMessage, match="ring_size 4096: 65536 to"):
        Producer(store.path, ring_size=4096)


BAD_TOPICS = [
    "", "/", "..", ".", "a/b", "a b", "a\0b", "grün", "a.b", "a\nb", "\U0001f600",
    "x" * 128, "%RETRY%" + "x" * 249,
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_TOPICS, ids=ascii)
def test_bad_topic_names_are_refused(store: StoreProcess, producer: Producer, name: str) -> None:
    with pytest.raises(IllegalMessage) as error:
        producer.send(name, b"x")
    assert error.value.status == ILLEGAL
    assert "\n" not in str(error.value)
    with pytest.raises(IllegalMessage):
        Consumer(store.path, name)


def test_the_longest_topic_names(store: StoreProcess, producer: Producer) -> None:
    for name in ("x" * 127, "%RETRY%" + "x" * 248, "%RETRY%" + "y" * 200):
        assert producer.send(name, b"x").status == OK
        (view,) = read(store, name, 1)
        assert view.topic == name


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_timer_properties_are_refused(producer: Producer, topic: str, name: str) -> None:
    """Delays have arguments of their own."""
    with pytest.raises(IllegalMessage, match="deliver_at") as error:
        producer.send(topic, b"x", properties={name: "1000"})
    assert error.value.status == PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL
    assert producer.send(topic, b"x").queue_offset == 0
