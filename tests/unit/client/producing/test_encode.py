"""The compiled encoder writes, byte for byte, what the record format in plain Python writes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.frames import make_frame
from support.memory_store import CONFIG, MemoryStore, connect
from support.strategies import HOSTS, PROPERTY_TEXT, TOPICS

from silomq import IllegalMessage, Message, PutMessageStatus
from silomq.client.producing._encode import Encoder
from silomq.client.producing._sender import Sender, session_of
from silomq.client.producing.message_properties import RESERVED, TIMERS
from silomq.client.store_config import StoreConfig
from silomq.shm import ring
from silomq.shm.protocol.requests import OpenDelayed
from silomq.store.record.format import decode_record, encode_record
from silomq.store.record.ids import Host
from silomq.store.record.properties import CRC_PAIR_BYTES, encode_properties

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "0123456789ABCDEF0123"
NO_CRC = b"__CRC32#\x010000000000\x02"
USER_PROPERTIES = st.dictionaries(
    PROPERTY_TEXT.filter(lambda name: name not in RESERVED | TIMERS), PROPERTY_TEXT, max_size=4
)
KEYS = PROPERTY_TEXT | st.lists(PROPERTY_TEXT.filter(lambda key: " " not in key), max_size=3)
PARTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "body": st.binary(max_size=300),
        "tags": st.none() | PROPERTY_TEXT,
        "keys": st.none() | KEYS,
        "properties": st.none() | USER_PROPERTIES,
        "flag": st.integers(-(2**31), 2**31 - 1),
        "born_timestamp": st.integers(0, 2**63 - 1),
    }
)
STORES = st.fixed_dictionaries(
    {"append_crc": st.booleans(), "born_host": HOSTS, "store_host": HOSTS}
)


def store_of(described: dict[str, Any], **more: Any) -> MemoryStore:
    hosts = {name: described[name].packed() for name in ("born_host", "store_host")}
    return MemoryStore(append_crc=described["append_crc"], **hosts, **more)


def twin(
    topic: str, parts: dict[str, Any], key: str, store: dict[str, Any], *, wait: bool = True
) -> bytes:
    """The record as the format's own encoder makes it, before append has filled in its part."""
    keys = parts["keys"]
    pairs = {
        "UNIQ_KEY": key,
        "TAGS": parts["tags"],
        "KEYS": (keys if isinstance(keys, str) or keys is None else " ".join(keys)) or None,
        **(parts["properties"] or {}),
        "WAIT": None if wait else "false",
    }
    record = encode_record(
        topic.encode(),
        parts["body"],
        encode_properties(pairs),
        queue_id=parts["queue"],
        flag=parts["flag"],
        born_timestamp=parts["born_timestamp"],
        born_host=store["born_host"],
        store_host=store["store_host"],
        record_crc=store["append_crc"],
    )
    return record[:-CRC_PAIR_BYTES] + NO_CRC if store["append_crc"] else record


