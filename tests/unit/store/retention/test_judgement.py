"""Why a file stays or goes, and until when."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from silomq.store.retention.judgement import Judgement, Limits, Why, due, judge, next_hour
from silomq.store.retention.rules import LogFileAge

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMITS: dict[str, Any] = {
    "file_size": 100, "removable": 500, "end": 600, "now_ms": 1000, "reserved_ms": 100,
}  # fmt: skip
HOUR_MS = 3_600_000


def files(*modified: int, first: int = 0) -> list[LogFileAge]:
    """Files of 100 bytes with these times."""
    return [LogFileAge(first + 100 * i, time) for i, time in enumerate(modified)]


@pytest.mark.parametrize(
    ("found", "now", "at_once", "most", "going"),
    [
        ([], 1000, False, 10, []),
        (files(0, 0, 0), 999, False, 10, []),
        (files(0, 0, 0), 1000, False, 10, [0, 100, 200]),
        (files(0, 1, 2), 1001, False, 10, [0, 100]),
        (files(0, 500, 0), 1000, False, 10, [0]),  # never from the middle
        (files(0, 0, 0), 1000, False, 2, [0, 100]),
        (files(900, 900, 900), 1000, True, 10, [0, 100, 200]),
        (files(900, 900, 900), 1000, True, 1, [0]),
        (files(0, 0, 0, first=300), 1000, False, 10, [300, 400]),  # the end of 500 is 600
        (files(0, 0, first=500), 1000, True, 10, []),
    ],
)
def test_due(
    found: list[LogFileAge], now: int, *, at_once: bool, most: int, going: list[int]
) -> None:
    limits = Limits(**{**LIMITS, "now_ms": now, "reserved_ms": 1000, "forced": at_once})
    assert due(found, limits, lambda _: True, most=most) == going


def test_due_looks_no_further_than_it_must() -> None:
    looked = []

    def ages() -> Iterator[LogFileAge]:
        for file in files(0, 5000, 0, 0):
            looked.append(file.base)
            yield file

    limits = Limits(**{**LIMITS, "now_ms": 1000, "reserved_ms": 10})
    assert due(ages(), limits, lambda _: True, most=10) == [0]
    assert looked == [0, 100]


def judged(base: int = 0, modified: int = 0, consumed: int = 600, **limits: Any) -> Judgement:
    file = LogFileAge(base, modified)
    return judge(file, Limits(**{**LIMITS, **limits}), lambda end: end <= consumed)


def test_what_a_start_needs_stays_whatever_happens() -> None:
    assert judged(400).why is Why.DUE
    assert judged(500).why is Why.END
    assert judged(401, full=True, forced=True).why is Why.END


def test_what_waits_stays_unless_the_disk_is_full() -> None:
    assert judged(0, delayed=99).why is Why.DELAYED
    assert judged(0, delayed=100).why is Why.DUE
    assert judged(0, transactions=50).why is Why.TRANSACTION
    assert judged(0, delayed=0, transactions=0, full=True).why is Why.DUE


def test_age_and_size_are_two_limits() -> None:
    assert judged(modified=950) == Judgement(Why.YOUNG, 1050)
    assert judged(modified=950, reserved_size=500).why is Why.DUE
    assert judged(modified=950, reserved_size=501) == Judgement(Why.YOUNG, 1050)
    assert judged(modified=950, forced=True).why is Why.DUE
    assert judged(modified=0, reserved_size=1 << 50).why is Why.DUE
    only = Limits(**LIMITS, reserved_size=500).by_size_only()
    assert judge(LogFileAge(0, 0), only, lambda _: True).why is Why.DUE
    assert judge(LogFileAge(100, 0), only, lambda _: True).why is Why.YOUNG


def test_what_groups_have_not_consumed_stays_for_a_while() -> None:
    kept = {"modified": 500, "unconsumed_ms": 600}
    assert judged(consumed=99, **kept) == Judgement(Why.UNCONSUMED, 1100)
    assert judged(consumed=100, **kept).why is Why.DUE
    assert judged(consumed=0, modified=500, unconsumed_ms=500).why is Why.DUE
    assert judged(consumed=0, **kept, full=True).why is Why.DUE
    assert judged(consumed=0, **kept, reserved_size=1).why is Why.UNCONSUMED


def test_groups_are_not_asked_about_files_that_stay_anyhow() -> None:
    def ask(end: int) -> bool:
        raise AssertionError(end)

    for limits in ({"reserved_ms": 5000}, {"removable": 0}, {"delayed": 0}, {"forced": True}):
        judge(LogFileAge(0, 0), Limits(**{**LIMITS, **limits, "unconsumed_ms": 9999}), ask)


@given(st.sets(st.integers(0, 23), min_size=1), st.integers(0, 48 * HOUR_MS))
@example({0}, 1001)
def test_the_next_hour_is_the_first_one(hours: set[int], start_ms: int) -> None:
    when = ";".join(f"{hour:02d}" for hour in sorted(hours))
    found = next_hour(when, start_ms)
    assert found >= start_ms
    assert time.localtime(found / 1000).tm_hour in hours
    between = range(start_ms, found, HOUR_MS // 4)
    assert not any(time.localtime(at / 1000).tm_hour in hours for at in between)
