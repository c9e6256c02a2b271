"""Op records: ours, and those of all releases of RocketMQ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from silomq.store.names import TRANS_OP_HALF_TOPIC
from silomq.store.record.format import Record, decode_record
from silomq.store.record.ids import Host
from silomq.store.transactions.ops import encode_op, op_bodies, read_op

HOST = Host.parse("10.1.2.3:10911")


def op(body: bytes) -> Record:
    return decode_record(encode_op(body, 1234, HOST, record_crc=False))


@given(st.lists(st.integers(0, 2**63 - 1), max_size=2000), st.integers(1, 4096))
def test_every_half_is_named_once(queue_offsets: list[int], most_bytes: int) -> None:
    bodies = list(op_bodies(queue_offsets, most_bytes))
    assert [n for _, held in bodies for n in held] == queue_offsets
    for body, held in bodies:
        assert len(body) <= most_bytes or len(held) == 1
        assert read_op(op(body)) == held
        if len(held) == 1:
            assert body == str(held[0]).encode(), "RocketMQ 4 reads this form alone"


def test_the_record_is_rocketmqs() -> None:
    record = op(b"12,13,")
    assert (record.topic, record.queue_id, record.tags) == (TRANS_OP_HALF_TOPIC, 0, "d")
    assert record.body == b"12,13,"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"12", [12]),  # RocketMQ before 5.1
        (b"12,", [12]),
        (b"1,2,3,", [1, 2, 3]),
        (b",,5,", [5]),
        (b"", []),
        (b"x,6,-7,8.0,\xff9,", [6]),
        (b"9" * 20 + b",4,", [4]),
    ],
)
def test_what_is_read(body: bytes, named: list[int]) -> None:
    assert read_op(op(body)) == named


def test_another_tag_names_nothing() -> None:
    record = op(b"12,")
    other = replace(record, properties={**record.properties, "TAGS": "x"})
    assert read_op(other) == []