@given(topic=TOPICS, parts=PARTS, store=STORES, queue=st.integers(0, 3), wait=st.booleans())
def test_one_message(
    topic: str, parts: dict[str, Any], store: dict[str, Any], queue: int, wait: bool
) -> None:
    memory = store_of(store)
    sender = connect(memory)
    session_of(sender).number_keys(PREFIX, 0xABC0000FFFF)
    parts = {**parts, "queue": queue}
    sender.send_async(topic, **parts, wait_store=wait)
    (frame,) = memory.frames()
    key = f"{PREFIX}0ABC0000FFFF"
    assert frame.records == twin(topic, parts, key, store, wait=wait)
    if not store["append_crc"]:  # else the record's CRC is to come: the plain frame would not do
        sent_us = int.from_bytes(memory.memory.view[ring.DATA + 28 : ring.DATA + 32], "little")
        assert (time.time_ns() // 1000 - sent_us) % 2**32 < 10_000_000
        sealed = make_frame(frame.records, 1, 100 + queue, flags=int(wait), sent_us=sent_us)
        assert memory.memory.view[ring.DATA : ring.DATA + 64] == sealed[:64]
    session_of(sender).close()


@given(
    topic=TOPICS,
    items=st.lists(PARTS | st.binary(max_size=50), min_size=1, max_size=5),
    store=STORES,
    queue=st.integers(0, 3),
)
def test_a_batch_is_its_messages_one_behind_the_other(
    topic: str, items: list[dict[str, Any] | bytes], store: dict[str, Any], queue: int
) -> None:
    memory = store_of(store)
    sender = connect(memory)
    session_of(sender).number_keys(PREFIX, 1)
    batch = [item if isinstance(item, bytes) else Message(**item) for item in items]
    future = sender.send_batch_async(topic, batch, queue=queue)
    (frame,) = memory.frames()
    found, at = [], 0
    while at < len(frame.records):
        found.append(decode_record(frame.records, at, check_crc=False))
        at += found[-1].total_size
    bare: dict[str, Any] = dict.fromkeys(("tags", "keys", "properties"))
    wanted = b"".join(
        twin(
            topic,
            {
                # What is not said is born now.
                **(
                    {**bare, "body": item, "flag": 0, "born_timestamp": record.born_timestamp}
                    if isinstance(item, bytes)
                    else item
                ),
                "queue": queue,
            },
            f"{PREFIX}{number:012X}",
            store,
        )
        for number, (item, record) in enumerate(zip(items, found, strict=True), 1)
    )
    assert frame.records == wanted
    assert (frame.number, future.count) == (len(items), len(items))
    memory.answer(0)
    result = future.result()
    assert result.message_ids == [record.properties.get("UNIQ_KEY") for record in found]
    offsets = [result.physical_offset]
    for record in found[:-1]:
        offsets.append(offsets[-1] + record.total_size)
    host = store["store_host"]
    assert result.offset_message_id == ",".join(_offset_id(host, offset) for offset in offsets)
    session_of(sender).close()


def _offset_id(host: Host, offset: int) -> str:
    """RocketMQ's form: address, port, offset, in hexadecimal digits."""
    return (host.address + host.port.to_bytes(4, "big") + offset.to_bytes(8, "big")).hex().upper()


@pytest.mark.parametrize(
    ("arguments", "pairs"),
    [
        ({"delay_level": 3}, "REAL_TOPIC\x01t\x02DELAY\x013\x02REAL_QID\x012\x02"),
        ({"delay_level": 99}, "REAL_TOPIC\x01t\x02DELAY\x0118\x02REAL_QID\x012\x02"),
    ],
)
def test_a_delayed_message_goes_where_delays_wait(arguments: dict[str, Any], pairs: str) -> None:
    memory = MemoryStore(queues=18)
    sender = connect(memory)
    future = sender.send_async("t", b"x", queue=2, properties={"a": "b"}, **arguments)
    (frame,) = memory.frames()
    record = decode_record(frame.records)
    assert record.topic == future.topic == "SCHEDULE_TOPIC_XXXX"
    assert record.queue_id == future.queue_id == min(arguments["delay_level"], 18) - 1
    assert record.properties_raw.endswith(b"a\x01b\x02" + pairs.encode())
    assert memory.requests[-1] == OpenDelayed("t", timer=False)


# -- unique keys


def test_unique_keys_count_up_in_one_millisecond() -> None:
    """65,536 of them share a time; then the time is moved on, ahead of the clock if need be."""
    memory = MemoryStore(capacity=1 << 26)
    sender = connect(memory)
    keys: list[str] = []
    for _ in range(2):
        future = sender.send_batch_async("t", [b""] * 70_000)
        memory.answer(0)
        keys += future.result().message_ids
    times = [key[20:28] for key in keys]
    assert times == sorted(times), "the clock of keys does not go back"
    assert len(set(keys)) == 140_000
    assert len({key[:20] for key in keys}) == 1
    record = decode_record(memory.frames(0)[0].records, check_crc=False)
    assert record.properties.get("UNIQ_KEY") == keys[0]
    assert record.properties["UNIQ_KEY"][20:28] == keys[0][20:28]


def test_two_producers_have_keys_of_their_own() -> None:
    stores = [MemoryStore(), MemoryStore()]
    for store in stores:
        connect(store).send_oneway("t", b"")
    first, second = (
        decode_record(s.frames()[0].records).properties.get("UNIQ_KEY") for s in stores
    )
    assert first is not None
    assert second is not None
    assert first[:20] != second[:20]


def test_a_key_says_when_it_was_made() -> None:
    """RocketMQ's clients read the time out of it: ms since the month began."""
    store = MemoryStore()
    connect(store).send_oneway("t", b"")
    record = decode_record(store.frames()[0].records)
    made = store.config.key_epoch_ms + int(record.properties["UNIQ_KEY"][20:28], 16)
    assert made % 2**32 == record.born_timestamp % 2**32 or made == record.born_timestamp


@pytest.mark.parametrize(
    ("prefix", "first"),
    [("0" * 19, 1), ("g" * 20, 1), ("a" * 20, 1), (PREFIX, 0), (PREFIX, 1 << 48)],
)
def test_numbers_that_a_key_cannot_hold(prefix: str, first: int) -> None:
    encoder = Encoder(StoreConfig(**CONFIG))
    with pytest.raises(ValueError, match="a prefix of 20 hexadecimal digits, numbers from 1"):
        encoder.number_keys(prefix, first)


# -- limits


def limited(**config: Any) -> tuple[MemoryStore, Sender]:
    store = MemoryStore(capacity=1 << 20, **config)
    return store, connect(store)


def test_the_longest_body() -> None:
    store, sender = limited(max_message_size=1000)
    sender.send_oneway("t", b"x" * 1000)
    calls: list[Callable[[], None]] = [
        lambda: sender.send_oneway("t", b"x" * 1001),
        lambda: sender.send_batch_oneway("t", [b"x" * 1001]),
        lambda: sender.send_batch_oneway("t", [b"x" * 500, Message(b"x" * 501)]),
    ]
    for call in calls:
        with pytest.raises(IllegalMessage, match="max_message_size") as error:
            call()
        assert error.value.status == PutMessageStatus.MESSAGE_ILLEGAL
    assert len(store.frames()) == 1


@pytest.mark.parametrize("append_crc", [False, True])
def test_the_longest_properties(append_crc: bool) -> None:
    store, sender = limited(append_crc=append_crc)
    taken = len("UNIQ_KEY") + 1 + 32 + 1 + CRC_PAIR_BYTES * append_crc
    fits = 32767 - taken - len("TAGS") - 2
    sender.send_oneway("t", b"", tags="x" * fits)
    assert len(decode_record(store.frames()[0].records, check_crc=False).properties_raw) == 32767
    with pytest.raises(IllegalMessage, match="hold 32767") as error:
        sender.send_oneway("t", b"", tags="x" * (fits + 1))
    assert error.value.status == PutMessageStatus.PROPERTIES_SIZE_EXCEEDED


def test_a_body_is_bytes_or_text() -> None:
    store, sender = limited()
    encoded = "grün".encode()
    sender.send_oneway("t", encoded)
    sender.send_oneway("t", "grün")
    sender.send_oneway("t", bytearray(encoded))
    sender.send_oneway("t", memoryview(encoded))
    assert store.bodies() == [encoded] * 4
