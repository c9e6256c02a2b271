"""Property strings: what is encoded, decoded and refused, and the record's CRC among them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import PROPERTIES

from silomq.store.errors import IllegalMessage
from silomq.store.record import properties as p
from silomq.store.status import PutMessageStatus


@given(PROPERTIES)
def test_what_is_encoded_is_decoded(properties: dict[str, str]) -> None:
    assert p.decode_properties(p.encode_properties(properties)) == properties


@pytest.mark.parametrize(
    ("data", "properties"),
    [
        (b"", {}),
        (b"a\x01b", {"a": "b"}),
        (b"a\x01b\x02", {"a": "b"}),
        (b"a\x01b\x02\x02a\x01c\x02", {"a": "c"}),
        (b"a\x01\x02\x01b\x02\x01\x02ab\x02", {}),
        (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
        ("名\x01値\x02".encode(), {"名": "値"}),
    ],
)
def test_decode_rules(data: bytes, properties: dict[str, str]) -> None:
    assert p.decode_properties(data) == properties
    assert p.decode_properties(memoryview(data)) == properties


def test_decode_of_what_is_not_utf8() -> None:
    with pytest.raises(UnicodeDecodeError):
        p.decode_properties(b"a\x01\xff\x02")
    assert p.decode_properties(b"a\x01\xff\x02", "replace") == {"a": "\ufffd"}


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"": "v"}, "empty"),
        ({"n": ""}, "leave it out"),
        ({"n\x01": "v"}, "separator"),
        ({"n": "v\x02"}, "separator"),
        ({"n": 3}, "int; only str"),
        ({"n": "\ud800"}, "lone surrogate"),
    ],
)
def test_encode_refuses(properties: dict[str, str | None], why: str) -> None:
    with pytest.raises(IllegalMessage, match=why) as e:
        p.encode_properties(properties)
    assert e.value.status == PutMessageStatus.MESSAGE_ILLEGAL


def test_encode_leaves_out_none_and_keeps_the_order() -> None:
    assert p.encode_properties({"b": "1", "x": None, "a": "2"}) == b"b\x011\x02a\x012\x02"


def test_size_limit_is_in_bytes() -> None:
    assert len(p.encode_properties({"a": "ä" * 16382})) == 32767
    with pytest.raises(IllegalMessage, match="32768 bytes") as e:
        p.encode_properties({"ab": "ä" * 16382})
    assert e.value.status == PutMessageStatus.PROPERTIES_SIZE_EXCEEDED


def test_index_keys() -> None:
    assert p.index_keys({}) == []
    assert p.index_keys({"KEYS": " a  b a ", "UNIQ_KEY": "U"}) == ["U", "a", "b", "a"]
    assert p.index_keys({"KEYS": "a\tb"}) == ["a\tb"]


def test_a6_record_crc_digits() -> None:
    assert p.crc_digits(2010220930) == "0390220102"
    assert p.crc_digits(123) == "3210000000"
    assert p.encode_crc(0) == b"__CRC32#\x010000000000\x02"
    with pytest.raises(ValueError, match="2\\*\\*31"):
        p.encode_crc(2**31)
    for digits in ("", "123", "x" * 10, "\u0661" * 10):
        with pytest.raises(ValueError, match="10 digits"):
            p.decode_crc(digits)


@given(st.integers(0, 2**31 - 1))
def test_record_crc_round_trip(crc: int) -> None:
    assert p.decode_crc(p.crc_digits(crc)) == crc
    assert p.trailing_crc(b"a\x01b\x02" + p.encode_crc(crc)) == crc


def test_room_for_the_record_crc() -> None:
    zero = p.encode_crc(0)
    assert p.reserve_crc(b"") == zero
    assert p.reserve_crc(b"a\x01b") == b"a\x01b\x02" + zero
    assert p.reserve_crc(p.encode_crc(5) + b"a\x01b\x02") == b"a\x01b\x02" + zero
    assert p.trailing_crc(b"a\x01b\x02") is None
    assert p.trailing_crc(b"") is None


@pytest.mark.parametrize("digits", ["", "x", "-1", "²", "9" * 20, "0" * 5000, "9" * 5000])
def test_a_light_queue_without_an_offset_counts_for_nothing(digits: str) -> None:
    """As in the kernels: a record in the log may hold any text, and dispatch must go on."""
    found = p.light_queues({p.MULTI_DISPATCH: "%LMQ%a,%LMQ%b", p.MULTI_QUEUE_OFFSET: f"{digits},7"})
    assert found == {"%LMQ%b": 7}
