"""Records: golden vectors, round trips, damage."""

from __future__ import annotations

import re
import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.plain_records import encode_blank, is_blank, patch_record
from support.record_check import Check, check_record
from support.strategies import FIELDS, PROPERTIES, TOPICS, records

from silomq.store.errors import Corrupt, IllegalMessage
from silomq.store.record import format as record_format
from silomq.store.record import ids
from silomq.store.record.format import Record, decode_record, encode_record
from silomq.store.record.ids import Host
from silomq.store.record.properties import encode_properties
from silomq.store.status import PutMessageStatus

A1 = bytes.fromhex(
    "0000007edaa320a777d18982000000030000000000000000000000050000000000001000"
    "000000000000018bcfe568007f0000010000c3500000018bcfe5687bc0a8000100002a9f"
    "0000000000000000000000000000000548656c6c6f09546f706963546573740015544147"
    "530154616741024b455953016b31206b3202"
)
A1_PROPERTIES = {"TAGS": "TagA", "KEYS": "k1 k2"}


def a1(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "queue_id": 3,
        "queue_offset": 5,
        "physical_offset": 4096,
        "born_timestamp": 1700000000000,
        "born_host": Host.parse("127.0.0.1:50000"),
        "store_timestamp": 1700000000123,
        "store_host": Host.parse("192.168.0.1:10911"),
    }
    properties = encode_properties(changes.pop("properties", A1_PROPERTIES))
    body = changes.pop("body", b"Hello")
    topic = changes.pop("topic", b"TopicTest")
    return encode_record(topic, body, properties, **{**fields, **changes})


def reencode(r: Record, crc: int | None = None) -> bytes:
    """The bytes that `r` says it was decoded from, put together without the encoder's rules."""
    form = f">iIiiiqqiq{len(r.born_host.address)}siq{len(r.store_host.address)}siiqi"
    magic = record_format.MAGIC_V1 if r.version == 1 else record_format.MAGIC_V2
    head = struct.pack(
        form, r.total_size, magic, r.body_crc if crc is None else crc, r.queue_id, r.flag,
        r.queue_offset, r.physical_offset, r.sys_flag, r.born_timestamp, *r.born_host,
        r.store_timestamp, *r.store_host, r.reconsume_times, r.prepared_transaction_offset,
        len(r.body),
    )  # fmt: skip
    topic = r.topic.encode()
    length = len(topic).to_bytes(r.version, "big")
    properties = r.properties_raw
    return head + r.body + length + topic + struct.pack(">h", len(properties)) + properties


def test_layout_table_is_the_code() -> None:
    for module in (record_format, ids):
        rows = re.findall(r"^(\d+) +(\d+) +(\w+) +(\w+) +\S", module.__doc__ or "", re.MULTILINE)
        assert {name: (int(o), int(s)) for o, s, _, name in rows} == module.LAYOUT
        end = 0
        for offset, size in module.LAYOUT.values():
            assert offset == end
            end = offset + size


def test_layout_is_where_the_encoder_writes() -> None:
    numbers = {
        "queueId": 3,
        "flag": 7,
        "queueOffset": 5,
        "physicalOffset": 4096,
        "sysFlag": 8,
        "bornTimestamp": 11,
        "storeTimestamp": 12,
        "reconsumeTimes": 13,
        "preparedTransactionOffset": 14,
        "bodyLength": 5,
        "totalSize": 126,
        "magic": 0xDAA320A7,
        "bodyCRC": 2010220930,
    }
    data = a1(
        flag=7, sys_flag=8, born_timestamp=11, store_timestamp=12, reconsume_times=13,
        prepared_transaction_offset=14,
    )  # fmt: skip
    for name, value in numbers.items():
        offset, size = record_format.LAYOUT[name]
        assert int.from_bytes(data[offset : offset + size], "big") == value, name


def test_a1_record() -> None:
    assert a1() == A1
    r = decode_record(A1)
    assert (r.total_size, r.version, r.body_crc) == (126, 1, 2010220930)
    assert (r.topic, r.queue_id, r.body) == ("TopicTest", 3, b"Hello")
    assert r.properties == A1_PROPERTIES
    assert str(r.born_host) == "127.0.0.1:50000"
    assert r.tags_code == 2598919
    assert check_record(A1) == Check(126, ok=True)


def test_a2_message_id() -> None:
    assert decode_record(A1).offset_message_id == "C0A8000100002A9F0000000000001000"


