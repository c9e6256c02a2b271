"""The fields of a send in both spellings, and the messages of a batch."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.broker_requests import GOOD, send_fields

from silomq.broker.groups.heartbeats import BadBody
from silomq.broker.processors.send_headers import Member, SendHeader, members
from silomq.broker.wire.command import Command
from silomq.broker.wire.headers import BadHeader


def header(code: int, **more: str) -> SendHeader:
    fields = {name: str(value) for name, value in GOOD[code].fields.items()}
    return SendHeader.of(Command(code, {**fields, **more}))


def test_both_spellings_are_the_same() -> None:
    assert header(10) == header(310)
    assert header(10, batch="true").batch
    assert header(310, m="1").batch
    assert header(320).batch
    assert not header(310).batch


def test_what_may_be_missing() -> None:
    found = SendHeader.of(Command(10, {"topic": "t", "queueId": "3"}))
    assert (found.topic, found.queue_id, found.properties) == ("t", 3, "")
    assert found.max_reconsume_times is None
    for name in ("topic", "queueId"):
        fields = {key: str(value) for key, value in send_fields().items() if key != name}
        with pytest.raises(BadHeader, match=name):
            SendHeader.of(Command(10, fields))


@pytest.mark.parametrize("value", ["", "x", "1.5", "9" * 5000])
def test_numbers_that_are_none(value: str) -> None:
    for name in ("queueId", "sysFlag", "bornTimestamp", "flag", "maxReconsumeTimes"):
        with pytest.raises(BadHeader):
            header(10, **{name: value})


def encoded(found: list[Member]) -> bytes:
    parts = []
    for flag, body, properties in found:
        data = properties.encode()
        total = 22 + len(body) + len(data)
        parts.append(struct.pack(">iiiii", total, 0, 0, flag, len(body)) + body)
        parts.append(struct.pack(">h", len(data)) + data)
    return b"".join(parts)


MEMBERS = st.lists(
    st.builds(
        Member, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=50), st.text(max_size=9)
    ),
    min_size=1,
    max_size=5,
)


@given(MEMBERS)
def test_batches_are_read(found: list[Member]) -> None:
    assert members(encoded(found)) == found


@given(MEMBERS, st.data())
def test_damaged_batches(found: list[Member], data: st.DataObject) -> None:
    body = bytearray(encoded(found))
    if data.draw(st.booleans()):
        del body[data.draw(st.integers(0, len(body) - 1)) :]
    else:
        body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        read = members(bytes(body))
    except BadBody:
        return
    assert sum(22 + len(one.body) + len(one.properties.encode()) for one in read) == len(body)


def test_a_batch_of_nothing() -> None:
    with pytest.raises(BadBody, match="no message"):
        members(b"")
