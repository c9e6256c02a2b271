"""Every call of the reading classes as a user writes it, with its type. Nothing here is run: mypy
reads it (`test_typing.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, assert_type

from silomq import (
    ColumnName,
    Consumer,
    GetMessageResult,
    GetMessageStatus,
    GroupConsumer,
    Listener,
    MessageFilter,
    MessageView,
    SendResult,
    Sql,
    StoreReader,
)


def consumer_calls(consumer: Consumer, columns: list[ColumnName]) -> None:
    Consumer("store", "orders", queues=(0, 1), offset={0: "latest", 1: 5}, check_crc=True)
    Consumer(Path("store"), "orders", offset="newest")  # type: ignore[arg-type]
    assert_type(consumer.topic, str)
    assert_type(consumer.poll(10, 1.5), list[MessageView])
    assert_type(consumer.poll_arrow(columns=("body", "tags"), max_bytes=1000), Any)
    consumer.poll_arrow(columns=columns)
    consumer.poll_arrow(columns=["boddy"])  # type: ignore[list-item]
    assert_type(iter(consumer), Iterator[MessageView])
    assert_type(consumer.seek(0, "earliest"), None)
    assert_type(consumer.missed, int)
    assert_type(consumer.positions(), dict[int, int])
    assert_type(consumer.lag(), int)
    with consumer as same:
        assert_type(same, Consumer)


def group_calls(member: GroupConsumer, message: MessageView, columns: list[ColumnName]) -> None:
    GroupConsumer("store", "billing", "orders", start=0, auto_ack=False, max_reconsume_times=3)
    GroupConsumer(Path("store"), "billing", ["orders", "bills"], model="broadcasting", instance="a")
    GroupConsumer("store", "billing", {"orders": "a || b", "bills": Sql("price > 10")})
    GroupConsumer("store", "billing", "orders", model="both")  # type: ignore[arg-type]
    assert_type((member.store, member.group), tuple[str, str])
    assert_type((member.auto_ack, member.max_reconsume_times), tuple[bool, int])
    assert_type(member.assignment, list[tuple[str, int]])
    assert_type(member.missed, int)
    assert_type(member.poll(10, timeout=1.5, max_bytes=1000), list[MessageView])
    assert_type(member.poll_arrow(10, 1.5, columns=columns), Any)
    member.poll_arrow(columns=("boddy",))  # type: ignore[arg-type]
    assert_type(iter(member), Iterator[MessageView])
    assert_type(aiter(member), AsyncIterator[MessageView])
    assert_type(member.ack(message) + member.ack([message]), int)
    assert_type(member.ack_polled(), None)
    assert_type(member.nack(message, delay_level=3), SendResult)
    listener = member.listen(print, concurrency=4, orderly=True, suspend_ms=50, max_pending=10)
    assert_type(listener, Listener)
    member.listen(lambda found: assert_type(found, MessageView).size > 0)
    member.listen(print, concurency=4)  # type: ignore[call-arg]
    assert_type(listener.wait(1.5), bool)
    assert_type(listener.stop(), None)
    assert_type(listener.error, Exception | None)
    with member as same:
        assert_type(same, GroupConsumer)


class OddFlags:
    """A filter of a user's own."""

    codes: None = None

    def matches(self, message: MessageView) -> bool:
        return message.flag % 2 == 1


def reader_calls(reader: StoreReader, wanted: MessageFilter) -> None:
    result = reader.get_message("orders", 0, 5, 10, max_bytes=1000, filter=wanted)
    assert_type(result, GetMessageResult)
    assert_type(result.status, GetMessageStatus)
    assert_type(result.messages, list[MessageView])
    assert_type((result.next_begin_offset, result.min_offset), tuple[int, int])
    assert_type(result.max_offset, int)
    reader.get_message("orders", 0, 5, filter=OddFlags())
    reader.get_message("orders", 0, 5, filter="a || b")  # type: ignore[arg-type]
    assert_type(reader.at("orders", 0, 5), MessageView)
    assert_type(reader.look_at(0), MessageView)
    assert_type(reader.by_offset_message_id("00" * 16), MessageView)
    assert_type(reader.by_unique_key("orders", "AB"), list[MessageView])
    assert_type(reader.by_key("orders", "k", 10, 0, 5, rocketmq=True), list[MessageView])
    assert_type(reader.offset_at_time("orders", 0, 5, "upper"), int)
    reader.offset_at_time("orders", 0, 5, "middle")  # type: ignore[arg-type]
    assert_type(reader.min_offset("orders", 0) + reader.max_offset("orders", 0), int)
    assert_type(reader.earliest_time("orders", 0), int | None)
    assert_type(reader.min_physical_offset() + reader.max_physical_offset(), int)
    assert_type(reader.earliest_store_time(), int | None)
    with reader as same:
        assert_type(same, StoreReader)


def message_values(message: MessageView) -> None:
    assert_type((message.body, message.record), tuple[bytes, bytes])
    assert_type((message.topic, message.origin_topic), tuple[str, str])
    assert_type(message.properties, dict[str, str])
    assert_type((message.tags, message.keys), tuple[str | None, list[str]])
    assert_type((message.message_id, message.offset_message_id), tuple[str | None, str])
    assert_type((message.queue_id, message.queue_offset), tuple[int, int])
    assert_type((message.physical_offset, message.place, message.size), tuple[int, int, int])
    assert_type((message.flag, message.sys_flag, message.reconsume_times), tuple[int, int, int])
    assert_type((message.born_timestamp, message.store_timestamp), tuple[int, int])
    assert_type((str(message.born_host), message.store_host.port), tuple[str, int])
    assert_type(message.check(), None)
    message.body = b""  # type: ignore[misc]