def test_a7_blank() -> None:
    blank = encode_blank(100)
    assert blank == bytes.fromhex("00000064cbd43194")
    assert is_blank(blank + bytes(92), 0, 100)
    assert not is_blank(blank + bytes(92), 0, 101)
    assert not is_blank(blank[:7], 0, 100)
    assert check_record(blank + bytes(92)) == Check(0, ok=True)
    with pytest.raises(Corrupt, match="end-of-file record"):
        decode_record(blank + bytes(92))
    with pytest.raises(ValueError, match="needs 8 bytes"):
        encode_blank(7)


def test_long_topic_takes_version_2() -> None:
    for length, version, total in ((127, 1, 91 + 127), (128, 2, 92 + 128), (255, 2, 92 + 255)):
        data = encode_record(b"t" * length, b"")
        r = decode_record(data)
        assert (r.version, r.total_size, len(r.topic)) == (version, total, length)


@pytest.mark.parametrize(("v6", "size"), [(0, 91), (1, 103), (2, 115)])
def test_ipv6_hosts_take_12_bytes_more(v6: int, size: int) -> None:
    hosts = [Host.parse("[2001:db8::1]:80")] * v6 + [Host.parse("10.0.0.1:81")] * (2 - v6)
    data = encode_record(b"t", b"", born_host=hosts[0], store_host=hosts[1])
    assert len(data) == size + 1
    r = decode_record(data)
    assert [r.born_host, r.store_host] == hosts
    assert check_record(data) == Check(size + 1, ok=True)
    patched = bytearray(data)
    patch_record(patched, 0, 1, 2, 3)
    assert decode_record(patched) == replace(
        r, queue_offset=1, physical_offset=2, store_timestamp=3
    )


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ({"body": bytes(11), "max_message_size": 10}, PutMessageStatus.MESSAGE_ILLEGAL),
        ({"topic": b""}, PutMessageStatus.MESSAGE_ILLEGAL),
        ({"topic": b"t" * 256}, PutMessageStatus.MESSAGE_ILLEGAL),
        ({"topic": b"t" * 128, "version": 1}, PutMessageStatus.MESSAGE_ILLEGAL),
        ({"queue_id": 2**31}, PutMessageStatus.MESSAGE_ILLEGAL),
        ({"properties": {"a": "b" * 32765}}, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
        (
            {"properties": {"a": "b" * 32760}, "record_crc": True},
            PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
        ),
    ],
)
def test_what_exceeds_a_limit_is_refused(
    arguments: dict[str, Any], status: PutMessageStatus
) -> None:
    with pytest.raises(IllegalMessage) as e:
        a1(**arguments)
    assert e.value.status == status


def test_limits_themselves_are_allowed() -> None:
    assert len(decode_record(a1(properties={"a": "b" * 32764})).properties_raw) == 32767
    assert decode_record(a1(body=bytes(10), max_message_size=10)).body == bytes(10)


@given(records())
def test_decode_then_encode_gives_the_same_bytes(data: bytes) -> None:
    r = decode_record(data)
    assert reencode(r) == data
    assert check_record(data) == Check(len(data), ok=True)


@given(TOPICS, st.binary(max_size=100), PROPERTIES, FIELDS)
def test_encode_then_decode_gives_the_same_fields(
    topic: str, body: bytes, properties: dict[str, str], fields: dict[str, Any]
) -> None:
    around = b"\xff" * 7
    data = around + encode_record(topic.encode(), body, encode_properties(properties), **fields)
    r = decode_record(memoryview(data + around), 7, len(data))
    assert (r.topic, r.body, r.properties) == (topic, body, properties)
    for name, value in fields.items():
        if name != "sys_flag":
            assert getattr(r, name) == value, name
    assert r.sys_flag & ~0x30 == fields["sys_flag"]


def test_record_crc_covers_everything_before_it() -> None:
    data = bytearray(a1(record_crc=True))
    r = decode_record(data)
    assert r.total_size == 126 + 20
    assert list(r.properties) == ["TAGS", "KEYS", "__CRC32#"]
    assert check_record(data, force_record_crc=True).ok
    patch_record(data, 0, 77, 88, 99, record_crc=True)
    assert decode_record(data).queue_offset == 77
    for at in range(8, len(data)):
        data[at] ^= 0x08
        assert not check_record(data, force_record_crc=True).ok, at
        data[at] ^= 0x08
    data[16] ^= 1
    with pytest.raises(Corrupt, match="__CRC32#"):
        decode_record(data)
    assert decode_record(data, check_crc=False).flag == 1 << 24
    assert not check_record(A1, force_record_crc=True).ok


