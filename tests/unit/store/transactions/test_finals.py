"""The scan for records that lead back to a half."""

from __future__ import annotations

import pytest

from silomq.store.record.format import encode_record
from silomq.store.transactions._finals import finals as scan

GIVEN_UP = b"TRANS_CHECK_MAX_TIME_TOPIC"

END_OF_FILE = (100).to_bytes(4, "big") + (0xCBD43194).to_bytes(4, "big")


def finals(data: bytes, begin: int, end: int) -> tuple[list[tuple[int, int]], int]:
    return scan(data, begin, end, GIVEN_UP)


def log(*halves: int, body: int = 10) -> bytes:
    return b"".join(
        encode_record(b"t", b"x" * body, b"", prepared_transaction_offset=half) for half in halves
    )


def test_records_that_lead_back_are_found() -> None:
    data = log(0, 77, 0, 88)
    size = len(data) // 4
    assert finals(data, 0, len(data)) == ([(size, 77), (3 * size, 88)], len(data))
    assert finals(data, 2 * size, len(data)) == ([(3 * size, 88)], len(data))


@pytest.mark.parametrize("tail", [b"", END_OF_FILE + bytes(92), bytes(100), b"\xff" * 100])
def test_it_ends_where_no_record_is(tail: bytes) -> None:
    data = log(5, 0)
    assert finals(data + tail, 0, len(data) + len(tail)) == ([(0, 5)], len(data))


def test_a_record_that_goes_beyond_the_end_is_left_for_later() -> None:
    data = log(5, 6)
    for end in range(len(data) // 2, len(data)):
        assert finals(data, 0, end) == ([(0, 5)], len(data) // 2)


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (encode_record(b"t", b"x", b"", sys_flag=8), True),
        (encode_record(GIVEN_UP, b"x", b""), True),
        (encode_record(b"t", b"x", b"", sys_flag=0), False),
        (encode_record(GIVEN_UP[:-1], b"x", b""), False),
    ],
)
def test_a_half_may_be_the_first_record_of_the_log(record: bytes, *, found: bool) -> None:
    assert finals(record, 0, len(record))[0] == [(0, 0)] * found
