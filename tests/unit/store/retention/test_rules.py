"""What may go and when: the decisions, over plain values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.store.retention.rules import (
    UNKNOWN,
    DiskFlag,
    Ratios,
    Verdict,
    index_files_to_go,
    is_hour_to_delete,
    judge_disk,
    queue_file_may_go,
    released,
    removable_below,
    used_percent,
)

NONE, LOG, QUEUES = DiskFlag(0), DiskFlag.DISK_FULL, DiskFlag.LOGIC_DISK_FULL
RATIOS = Ratios(max_used=75, forcibly=85, warning=90)


@pytest.mark.parametrize(
    ("total", "free", "available", "percent"),
    [
        (100, 100, 100, 0),
        (100, 25, 25, 75),
        (1000, 249, 249, 76),  # 75.1 % is more than 75
        (100, 10, 5, 95),  # 90 used, 5 left: root's reserve counts as neither
        (100, 0, 0, 100),
        (0, 0, 0, UNKNOWN),
    ],
)
def test_used_percent(total: int, free: int, available: int, percent: int) -> None:
    assert used_percent(total, free, available) == percent


@pytest.mark.parametrize(
    ("log", "queues", "before", "flags", "wanted", "at_once"),
    [
        (0, 0, NONE, NONE, False, False),
        (75, 75, NONE, NONE, False, False),
        (76, 0, NONE, NONE, True, False),
        (0, 76, NONE, NONE, True, False),
        (85, 85, NONE, NONE, True, False),
        (86, 0, NONE, NONE, True, True),
        (90, 90, NONE, NONE, True, True),
        (91, 0, NONE, LOG, True, True),
        (0, 91, NONE, QUEUES, True, True),
        (91, 91, NONE, LOG | QUEUES, True, True),
        # The band between the two ratios leaves a flag as it is.
        (86, 0, LOG, LOG, True, True),
        (90, 0, LOG, LOG, True, True),
        (0, 88, QUEUES, QUEUES, True, True),
        (85, 0, LOG, NONE, True, False),
        (0, 85, QUEUES, NONE, True, False),
        (10, 88, LOG | QUEUES, QUEUES, True, True),
        # What cannot be read is no reason to refuse, but one to clean.
        (UNKNOWN, 0, NONE, NONE, True, False),
        (0, UNKNOWN, NONE, NONE, True, False),
        (UNKNOWN, 91, NONE, QUEUES, True, True),
    ],
)
def test_judge_disk(
    log: int, queues: int, before: DiskFlag, flags: DiskFlag, *, wanted: bool, at_once: bool
) -> None:
    assert judge_disk(log, queues, before, RATIOS) == Verdict(flags, wanted, at_once)


def test_flags_have_the_bits_of_rocketmq() -> None:
    assert (LOG, QUEUES) == (16, 64)


@pytest.mark.parametrize(
    ("when", "hour", "true"),
    [("04", 4, True), ("04", 3, False), ("04", 14, False), ("04;16", 16, True), ("00", 0, True)],
)
def test_hour(when: str, hour: int, *, true: bool) -> None:
    assert is_hour_to_delete(when, hour) is true


@pytest.mark.parametrize(
    ("wrote", "durable", "below"),
    [
        (0, 0, 0),
        (1, 1, 0),
        (100, 100, 0),  # the file is full, and holds the log's last byte
        (101, 101, 100),
        (350, 350, 300),
        (350, 250, 250),  # a start-up after a power cut reads from 250 on
        (350, 0, 0),
    ],
)
def test_removable_below(wrote: int, durable: int, below: int) -> None:
    assert removable_below(wrote, durable, 100) == below


@pytest.mark.parametrize(
    ("due", "leases", "waiting", "go", "left"),
    [
        ([0, 100, 200], [], {}, [0, 100, 200], {}),
        ([0, 100, 200], [150], {}, [0], {100: 1000, 200: 1000}),
        ([0, 100, 200], [0], {}, [], {0: 1000, 100: 1000, 200: 1000}),
        ([0, 100], [200, 5000], {}, [0, 100], {}),  # readers further on hold nothing of these
        ([100], [99], {}, [100], {}),  # a reader of what is gone already holds nothing
        ([0, 100], [99], {0: 501, 100: 501}, [], {0: 501, 100: 501}),
        ([0, 100], [99], {0: 500, 100: 501}, [0, 100], {}),
        # All that were due then go: a reader cannot hold each for that long.
        ([0, 100], [0, 150], {0: 500, 100: 500}, [0, 100], {}),
        ([0, 100, 200], [0, 250], {0: 500, 100: 500}, [0, 100], {200: 1000}),
        ([], [0], {0: 500}, [], {}),
    ],
)
def test_released(
    due: list[int], leases: list[int], waiting: dict[int, int], go: list[int], left: dict[int, int]
) -> None:
    got = released(due, leases, file_size=100, waiting=waiting, now_ms=1000, patience_ms=500)
    assert got == (go, left)


@given(
    st.integers(0, 8),
    st.lists(st.integers(0, 1200)),
    st.integers(0, 400),
    st.dictionaries(st.integers(0, 8).map(lambda i: 100 * i), st.integers(0, 1000)),
)
def test_released_is_a_beginning_and_the_rest_waits(
    count: int, leases: list[int], patience: int, waiting: dict[int, int]
) -> None:
    due = [100 * i for i in range(count)]
    go, left = released(
        due, leases, file_size=100, waiting=waiting, now_ms=1000, patience_ms=patience
    )
    assert go + list(left) == due
    for base in go:
        held = any(base <= lease < base + 100 for lease in leases)
        assert not held or 1000 - waiting.get(base, 1000) >= patience


@pytest.mark.parametrize(
    ("last", "behind", "minimum", "durable", "goes"),
    [
        (99, 100, 100, 500, True),
        (100, 101, 100, 500, False),  # its last record is still there
        (99, None, 100, 500, False),  # the newest file
        (99, 500, 100, 500, False),  # the next file's first entry may not survive a power cut
        (99, 499, 100, 500, True),
        (-1, 100, 100, 500, True),  # blank
    ],
)
def test_queue_file(
    last: int, behind: int | None, minimum: int, durable: int, *, goes: bool
) -> None:
    assert queue_file_may_go(last, behind, minimum, durable) is goes


@pytest.mark.parametrize(
    ("found", "minimum", "in_use", "go"),
    [
        ([], 100, 9, []),
        ([(1, 50), (2, 99), (3, 150)], 100, 9, [1, 2]),
        ([(1, 50), (2, 100), (3, 60)], 100, 9, [1]),
        ([(1, 50), (2, 60)], 100, 2, [1]),  # start-up goes on in 2
        ([(1, 50), (2, 60)], 100, 0, []),  # nothing is known to be durable
    ],
)
def test_index_files(
    found: list[tuple[int, int]], minimum: int, in_use: int, go: list[int]
) -> None:
    assert list(index_files_to_go(found, min_offset=minimum, in_use=in_use)) == go
