"""Requests: what fits travels unchanged, what does not is an error that names the field."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.shm.protocol.answers import (
    AnyAnswer,
    Assigned,
    Error,
    Opened,
    Revoke,
)
from silomq.shm.protocol.request import answer_of
from silomq.shm.protocol.requests import (
    AnyRequest,
    Hello,
    Join,
    Open,
    Start,
    Sync,
    Watch,
    id_of,
)

REQUESTS: msgspec.json.Decoder[AnyRequest] = msgspec.json.Decoder(AnyRequest)
ANSWERS: msgspec.json.Decoder[AnyAnswer] = msgspec.json.Decoder(AnyAnswer)
JOIN = {
    "do": "join",
    "group": "g",
    "model": "clustering",
    "filters": {"t": ["TAG", "*"]},
    "start": {"from": "earliest"},
}
TIME = {"from": "time"}
# Each must be refused with an error that names its field.
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no request": ({}, "do"),
    "unknown request": ({"do": "dance"}, "$.do"),
    "unknown field": ({"do": "clean", "hard": True}, "hard"),
    "missing field": ({"do": "open", "topic": "t"}, "write"),
    "number as text": ({"do": "create", "topic": "t", "queues": "4"}, "$.queues"),
    "number with a point": ({"do": "create", "topic": "t", "queues": 4.5}, "$.queues"),
    "number of no size": ({"do": "create", "topic": "t", "queues": 2**63}, "$.queues"),
    "truth as a number": ({"do": "open", "topic": "t", "write": 1}, "$.write"),
    "name as a number": ({"do": "delete", "topic": 7}, "$.topic"),
    "name too long": ({"do": "delete", "topic": "x" * 1025}, "$.topic"),
    "negative slot": ({"do": "watch", "slots": [0, -1]}, "$.slots[1]"),
    "slot too large": ({"do": "watch", "slots": [2**31]}, "$.slots[0]"),
    "slots in an object": ({"do": "watch", "slots": {"0": 1}}, "$.slots"),
    "negative offset": ({"do": "lease", "offset": -1}, "$.offset"),
    "offset too large": ({"do": "lease", "offset": 2**63}, "$.offset"),
    "page before the first": ({"do": "topics", "after": -1}, "$.after"),
    "id too large": ({"do": "clean", "id": 2**64}, "$.id"),
    "filters in a list": ({**JOIN, "filters": []}, "$.filters"),
    "filter of another kind": ({**JOIN, "filters": {"t": ["REGEX", "x"]}}, "$.filters"),
    "filter too short": ({**JOIN, "filters": {"t": ["TAG"]}}, "$.filters"),
    "start unheard of": ({**JOIN, "start": {"from": "middle"}}, "$.start.from"),
    "start as text": ({**JOIN, "start": "earliest"}, "$.start"),
    "start too large": ({**JOIN, "start": {**TIME, "offsets": {"t": {"0": 2**63}}}}, "$.start"),
    "start of no queue": ({**JOIN, "start": {**TIME, "offsets": {"t": {"x": 1}}}}, "$.start"),
    "reset in a list": ({"do": "reset", "group": "g", "topic": "t", "offsets": []}, "$.offsets"),
    "reset of nothing": ({"do": "reset", "group": "g", "topic": "t", "offsets": {}}, "$.offsets"),
    "released as text": ({"do": "sync", "have": 0, "released": ["t"]}, "$.released[0]"),
    "ack file below 0": ({"do": "sync", "have": -1, "released": []}, "$.have"),
}  # fmt: skip


@pytest.mark.parametrize(("packet", "field"), BAD.values(), ids=BAD)
def test_what_does_not_fit_is_an_error_that_names_the_field(
    packet: dict[str, Any], field: str
) -> None:
    data = json.dumps({**packet, "id": packet.get("id", 12)}).encode()
    with pytest.raises(msgspec.ValidationError) as error:
        REQUESTS.decode(data)
    assert field in str(error.value)
    assert id_of(data) == (12 if "id" not in packet else 0)


def test_requests_are_json_that_a_person_can_read() -> None:
    start = Start("time", {"t": {0: 5}})
    join = Join("g", "clustering", {"t": ("TAG", "a || b")}, start, id=3)
    data = msgspec.json.encode(join)
    assert json.loads(data) == {
        "do": "join",
        "group": "g",
        "model": "clustering",
        "filters": {"t": ["TAG", "a || b"]},
        "start": {"from": "time", "offsets": {"t": {"0": 5}}},
        "instance": "",
        "id": 3,
    }
    assert REQUESTS.decode(data) == join


def test_a_hello_of_another_version_is_understood() -> None:
    data = b'{"do": "hello", "protocol": 99, "ring_size": 0, "wants": ["more"], "id": 1}'
    assert REQUESTS.decode(data) == Hello(99, id=1)


def test_a_request_knows_its_answer() -> None:
    assert answer_of(Open) is Opened
    assert isinstance(Assigned(number=1), answer_of(Sync))
    assert isinstance(Revoke(revoke=[("t", 0)]), answer_of(Sync))
    assert not isinstance(Opened(index=0, slots=()), answer_of(Watch))


def test_an_error_of_another_version_is_understood() -> None:
    data = b'{"kind": "error", "status": "UNKNOWN_ERROR", "why": "so", "advice": "none"}'
    assert ANSWERS.decode(data) == Error(status="UNKNOWN_ERROR", why="so")


@pytest.mark.parametrize("data", [b"", b"7", b"[]", b'{"id": "x"}', b'{"id": -1}', b"\xff", b"{"])
def test_a_packet_without_an_id_has_id_0(data: bytes) -> None:
    assert id_of(data) == 0


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from(["TAG", "latest", "time", "t"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
NAMES = sorted({name for struct in AnyRequest.__args__ for name in struct.__struct_encode_fields__})
TAGS = sorted(str(struct.__struct_config__.tag) for struct in AnyRequest.__args__)


@given(st.sampled_from(TAGS), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6))
def test_any_json_is_a_request_within_bounds_or_an_error(do: str, fields: dict[str, Any]) -> None:
    data = json.dumps({"do": do, **fields}).encode()
    try:
        request = REQUESTS.decode(data)
    except ValueError:
        assert id_of(data) >= 0
        return
    again = REQUESTS.decode(msgspec.json.encode(request))
    assert again == request
