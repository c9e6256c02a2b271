"""Rates and totals of the whole store."""

from __future__ import annotations

import pytest

from silomq.broker.statistics.store_figures import Counted, StoreFigures

DAY_S = 86_400.0
NOON_S = 1_700_000_000.0


def counted(records: int, session: int = 1, transferred: int = 0, missed: int = 0) -> Counted:
    return Counted(session, records, records * 100, 0, transferred, missed, transferred)


def test_what_was_there_before_the_broker_is_not_counted() -> None:
    figures = StoreFigures()
    figures.look(0.0, NOON_S, counted(1000))
    figures.look(1.0, NOON_S, counted(1005))
    assert (figures.sums.puts, figures.sums.size) == (5, 500)


def test_rates_of_10_60_and_600_seconds() -> None:
    figures = StoreFigures()
    assert figures.rates("puts") == (0.0, 0.0, 0.0)
    for second in range(701):
        done = second if second <= 600 else 600 + (second - 600) * 11
        figures.look(float(second), NOON_S, counted(done, transferred=second, missed=second))
    ten, sixty, long = figures.rates("puts")
    assert (ten, sixty) == (11.0, 11.0)
    assert long == pytest.approx((500 + 1100) / 600)
    assert figures.rates("reads") == (2.0, 2.0, 2.0)


def test_a_new_session_of_the_store_begins_its_counters_anew() -> None:
    figures = StoreFigures()
    figures.look(0.0, NOON_S, counted(10))
    figures.look(1.0, NOON_S, counted(30))
    figures.look(2.0, NOON_S, counted(3, session=2))
    figures.look(3.0, NOON_S, counted(7, session=2))
    assert figures.sums.puts == 24
    figures.update(counted(8, session=2))
    assert figures.put_total().now == 25


def test_mornings() -> None:
    figures = StoreFigures()
    for day in range(3):
        figures.look(day * DAY_S, NOON_S + day * DAY_S, counted(day * 100, transferred=day * 10))
        figures.look(day * DAY_S + 1, NOON_S + day * DAY_S, counted(day * 100 + 50))
    # Found at the first look of a day: what was counted until then.
    assert figures.put_total() == (50, 150, 250)
