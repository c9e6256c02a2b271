"""getMessage's rules over plain values: statuses, transfer limits, filters, what was removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.store.errors import Corrupt
from silomq.store.reading.get_message import (
    Batch,
    Transfer,
    collect,
    judge,
    next_queue_file,
    scan_count,
)
from silomq.store.record.format import encode_record
from silomq.store.record.javahash import tags_code
from silomq.store.status import GetMessageStatus as Status

FILE = 65536
#: RocketMQ's limits, with all of the log in memory, and with none of it.
IN_MEMORY = Transfer(100, 262144, 32, 65536, 8, 64)
ON_DISK = Transfer(0, 262144, 32, 65536, 8, 64)


@dataclass(frozen=True)
class Tagged:
    """Takes one tag, by its code and then by its text, which is what stands in the body."""

    codes: frozenset[int] | None
    body: bytes

    def matches(self, message: Any, /) -> bool:
        return bool(message[1].startswith(self.body))


class Log:
    """Records behind each other from address `start` on, files of FILE bytes."""

    def __init__(self, sizes: list[int], tags: list[str] | None = None, start: int = 0) -> None:
        self.entries: list[tuple[int, int, int]] = []
        self.bodies: dict[int, bytes] = {}
        self.removed_below = 0
        self.end = start
        for number, size in enumerate(sizes):
            tag = tags[number] if tags else ""
            body = tag.encode().ljust(size, b"-")
            record = encode_record(b"t", body)
            self.bodies[self.end] = record
            self.entries.append((self.end, len(record), tags_code(tag)))
            self.end += len(record)

    def record(self, at: int, size: int) -> bytes | None:
        assert size == len(self.bodies[at])
        return None if at < self.removed_below else self.bodies[at]


def make(record: bytes, offset: int) -> tuple[int, bytes]:
    return offset, record[88:]


def read(log: Log, offset: int = 0, **changed: Any) -> Batch[tuple[int, bytes]]:
    arguments: dict[str, Any] = {
        "offset": offset,
        "most": 1000,
        "max_bytes": 1 << 27,
        "transfer": IN_MEMORY,
        "log_end": log.end,
        "file_size": FILE,
        "path": "log",
        "wanted": None,
        **changed,
    }
    return collect(log.entries[offset:], log.record, make, **arguments)


@pytest.mark.parametrize(
    ("offset", "least", "end", "wanted"),
    [
        (0, 0, 0, (Status.NO_MESSAGE_IN_QUEUE, 0)),
        (7, 0, 0, (Status.NO_MESSAGE_IN_QUEUE, 0)),
        (4, 5, 9, (Status.OFFSET_TOO_SMALL, 5)),
        (9, 5, 9, (Status.OFFSET_OVERFLOW_ONE, 9)),
        (5, 5, 5, (Status.OFFSET_OVERFLOW_ONE, 5)),
        (10, 5, 9, (Status.OFFSET_OVERFLOW_BADLY, 9)),
        (5, 5, 9, None),
        (8, 5, 9, None),
    ],
)
def test_offsets_outside_the_queue_have_a_status(
    offset: int, least: int, end: int, wanted: tuple[Status, int] | None
) -> None:
    assert judge(offset, least, end) == wanted


def test_where_to_go_on_behind_a_missing_file() -> None:
    assert [next_queue_file(o, 6_000_000) for o in (0, 299_999, 300_000)] == [300_000] * 2 + [
        600_000
    ]


@pytest.mark.parametrize(
    ("transfer", "sizes", "count"),
    [
        (IN_MEMORY, [10] * 100, 32),
        (ON_DISK, [10] * 100, 8),
        (IN_MEMORY, [100_000 - 91] * 5, 2),
        (IN_MEMORY, [131_072 - 92] * 5, 2),  # exactly 262,144 bytes are allowed
        (IN_MEMORY, [131_073 - 92] * 5, 1),
        (ON_DISK, [32_768 - 92] * 5, 2),
        (ON_DISK, [32_769 - 92] * 5, 1),
        (ON_DISK, [100_000] * 5, 1),  # the first always comes
    ],
)
def test_transfer_limits_end_an_answer(transfer: Transfer, sizes: list[int], count: int) -> None:
    log = Log(sizes)
    batch = read(log, transfer=transfer, file_size=1 << 30)
    assert (batch.status, batch.next, len(batch.messages)) == (Status.FOUND, count, count)


def test_the_callers_own_limits() -> None:
    log = Log([108] * 40)  # records of 200 bytes
    assert len(read(log, most=3).messages) == 3
    assert len(read(log, max_bytes=600).messages) == 3
    assert len(read(log, max_bytes=599).messages) == 2
    assert len(read(log, max_bytes=1).messages) == 1


def test_memory_ends_where_the_ratio_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("silomq.store.reading.get_message._MACHINE_BYTES", 1000)
    log = Log([8] * 30)  # records of 100 bytes: the last 4 or 5 count as in memory
    transfer = Transfer(50, 262144, 32, 65536, 8, 64)
    assert read(log, 0, transfer=transfer).next == 8
    assert read(log, 24, transfer=transfer).next == 30
    # Of nine messages the first four are on disk, and the ninth no longer counts as such.
    assert read(log, 21, transfer=transfer).next == 30


def test_filters_by_code_and_then_exactly() -> None:
    codes = frozenset({tags_code("Aa")})
    assert tags_code("Aa") == tags_code("BB")
    log = Log([20] * 6, ["Aa", "BB", "cc", "Aa", "cc", "cc"])
    batch = read(log, wanted=Tagged(codes, b"Aa"))
    assert (batch.status, batch.next) == (Status.FOUND, 6)
    assert [offset for offset, _ in batch.messages] == [0, 3]
    batch = read(log, 1, wanted=Tagged(codes, b"BB"))
    assert [offset for offset, _ in batch.messages] == [1]
    batch = read(log, 4, wanted=Tagged(codes, b"Aa"))
    assert (batch.status, batch.next, batch.messages) == (Status.NO_MATCHED_MESSAGE, 6, [])
    batch = read(log, 0, wanted=Tagged(None, b"cc"))
    assert [offset for offset, _ in batch.messages] == [2, 4, 5]
    # Negative codes are compared as Java's ints.
    negative = "drinks"
    assert tags_code(negative) < 0
    log = Log([20], [negative])
    at, size, code = log.entries[0]
    log.entries[0] = (at, size, code & 0xFFFF_FFFF)
    batch = read(log, wanted=Tagged(frozenset({tags_code(negative)}), b"drinks"))
    assert batch.status is Status.FOUND


def test_removed_records_are_passed_over() -> None:
    log = Log([40_000] * 6, start=0)
    # 0 and 1 begin in the first file, which is gone.
    log.removed_below = FILE
    batch = read(log)
    assert [offset for offset, _ in batch.messages] == [2, 3, 4, 5]
    log.removed_below = log.end
    batch = read(log)
    assert (batch.status, batch.messages) == (Status.MESSAGE_WAS_REMOVING, [])
    assert batch.next == 6


@pytest.mark.parametrize("bad", [b"", b"\0" * 99, b"\0\0\0\x64\0\0\0\0"])
def test_damage_ends_a_batch_and_then_is_said(bad: bytes) -> None:
    log = Log([8, 8])
    log.bodies[100] = bad.ljust(100, b"x")
    batch = read(log)
    assert (batch.status, batch.next, len(batch.messages)) == (Status.FOUND, 1, 1)
    with pytest.raises(Corrupt) as found:
        read(log, 1)
    assert found.value.offset == 100


@given(
    sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=60),
    tags=st.data(),
    most=st.integers(1, 40),
    max_bytes=st.integers(1, 20_000),
    in_memory=st.booleans(),
)
def test_reads_in_a_row_give_every_wanted_message_once(
    sizes: list[int], tags: st.DataObject, most: int, max_bytes: int, in_memory: bool
) -> None:
    chosen = [tags.draw(st.sampled_from(["Aa", "BB", "c"])) for _ in sizes]
    log = Log([max(2, size) for size in sizes], chosen)
    log.removed_below = 0
    wanted = Tagged(frozenset({tags_code("Aa")}), b"Aa")
    transfer = IN_MEMORY if in_memory else ON_DISK
    found: list[int] = []
    at = 0
    while at < len(sizes):
        batch = read(
            log, at, most=most, max_bytes=max_bytes, transfer=transfer, wanted=wanted,
            file_size=1 << 30,
        )  # fmt: skip
        assert batch.next > at
        got = [offset for offset, _ in batch.messages]
        assert (batch.status is Status.FOUND) == bool(got)
        assert len(got) <= min(most, 32 if in_memory else 8)
        size = sum(log.entries[offset][1] for offset in got)
        assert len(got) == 1 or size <= max(max_bytes, 100)
        found += got
        at = batch.next
    assert found == [i for i, tag in enumerate(chosen) if tag == "Aa"]


def test_how_far_one_read_looks() -> None:
    assert [scan_count(n) for n in (1, 800, 801)] == [800, 800, 801]
