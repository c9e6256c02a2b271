"""Times as users write them."""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq import StoreError
from silomq.client.times import LAST_MS, epoch_ms, is_length, length_ms

MOMENT = dt.datetime(2026, 11, 21, 9, 15, 36, 67_000, tzinfo=dt.UTC)
MOMENT_MS = 1_795_252_536_067


@pytest.mark.parametrize(
    "when",
    [
        MOMENT_MS,
        str(MOMENT_MS),
        f"  {MOMENT_MS} ",
        MOMENT,
        MOMENT.astimezone().replace(tzinfo=None),
        "2026-11-21T09:15:36.067Z",
        "2026-11-21 09:15:36.067+00:00",
        "2026-11-21 10:15:36.067+01:00",
        str(MOMENT.astimezone().replace(tzinfo=None)),
    ],
)
def test_all_forms_of_a_moment_mean_the_same(when: Any) -> None:
    assert epoch_ms(when) == MOMENT_MS


@pytest.mark.parametrize(
    ("text", "ms"),
    [("0s", 0), ("1500us", 1), ("15min", 900_000), ("2h", 7_200_000), ("3 d", 259_200_000)],
)
def test_a_length_counts_back_from_now(text: str, ms: int) -> None:
    assert length_ms(text) == ms
    for form in (text, f"{text} ago"):
        before = time.time_ns() // 1_000_000
        assert before <= epoch_ms(form) + ms <= time.time_ns() // 1_000_000
        assert is_length(form)


NO_TIMES: list[Any] = [
    *("", "now", "yesterday", "-5", "-1h", "5 minutes", "2026-13-01", "1e3", "0x10", "1_000 "),
    *("9" * 30, "99999999999d", "٣", None, True, 1.5, b"5", -1, 2**63, [], "\ud800"),
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
]


@pytest.mark.parametrize("when", NO_TIMES)
def test_what_is_no_time_is_refused_by_name(when: Any) -> None:
    with pytest.raises(StoreError, match=r"is no time since 1970"):
        epoch_ms(when)


@given(st.one_of(st.text(max_size=40), st.integers(), st.datetimes()))
def test_anything_is_a_time_within_bounds_or_an_error(when: Any) -> None:
    with contextlib.suppress(StoreError):
        assert 0 <= epoch_ms(when) <= LAST_MS


@given(st.text(max_size=20))
def test_any_text_is_a_length_or_an_error(text: str) -> None:
    with contextlib.suppress(StoreError):
        assert length_ms(text) >= 0
