"""The bodies of registrations: of RocketMQ 5, of RocketMQ 4, compressed, and garbage."""

from __future__ import annotations

import contextlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.names.registration import (
    BadBody,
    DataVersion,
    TopicConfig,
    Topics,
    decode_topics,
    decode_version,
)

PLAIN = (
    b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":12,'
    b'"stateVersion":3,"timestamp":17},"mappingDataVersion":{"counter":0,"stateVersion":0,'
    b'"timestamp":1},"topicConfigTable":{"TBW102":{"attributes":{},"order":false,"perm":7,'
    b'"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"TBW102","topicSysFlag":0,'
    b'"writeQueueNums":9}},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}'
)
FOUND = Topics(DataVersion(12, 3, 17), {"TBW102": TopicConfig(8, 9, 7, 0)})


def read(body: bytes, *, compressed: bool = False, version: int = 479, crc: int = 0) -> Topics:
    return decode_topics(body, compressed=compressed, version=version, crc=crc)


def part(text: bytes) -> bytes:
    return struct.pack(">i", len(text)) + text


def deflated(topics: list[bytes], *more: bytes) -> bytes:
    version = part(b'{"counter":12,"timestamp":17}')
    table = struct.pack(">i", len(topics)) + b"".join(map(part, topics))
    return zlib.compress(version + table + part(b"[]") + b"".join(more))


def test_a_registration_of_rocketmq_5() -> None:
    assert read(PLAIN) == FOUND
    assert read(PLAIN, crc=zlib.crc32(PLAIN) & 0x7FFFFFFF) == FOUND


def test_keys_without_quotes_and_numbers_in_quotes() -> None:
    odd = PLAIN.replace(b'"attributes":{}', b'"attributes":{0:"a"}').replace(b":12,", b':"12",')
    assert read(odd) == FOUND


def test_no_body_is_no_topics() -> None:
    assert read(b"") == Topics()
    assert decode_version(b"") == DataVersion()


def test_a_wrong_checksum() -> None:
    assert zlib.crc32(b"123456789") & 0x7FFFFFFF == 1274296614  # as RocketMQ computes it
    with pytest.raises(BadBody, match="crc32 not match"):
        read(PLAIN, crc=1)


@pytest.mark.parametrize("version", [409, 479])
def test_a_compressed_registration(version: int) -> None:
    topics = [b"TBW102 8 9 7 SINGLE_TAG", b"x 1 2 6 SINGLE_TAG {}"]
    more = [struct.pack(">i", 0)] if version > 413 else []
    found = read(deflated(topics, *more), compressed=True, version=version)
    assert found.version == DataVersion(12, 0, 17)
    assert found.table == {"TBW102": TopicConfig(8, 9, 7, 0), "x": TopicConfig(1, 2, 6, 0)}


def test_a_compressed_registration_is_bounded() -> None:
    bomb = zlib.compress(part(b"{}") + bytes(200 << 20))
    with pytest.raises(BadBody, match="when it is inflated"):
        read(bomb, compressed=True)


BAD = [
    b"{", b"[]", b"1", b'{"topicConfigSerializeWrapper":5}', b"\xff" * 20,
    b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"a":{"perm":"x"}}}}', b"[" * 10_000,
]  # fmt: skip


@pytest.mark.parametrize("body", BAD)
def test_a_bad_body_is_told(body: bytes) -> None:
    with pytest.raises(BadBody, match="no registration"):
        read(body)
    with pytest.raises(BadBody, match="no registration"):
        read(body, compressed=True)


@given(st.binary(max_size=100))
def test_any_bytes_are_topics_or_told(data: bytes) -> None:
    for body, compressed in ((data, False), (data, True), (zlib.compress(data), True)):
        with contextlib.suppress(BadBody):
            read(body, compressed=compressed)
    with contextlib.suppress(BadBody):
        decode_version(data)


@given(st.binary(max_size=30), st.integers(0, 60))
def test_a_damaged_registration_is_topics_or_told(data: bytes, at: int) -> None:
    version = part(b'{"counter":12,"timestamp":17}')
    whole = version + struct.pack(">i", 1) + part(b"TBW102 8 9 7 SINGLE_TAG") + part(b"[]")
    damaged = whole[:at] + data + whole[at + len(data) :]
    with contextlib.suppress(BadBody):
        read(zlib.compress(damaged), compressed=True)
