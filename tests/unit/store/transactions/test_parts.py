"""The compiled readers of halves and decisions agree with the decoder of records."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.halves import HOST, PROPERTIES, half
from support.plain_decisions import read_decision

from silomq.store.consumequeue.queue import ENTRY
from silomq.store.errors import Corrupt
from silomq.store.names import TRANS_END_TOPIC, TRANS_HALF_TOPIC
from silomq.store.record.format import decode_record, encode_record
from silomq.store.transactions._parts import ENDED, NO_DECISION, NO_HALF, OTHER_GROUP, screen
from silomq.store.transactions.decisions import KINDS, RAW_NAMES, Decision
from silomq.store.transactions.half import RAW_KEYS, Half, NotAHalf, half_in, read_half

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Numbers as anybody may write them.
NUMBERS = ("", "0", "7", "8", "12", "007", "-1", "+1", "1 2", "1" * 19, "9" * 19, "1" * 20, "٣")
TEXTS = ("", "t", "pg", "é", "\udcff", "x" * 300, TRANS_HALF_TOPIC, "t\x01u")
FIRSTS = ("", "12 34", "12", " 34", "12 34 56", "1" * 19 + " 1")
HALF_NAMES = (
    *("REAL_TOPIC", "REAL_QID", "PGROUP", "CHECK_IMMUNITY_TIME_IN_SECONDS", "UNIQ_KEY"),
    *("TRAN_PREPARED_QUEUE_OFFSET", "TRANSACTION_CHECK_TIMES", "TRAN_FIRST_HALF", "TAGS", "", "P"),
)
DECISION_NAMES = tuple(name.decode() for name in RAW_NAMES)


def pairs(names: tuple[str, ...]) -> st.SearchStrategy[bytes]:
    """Property strings of these names, with repeated names, odd values and stray separators."""
    values = st.sampled_from((*NUMBERS, *TEXTS, *FIRSTS))
    pair = st.tuples(st.sampled_from(names), values, st.sampled_from(("\x02", "\x02\x02", "\x01")))
    joined = st.lists(pair, max_size=12).map(
        lambda found: "".join(f"{name}\x01{value}{end}" for name, value, end in found)
    )
    return joined.map(lambda text: text.encode("utf-8", "surrogateescape"))


def record(topic: str, properties: bytes, body: bytes = b"body") -> bytes:
    return encode_record(
        topic.encode(), body, properties, born_timestamp=4000, born_host=HOST, store_timestamp=5000
    )


def of_record(data: bytes) -> Half | None:
    with contextlib.suppress(Corrupt, NotAHalf):
        return read_half(decode_record(data))
    return None


def of_memory(data: bytes) -> Half | None:
    with contextlib.suppress(NotAHalf):
        return half_in(memoryview(bytes(16) + data + bytes(9)), 16, (0, 0, len(data)))
    return None


@given(pairs(HALF_NAMES), st.binary(max_size=40))
def test_the_same_half_comes_from_memory_and_from_a_record(properties: bytes, body: bytes) -> None:
    usual = "".join(f"{name}\x01{value}\x02" for name, value in PROPERTIES.items()).encode()
    for found in (properties, usual + properties, properties + b"\x02" + usual):
        data = record(TRANS_HALF_TOPIC, found, body)
        assert of_memory(data) == of_record(data)


def test_what_only_the_decoder_can_judge_is_left_to_it() -> None:
    usual = "".join(f"{name}\x01{value}\x02" for name, value in PROPERTIES.items()).encode()
    data = record(TRANS_HALF_TOPIC, usual)
    assert of_memory(data) == of_record(data) is not None
    place = (0, 0, len(data))
    for at in (8, 88):  # checksum, body
        spoilt = bytearray(data)
        spoilt[at] ^= 1
        assert half_in(memoryview(spoilt), 0, place) is None
    assert half_in(memoryview(data), 0, (0, 0, len(data) + 1)) is None
    assert half_in(memoryview(data), len(data), place) is None
    assert half_in(memoryview(data)[:-1], 0, place) is None
    with_crc = encode_record(
        TRANS_HALF_TOPIC.encode(), b"body", usual, born_host=HOST, record_crc=True
    )
    assert half_in(memoryview(with_crc), 0, (0, 0, len(with_crc))) is None
    with pytest.raises(NotAHalf):
        half_in(memoryview(record("t", usual)), 0, (0, 0, len(record("t", usual))))


class Screened:
    """Decisions about one half at log offset 1000, which is entry 3 of its queue."""

    def __init__(self, *decisions: bytes, group: str | None = "pg") -> None:
        properties = {**PROPERTIES, "PGROUP": group}
        self.half = record(
            TRANS_HALF_TOPIC,
            "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode(),
        )
        self.token = read_half(decode_record(self.half)).token
        self.log = b"".join(decisions)
        self.entries: list[tuple[int, int, int]] = []
        at = 10**6
        for one in decisions:
            self.entries.append((at, len(one), 0))
            at += len(one)

    def __call__(
        self,
        newest: Iterable[int] = (),
        *,
        is_open: bool = False,
        most: int = 99,
        bounds: tuple[int, int, int] = (0, 10, 10),
    ) -> Any:
        packed = b"".join(ENTRY.pack(1000 if i == 3 else 0, len(self.half), 0) for i in range(10))
        files = {20 * i: (0, packed) for i in range(10)}
        log = {0: (1000, self.half), 1: (10**6, self.log)}
        return screen(
            self.entries,
            50,
            most,
            newest=dict.fromkeys(newest, half()),
            tokens={self.token: 1} if is_open else {},
            bounds=bounds,
            log=lambda offset: log[int(offset >= 10**6)],
            queue=files.get,
            decision=RAW_NAMES,
            half=RAW_KEYS,
            kinds=KINDS,
        )


def decision(commit: int = 8, place: int = 3, offset: int = 1000, group: str = "pg") -> bytes:
    values = (group, place, offset, commit)
    text = "".join(
        f"{name}\x01{value}\x02" for name, value in zip(DECISION_NAMES, values, strict=True)
    )
    return record(TRANS_END_TOPIC, text.encode(), b"commit")


@given(pairs(DECISION_NAMES), pairs(DECISION_NAMES))
def test_the_same_decision_comes_from_memory_and_from_a_record(one: bytes, other: bytes) -> None:
    """The kernel's numbers are those of `read_decision`. What it lets through has its values."""
    data = record(TRANS_END_TOPIC, one + b"\x02" + other)
    wanted: Decision | None = None
    with contextlib.suppress(Corrupt):
        wanted = read_decision(decode_record(data))
    offset = -1 if wanted is None else wanted.offset
    found, taken, counts, _ = Screened(data)([offset])
    assert taken == 1
    if wanted is None:
        assert found == []
        assert counts[NO_DECISION] == 1
    else:
        commit, place, at, group, _ = wanted
        assert found == [(50, commit, place, at, group)]


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (decision(commit=9), NO_DECISION),
        (decision(place=4), NO_HALF),
        (decision(place=99), NO_HALF),
        (decision(offset=1001), NO_HALF),
        (decision(group="other"), OTHER_GROUP),
        (decision(group=""), OTHER_GROUP),
        (decision(), ENDED),
    ],
)
def test_decisions_about_nothing_are_counted(one: bytes, verdict: int) -> None:
    found, taken, counts, first = Screened(one, one)()
    assert (found, taken, counts[verdict], sum(counts)) == ([], 2, 2, 2)
    assert first[verdict] in (1000, 1001)


def test_what_may_be_about_an_open_transaction_is_let_through() -> None:
    assert Screened(decision())([1000])[0] == [(50, True, 3, 1000, "pg")]
    assert Screened(decision(12))(is_open=True)[0] == [(50, False, 3, 1000, "pg")]
    assert Screened(decision(), group=None)(is_open=True)[0] == []


def test_a_decision_about_an_unread_half_ends_the_look() -> None:
    found, taken, counts, _ = Screened(*[decision()] * 3)(bounds=(0, 3, 10))
    assert (len(found), taken, sum(counts)) == (1, 1, 0)


def test_no_more_are_found_than_are_asked_for() -> None:
    screened = Screened(decision(9), *[decision()] * 3, decision(9))
    found, taken, counts, _ = screened([1000], most=2)
    assert [one[0] for one in found] == [51, 52]
    assert (taken, counts[NO_DECISION]) == (3, 1)