def test_corrupt_says_where() -> None:
    data = bytearray(A1)
    data[88] ^= 1
    with pytest.raises(Corrupt) as e:
        decode_record(b"\0" * 10 + data, 10, path="commitlog/x", base=1000)
    assert (e.value.path, e.value.offset) == ("commitlog/x", 1098)
    assert "bodyCRC" in str(e.value)


@given(records(), st.data())
@settings(max_examples=200)
def test_flipped_bits_are_corrupt_or_said_as_they_are(data: bytes, choose: st.DataObject) -> None:
    damaged = bytearray(data)
    for bit in choose.draw(st.lists(st.integers(0, 8 * len(data) - 1), min_size=1, max_size=4)):
        damaged[bit // 8] ^= 1 << bit % 8
    check_record(damaged)
    check_record(damaged, check_dup=True, force_record_crc=True, read_body=False)
    try:
        r = decode_record(damaged)
    except Corrupt:
        return
    assert reencode(r) == damaged
    assert check_record(damaged) == Check(len(data), ok=True)


@given(records(), st.data())
def test_cut_records_are_corrupt(data: bytes, choose: st.DataObject) -> None:
    cut = choose.draw(st.integers(0, len(data) - 1))
    for buffer, limit in ((data[:cut], None), (data, cut)):
        with pytest.raises(Corrupt):
            decode_record(buffer, 0, limit)
        assert check_record(buffer, 0, limit).size == -1


@given(
    records(),
    st.sampled_from((0, 84, 96, 108)),
    st.sampled_from((-(2**31), -1, 0, 1, 90, 91, 2**16, 2**30, 2**31 - 1)) | st.integers(-500, 500),
)
def test_lying_lengths_are_corrupt_or_said_as_they_are(data: bytes, at: int, length: int) -> None:
    damaged = bytearray(data) + bytes(50)
    struct.pack_into(">i", damaged, min(at, len(data) - 4), length)
    check_record(damaged)
    try:
        r = decode_record(damaged)
    except Corrupt:
        return
    assert reencode(r) == damaged[: r.total_size]


def test_a_lying_length_allocates_nothing() -> None:
    damaged = bytearray(A1)
    for offset in (0, 84):
        struct.pack_into(">i", damaged, offset, 2**31 - 1)
        tracemalloc.start()
        with pytest.raises(Corrupt):
            decode_record(damaged)
        check_record(damaged)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100_000


@given(st.binary(max_size=200))
def test_noise_is_no_record(data: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_record(data)
    check_record(data)
    check_record(data[:4] + bytes.fromhex("daa320a7") + data[4:], read_body=False)


def patched(at: int, value: bytes, data: bytes = A1) -> bytes:
    return data[:at] + value + data[at + len(value) :]


SCHEDULED = a1(topic=b"SCHEDULE_TOPIC_XXXX", properties={"DELAY": "x"})


@pytest.mark.parametrize(
    ("data", "options", "size"),
    [
        (A1[:4], {}, -1),
        (A1[:-1], {}, -1),
        (patched(4, b"\0\0\0\0"), {}, -1),
        (patched(88, b"h"), {}, -1),
        (patched(88, b"h"), {"check_crc": False}, 126),
        (patched(88, b"h"), {"read_body": False}, 126),
        (A1, {"check_dup": True}, -1),
        (a1(properties={"DUP_INFO": "a_b"}), {"check_dup": True}, None),
        (a1(properties={"DUP_INFO": "a_"}), {"check_dup": True}, -1),
        (a1(properties={}), {"check_dup": True}, None),
        (a1(properties={}), {"force_record_crc": True}, -1),
        (SCHEDULED, {}, -1),
    ],
)
def test_check_outcomes(data: bytes, options: dict[str, bool], size: int | None) -> None:
    result = check_record(data, **options)
    assert result.size == (len(data) if size is None else size), result.why
    assert result.ok == (result.size > 0), result.why
    assert bool(result.why) == (not result.ok)


def test_check_tells_contradicting_lengths() -> None:
    assert check_record(A1 + b"\0", 0).size == 126
    longer = patched(0, (127).to_bytes(4, "big")) + b"\0"
    assert check_record(longer)[:2] == (127, False)
    negative = patched(103, struct.pack(">h", -1))
    assert check_record(negative)[:2] == (126, False)
