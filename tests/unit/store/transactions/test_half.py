"""Half messages, and the records that are made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.halves import HOST, half_record

from silomq.store.names import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_TOPICS,
)
from silomq.store.record.format import (
    SYS_COMPRESSED,
    SYS_TRANSACTION,
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    Record,
    decode_record,
)
from silomq.store.record.properties import decode_properties
from silomq.store.transactions.half import (
    MOST_IMMUNITY_MS,
    NotAHalf,
    checked,
    checks_of,
    discarded,
    encode_half,
    final,
    read_half,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def stored(
    made: tuple[bytes, tuple[int, int]], queue_offset: int = 9, offset: int = 9000
) -> Record:
    """A made record as the log has it."""
    record, body = made
    assert record[slice(*body)] == b"body"
    return replace(
        decode_record(record),
        queue_offset=queue_offset,
        physical_offset=offset,
        store_timestamp=9_000_000,
    )


# -- reading


def test_what_a_half_says() -> None:
    found = read_half(half_record(12, 3456, CHECK_IMMUNITY_TIME_IN_SECONDS="60"))
    assert (found.queue_offset, found.offset, found.group) == (12, 3456, "pg")
    assert (found.topic, found.queue_id, found.key) == ("t", 3, "A" * 32)
    assert (found.born_ms, found.stored_ms, found.first_ms) == (4000, 5000, 5000)
    assert (found.checks, found.immunity_ms, found.copy_of) == (0, 60_000, -1)
    assert found.queue_offsets == [12]


def test_what_a_client_adds_makes_a_half() -> None:
    pairs = decode_properties(encode_half("t", 3, "pg", 60))
    assert pairs == {
        "TRAN_MSG": "true", "PGROUP": "pg", "CHECK_IMMUNITY_TIME_IN_SECONDS": "60",
        "REAL_TOPIC": "t", "REAL_QID": "3",
    }  # fmt: skip
    assert "CHECK_IMMUNITY_TIME_IN_SECONDS" not in decode_properties(encode_half("t", 3, "pg"))


@pytest.mark.parametrize(
    "properties",
    [
        {"REAL_TOPIC": None},
        {"REAL_TOPIC": "x" * 255},
        *({"REAL_TOPIC": name} for name in (*TRANS_TOPICS, SCHEDULE_TOPIC, TIMER_TOPIC)),
        {"REAL_QID": None},
        {"REAL_QID": "-1"},
        {"REAL_QID": "x"},
        {"REAL_QID": "2147483648"},
        {"REAL_QID": "\u0663"},
        {"PGROUP": "g" * 256},
    ],
    ids=str,
)
def test_no_half(properties: dict[str, str | None]) -> None:
    with pytest.raises(NotAHalf, match="offset 1000"):
        read_half(half_record(**properties))  # type: ignore[arg-type]


def test_a_record_of_another_topic_is_no_half() -> None:
    with pytest.raises(NotAHalf, match="no half message"):
        read_half(half_record(topic="t"))


@given(st.dictionaries(st.sampled_from([
    "CHECK_IMMUNITY_TIME_IN_SECONDS", "TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET",
    "TRAN_FIRST_HALF", "UNIQ_KEY",
]), st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1)))  # fmt: skip
def test_bad_values_count_as_missing_or_are_bounded(properties: dict[str, str]) -> None:
    found = read_half(half_record(**properties))  # type: ignore[arg-type]
    assert 0 <= found.immunity_ms <= MOST_IMMUNITY_MS
    assert 0 <= found.checks < 10**10
    assert -1 <= found.copy_of < 10**10
    assert 0 <= found.first_ms <= found.stored_ms
    assert len(found.key) <= 255


# -- identity


@pytest.mark.parametrize("key", ["A" * 32, None])
@pytest.mark.parametrize("crc", [False, True])
def test_a_half_that_is_put_once_more_is_of_the_same_transaction(
    key: str | None, *, crc: bool
) -> None:
    record, wanted = half_record(UNIQ_KEY=key), read_half(half_record(UNIQ_KEY=key))
    for times in (1, 2, 3):
        record = stored(checked(record, times, HOST, record_crc=crc), times, 9000 + times)
        again = read_half(record)
        assert again.identity == wanted.identity
        assert (again.checks, again.first_ms) == (times, wanted.stored_ms)
        assert record.properties["TAGS"] == "x"
        assert ("__CRC32#" in record.properties) == crc


def test_rocketmq_forgets_the_flag_of_a_half_that_it_puts_once_more() -> None:
    copy = half_record(7, 7000, flag=0, TRAN_PREPARED_QUEUE_OFFSET="0", TRANSACTION_CHECK_TIMES="1")
    found = read_half(copy)
    assert found.identity == read_half(half_record()).identity
    assert (found.copy_of, found.checks) == (0, 0)
    assert found.first_ms == 4000  # it counts from the time of birth


@pytest.mark.parametrize(
    "other",
    [
        lambda: half_record(UNIQ_KEY="B"),
        lambda: half_record(PGROUP="other"),
        lambda: half_record(REAL_TOPIC="u"),
        lambda: half_record(REAL_QID="4"),
        lambda: half_record(body=b"bodx"),
        lambda: half_record(born_ms=4001),
    ],
)
def test_another_transaction_has_another_identity(other: Callable[[], Record]) -> None:
    assert read_half(other()).identity != read_half(half_record()).identity


def test_halves_without_a_key_are_told_apart_by_their_place() -> None:
    first, second = (read_half(half_record(i, 1000 + i, UNIQ_KEY=None)) for i in (0, 1))
    assert first.identity != second.identity


# -- what is made of halves


def test_the_committed_message() -> None:
    half = half_record(TRAN_FIRST_HALF="5 6", DELAY="3", INNER_MULTI_DISPATCH="%LMQ%a")
    half = replace(half, sys_flag=half.sys_flag | TRANSACTION_PREPARED | SYS_COMPRESSED)
    out = stored(final(half, "t", 1, HOST, record_crc=False))
    assert (out.topic, out.queue_id, out.flag, out.reconsume_times) == ("t", 1, 7, 2)
    assert out.prepared_transaction_offset == half.physical_offset
    assert out.transaction_type == TRANSACTION_COMMIT
    assert out.sys_flag & SYS_COMPRESSED
    assert (out.born_timestamp, out.born_host) == (half.born_timestamp, half.born_host)
    assert out.properties["TRAN_MSG"] == "true"
    assert (out.properties["REAL_TOPIC"], out.properties["REAL_QID"]) == ("t", "3")
    gone = {"TRAN_FIRST_HALF", "DELAY", "INNER_MULTI_DISPATCH"}
    assert not gone & out.properties.keys()


def test_a_committed_message_has_room_for_its_places_in_light_queues() -> None:
    half = half_record(INNER_MULTI_DISPATCH="%LMQ%a,%LMQ%b")
    out = stored(final(half, "t", 1, HOST, light=2, record_crc=False))
    assert out.properties["INNER_MULTI_DISPATCH"] == "%LMQ%a,%LMQ%b"
    assert "INNER_MULTI_QUEUE_OFFSET" in out.properties


def test_a_half_that_asks() -> None:
    half = half_record(TRANSACTION_CHECK_TIMES="3", TRAN_PREPARED_QUEUE_OFFSET="2")
    out = stored(checked(half, 4, HOST, record_crc=False))
    assert (out.topic, out.queue_id) == (TRANS_HALF_TOPIC, 0)
    assert checks_of(out.properties) == 4
    assert out.properties_raw.count(b"TRANSACTION_CHECK_TIMES") == 1
    assert "TRAN_PREPARED_QUEUE_OFFSET" not in out.properties
    assert not out.sys_flag & SYS_TRANSACTION
    assert out.prepared_transaction_offset == 0


def test_a_half_that_is_given_up_leads_back() -> None:
    half = half_record(TRAN_FIRST_HALF="5 6")
    out = stored(discarded(half, TRANS_CHECK_MAX_TIME_TOPIC, HOST, record_crc=True))
    assert (out.topic, out.queue_id) == (TRANS_CHECK_MAX_TIME_TOPIC, 0)
    assert out.prepared_transaction_offset == half.physical_offset
    assert "TRAN_FIRST_HALF" not in out.properties
    assert out.properties["REAL_TOPIC"] == "t"


def test_a_half_that_was_given_up_can_begin_again() -> None:
    """As an operator may have it: a new transaction, with its own time and count of checks."""
    old = stored(checked(half_record(), 15, HOST, record_crc=False))
    given_up = stored(discarded(old, TRANS_CHECK_MAX_TIME_TOPIC, HOST, record_crc=False))
    again = read_half(stored(checked(given_up, 0, HOST, record_crc=False)))
    assert again.checks == 0
    assert again.first_ms == given_up.store_timestamp
