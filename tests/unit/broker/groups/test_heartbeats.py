"""Heart-beats as the clients of all languages write them, and bodies that are none."""

from __future__ import annotations

import json

import pytest

from silomq.broker.groups.heartbeats import BadBody, ConsumerData, decode_heartbeat


def beat(**consumer: object) -> ConsumerData:
    data = {"clientID": "c", "consumerDataSet": [{"groupName": "g", **consumer}]}
    return decode_heartbeat(json.dumps(data).encode()).consumers[0]


@pytest.mark.parametrize(
    ("written", "read"),
    [("CONSUME_ACTIVELY", "CONSUME_ACTIVELY"), (0, "CONSUME_ACTIVELY"), ("1", "CONSUME_PASSIVELY")],
)
def test_enums_have_names_or_numbers(written: object, read: str) -> None:
    assert beat(consumeType=written).consume_type == read


def test_what_is_left_out() -> None:
    found = beat()
    assert (found.consume_type, found.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert found.subscription_data_set == []


@pytest.mark.parametrize("number", [-1, 3, "3", "9" * 5000, 2**63, "\u0663"])
def test_a_number_of_nothing(number: object) -> None:
    with pytest.raises(BadBody):
        beat(consumeType=number)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"null", b"[]", b"\xff", b"[" * 100_000, b'{"a":' * 100_000),
        b'{"clientID":null}',
        b'{"clientID":"c","consumerDataSet":[{}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[1]}]}',
        b'{"clientID":"c","producerDataSet":{"groupName":"g"}}',
        b'{"clientID":"' + b"c" * (3 << 20) + b'"}',
    ],
)
def test_bodies_that_are_none(body: bytes) -> None:
    with pytest.raises(BadBody):
        decode_heartbeat(body)
