"""The check before a fast path sees what the general way sees, in both serialisations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.broker_requests import raw_frame
from support.echo import Echo, read

from silomq.broker.access._checked import CheckedFastPath
from silomq.broker.access.signatures import signed_fields
from silomq.broker.loop._connection import FastPath
from silomq.broker.wire.command import Command, Serialization, decode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from socket import socket

NAMES = ("AccessKey", "Signature", "topic", "b", "consumerGroup", "a", "bname", "Z", "topics")
VALUES = st.text(st.characters(max_codepoint=126), max_size=12)


class Noted:
    """What `allows` was asked. Nothing is served, so every frame comes back."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.echo = Echo()
        self.allowed = False
        #: How many frames came through to what stands behind the check.
        self.served = 0
        behind = CheckedFastPath(FastPath(), self.serve)
        self.echo.limits.fast = CheckedFastPath(behind, self.allows)

    def allows(self, host: bytes, kind: Any, signature: bytes, signed: Any, body: Any) -> bool:
        assert len(host) == 8
        self.asked.append((kind, signature, bytes(signed), bytes(body)))
        return self.allowed

    def serve(self, *_: object) -> bool:
        self.served += 1
        return False


@pytest.fixture(scope="module")
def noted() -> Iterator[Noted]:
    found = Noted()
    with found.echo:
        yield found


@pytest.fixture(scope="module")
def end(noted: Noted) -> Iterator[socket]:
    with noted.echo.connect() as connected:
        yield connected


def exchange(end: socket, frame: bytes) -> None:
    end.sendall(frame)
    assert read(end, len(frame)) == frame


@settings(deadline=None, max_examples=150)
@given(
    st.tuples(st.sampled_from((10, 310, 320, 11, 361)), st.sampled_from(Serialization)),
    st.dictionaries(st.sampled_from(NAMES), VALUES),
    st.binary(max_size=40),
)
def test_it_sees_what_the_general_way_sees(
    noted: Noted,
    end: socket,
    kind: tuple[int, Serialization],
    fields: dict[str, str],
    body: bytes,
) -> None:
    code, form = kind
    noted.asked.clear()
    frame = Command(code, fields, body, serialization=form).encode()
    exchange(end, frame)
    found = decode(frame[4:])
    topic = found.fields.get("b" if code in {310, 320} else "topic")
    if topic is None:
        assert noted.asked == []
        return
    group = found.fields.get("consumerGroup", "") if code in {11, 361} else ""
    key = found.fields.get("AccessKey")
    what = (None if key is None else key.encode(), code, topic.encode(), group.encode())
    signature = found.fields.get("Signature", "").encode()
    assert noted.asked == [(what, signature, signed_fields(found.fields, found.version), body)]


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (15, '{"topic":"t"}'),
        (10, '{"topic":"t","topic":"u"}'),
        (10, '{"topic":"t","x":"\u00e9"}'),
        (10, '{"topic":"t","x":"\\u00e9"}'),
        (10, '{"topic":"t","x":[1]}'),
        (10, "{}"),
    ],
)
def test_what_it_leaves_to_the_general_way(
    noted: Noted, end: socket, code: int, fields: str
) -> None:
    noted.asked.clear()
    exchange(end, raw_frame(code, 1, fields))
    assert noted.asked == []


def test_numbers_are_signed_as_they_were_sent(noted: Noted, end: socket) -> None:
    noted.asked.clear()
    frame = raw_frame(310, 1, '{"e": 03 ,"b":"t","f":-0,"m":true,"c":null,"d":"a\\n\\u0041"}')
    exchange(end, frame)
    assert [asked[2] for asked in noted.asked] == [b"ta\nA03-0true"]


def test_what_is_allowed_is_served_and_nothing_else(noted: Noted, end: socket) -> None:
    frame = raw_frame(10, 1, '{"topic":"t"}')
    for allowed in (False, True, False):
        noted.allowed, noted.served = allowed, 0
        exchange(end, frame)
        assert noted.served == allowed
