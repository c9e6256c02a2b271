"""Settings in a body."""

from __future__ import annotations

import pytest

from silomq.broker.wire.headers import BadHeader
from silomq.broker.wire.properties import encode_properties, parse_properties


def test_lines_of_names_and_values() -> None:
    body = b"# a remark\n\na=1\n b = two words \r\nc=x=y\nd=\n"
    assert parse_properties(body) == {"a": "1", "b": "two words", "c": "x=y", "d": ""}
    assert parse_properties(b"") == {}
    assert encode_properties({"b": "2", "a": "1"}) == b"a=1\nb=2\n"


@pytest.mark.parametrize("body", [b"name", b"\xff=1", b"a=" + b"x" * 65_536])
def test_what_is_none(body: bytes) -> None:
    with pytest.raises(BadHeader):
        parse_properties(body)
