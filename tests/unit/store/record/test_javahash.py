"""Java's hashes and integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.twins import QueueEntry

from silomq.store.record.javahash import index_key_hash, java_parse_int, java_string_hash, tags_code


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
