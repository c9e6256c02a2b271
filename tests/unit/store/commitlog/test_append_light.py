"""Messages for light queues (LMQ): what append takes, and what it fills in. `test_append.py` and
`test_append_take_over.py` hold it against the twin, with kills.
"""

from __future__ import annotations

import pytest
from support.append_rig import Rig
from support.frames import LIGHT, light_properties, one

from silomq.store.record.format import decode_record
from silomq.store.record.properties import LIGHT_MOST, encode_properties, light_queues
from silomq.store.status import PutMessageStatus

A, B, _ = LIGHT
ZEROS = "0" * 19


def raw(names: str, offsets: str) -> bytes:
    pairs = {"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": offsets}
    return encode_properties(pairs)


def status_of(
    rig: Rig, topic: str = "a", *, topics: list[str] | None = None, **message: object
) -> int:
    producer = rig.new_ring(topics)
    begin = producer.place(rig.frame(one(topic, 0, **message)))
    rig.run()
    return producer.result(begin).status


def test_each_message_gets_the_next_offset_of_each_light_queue() -> None:
    rig = Rig(light=True, append_crc=True)
    producer = rig.new_ring()
    for names in ((A,), (A, B), (B,), (B, A)):
        producer.place(rig.frame(one(properties=light_properties(names))))
    rig.run()
    found, at = [], 0
    while at < rig.wrote:
        record = decode_record(rig.log, at, check_crc=True)
        found.append(light_queues(record.properties))
        at += record.total_size
    assert found == [{A: 0}, {A: 1, B: 0}, {B: 1}, {B: 2, A: 2}]
    assert rig.next_offsets() == {("a", 0): 4, (A, 0): 3, (B, 0): 3}


@pytest.mark.parametrize(
    "properties",
    [
        raw(A, "0"),
        raw(A, "0" * 18),
        raw(A, "0" * 20),
        raw(A, "x" * 19),
        raw(A, f"{ZEROS},{ZEROS}"),
        raw(f"{A},{B}", ZEROS),
        raw(f"{A},{A}", f"{ZEROS},{ZEROS}"),
        raw("%LMQ%unknown", ZEROS),
        raw("a", ZEROS),
        raw("topic-two", ZEROS),
        raw(",", ZEROS),
        encode_properties({"INNER_MULTI_QUEUE_OFFSET": ZEROS}),
        raw(A, ZEROS) + raw(A, "7"),
        raw(",".join([A] * (LIGHT_MOST + 1)), ",".join([ZEROS] * (LIGHT_MOST + 1))),
    ],
    ids=range(14),
)
def test_offsets_that_append_cannot_fill_in_are_refused(properties: bytes) -> None:
    rig = Rig(light=True)
    assert status_of(rig, properties=properties) == PutMessageStatus.MESSAGE_ILLEGAL
    assert not any(rig.log)
    assert rig.next_offsets() == {}


def test_a_session_needs_the_right_to_write_to_each_light_queue() -> None:
    rig = Rig(light=True)
    both = light_properties((A, B))
    refused = PutMessageStatus.MESSAGE_ILLEGAL
    assert status_of(rig, topics=["a", A], properties=both) == refused
    assert status_of(rig, topics=["a", A, B], properties=both) == PutMessageStatus.PUT_OK


def test_a_store_without_light_queues_takes_no_offsets_in_them() -> None:
    """A client could otherwise have RocketMQ, or a start, dispatch a message to any place."""
    rig = Rig()
    for refused in (raw(A, "7"), b"INNER_MULTI_QUEUE_OFFSET\x017"):  # the shortest one
        assert status_of(rig, properties=refused) == PutMessageStatus.MESSAGE_ILLEGAL
    named = encode_properties({"INNER_MULTI_DISPATCH": A, "OTHER_OFFSET": "1", "SET": "x"})
    assert status_of(rig, properties=named) == PutMessageStatus.PUT_OK


@pytest.mark.parametrize("length", range(40))
def test_offsets_are_found_wherever_they_stand(length: int) -> None:
    """The look for the property compares 16 bytes at a time."""
    before = encode_properties({"k": "v" * length}) if length else b""
    for after in (b"", b"k\x01" + b"v" * length + b"\x02"):
        rig = Rig()
        status = status_of(rig, properties=before + raw(A, "7") + after)
        assert status == PutMessageStatus.MESSAGE_ILLEGAL


def test_half_and_delayed_messages_have_no_offsets_in_light_queues() -> None:
    rig = Rig(light=True)
    refused = PutMessageStatus.MESSAGE_ILLEGAL
    assert status_of(rig, properties=light_properties((A,)), sys_flag=0x4) == refused
    assert status_of(rig, "SCHEDULE_TOPIC_XXXX", properties=light_properties((A,))) == refused
    assert status_of(rig, A, properties=light_properties((A,))) == refused
