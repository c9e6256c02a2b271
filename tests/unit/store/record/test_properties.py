"""Property strings, Java's hashes, statuses and errors."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import PROPERTIES
from support.twins import AppendMessageStatus, QueueEntry

from silomq.store.errors import Corrupt, CorruptRange, IllegalMessage, StoreError
from silomq.store.record import properties as p
from silomq.store.record.javahash import index_key_hash, java_parse_int, java_string_hash, tags_code
from silomq.store.status import GetMessageStatus, PutMessageStatus


@given(PROPERTIES)
def test_round_trip(properties: dict[str, str]) -> None:
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


def test_a3_a4_a5_hashes() -> None:
    assert java_string_hash("") == 0
    assert java_string_hash("TagA") == 2598919
    assert java_string_hash("中文") == 646394
    assert java_string_hash("polygenelubricants") == -(2**31)
    assert java_string_hash("😀") == 31 * 0xD83D + 0xDE00
    assert tags_code("TagA") == 2598919
    assert tags_code("") == tags_code(None) == 0
    entry = QueueEntry(4096, 126, tags_code("TagA"))
    assert entry.pack().hex() == "00000000000010000000007e000000000027a807"
    assert index_key_hash("TopicTest", "k1") == 2746024
    assert index_key_hash("TopicTest", "k2") == 2746025


def test_index_hash_of_the_least_integer_is_0() -> None:
    # The rest to -2**31, written with digits to the base that the hash uses.
    rest = (2**31 - java_string_hash("t#") * 31**7) % 2**32
    key = "".join(chr(rest // 31**place % 31) for place in range(6, -1, -1))
    assert java_string_hash(f"t#{key}") == -(2**31)
    assert index_key_hash("t", key) == 0


@given(st.text(st.characters(exclude_categories=())))
def test_hash_is_javas(text: str) -> None:
    data = text.encode("utf-16-be", "surrogatepass")
    h = 0
    for i in range(0, len(data), 2):
        h = h * 31 + int.from_bytes(data[i : i + 2], "big")
    assert (java_string_hash(text) - h) % 2**32 == 0
    assert -(2**31) <= java_string_hash(text) < 2**31


def test_java_parse_int() -> None:
    assert [java_parse_int(t) for t in ("0", "+7", "-2147483648", "007")] == [0, 7, -(2**31), 7]
    for text in ("", " 1", "1_0", "0x1", "2147483648", "-", "1.0", "9" * 100_000):
        with pytest.raises(ValueError, match="Java int"):
            java_parse_int(text)


def test_statuses_are_numbered_as_in_rocketmq() -> None:
    for kind in (PutMessageStatus, AppendMessageStatus, GetMessageStatus):
        assert [s.value for s in kind] == list(range(len(kind)))
    assert [s.name for s in PutMessageStatus][0::15] == ["PUT_OK", "WHEEL_TIMER_NOT_ENABLE"]
    assert [s.name for s in GetMessageStatus][0::9] == ["FOUND", "OFFSET_RESET"]
    assert [s.name for s in AppendMessageStatus][0::5] == ["PUT_OK", "ROCKSDB_ERROR"]


def test_errors_say_what_and_where_and_survive_pickling() -> None:
    errors: list[StoreError] = [
        Corrupt("commitlog/0", 12, "bad magic"),
        CorruptRange(100, 150),
        IllegalMessage(PutMessageStatus.MESSAGE_ILLEGAL, "no topic"),
    ]
    said = [
        "corrupt data at commitlog/0, offset 12: bad magic",
        "100 to 150 (50 bytes)",
        "no topic",
    ]
    for error, words in zip(errors, said, strict=True):
        assert words in str(error)
        # Errors cross process borders.
        again = pickle.loads(pickle.dumps(error))
        assert vars(again) == vars(error)
