"""Single fields of a record are those that decoding the whole record finds."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.store.record.fields import HEAD_BYTES, head_of, magic_of, store_time_of
from silomq.store.record.format import MIN_RECORD_BYTES, decode_record, encode_record
from silomq.store.record.ids import Host

HOSTS = st.sampled_from([Host(b"\x7f\0\0\x01", 10911), Host(bytes(15) + b"\x01", 65535)])
I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)


@given(
    position=st.integers(0, 9),
    topic=st.sampled_from([b"t", b"t" * 200]),
    born_host=HOSTS,
    store_host=HOSTS,
    queue_id=I32,
    flag=I32,
    queue_offset=I64,
    physical_offset=I64,
    store_timestamp=I64,
)
def test_fields_are_those_of_the_decoded_record(position: int, topic: bytes, **fields: Any) -> None:
    data = encode_record(topic, b"body", **fields)
    record = decode_record(data)
    head = head_of(bytes(position) + data, position)
    assert head.is_record
    assert head.magic == magic_of(bytes(position) + data, position)
    for name in head._fields:
        if name != "magic":
            assert getattr(head, name) == getattr(record, name), name
    assert store_time_of(bytes(position) + data, position) == record.store_timestamp
    assert store_time_of(data[:HEAD_BYTES]) == record.store_timestamp


def test_the_smallest_record_has_a_whole_head() -> None:
    assert HEAD_BYTES <= MIN_RECORD_BYTES
    with pytest.raises(struct.error):
        head_of(bytes(39))


def test_zeros_are_no_record() -> None:
    assert not head_of(bytes(MIN_RECORD_BYTES)).is_record
