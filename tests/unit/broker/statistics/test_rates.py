"""Rates of the last minute, hour and day."""

from __future__ import annotations

import pytest

from silomq.broker.statistics.rates import BYTES, MESSAGES, Rate, Rates


def test_one_look_tells_nothing() -> None:
    rates = Rates()
    assert rates.rate("minute", MESSAGES) == Rate(0, 0.0, 0.0)
    rates.look(0.0, (1, 2, 3))
    assert rates.rate("minute", MESSAGES) == Rate(0, 0.0, 0.0)


def test_growth_between_the_first_and_the_last_look() -> None:
    rates = Rates()
    rates.look(0.0, (0, 0, 0))
    rates.look(10.0, (5, 20, 2000))
    assert rates.rate("minute", MESSAGES) == Rate(20, 2.0, 4.0)
    assert rates.rate("minute", BYTES) == Rate(2000, 200.0, 400.0)


def test_windows_forget_what_is_older() -> None:
    rates = Rates()
    for number in range(25 * 360 + 1):  # a look each 10 s, one message a second
        rates.look(number * 10.0, (number, number * 10, number * 1000))
    assert rates.rate("minute", MESSAGES).total == 60
    assert rates.rate("hour", MESSAGES).total == 3600
    assert rates.rate("day", MESSAGES).total == 86_400
    for window in ("minute", "hour", "day"):
        assert rates.rate(window, MESSAGES).per_second == pytest.approx(1.0)


def test_idle_looks_are_counted() -> None:
    rates = Rates()
    for value in (0, 0, 0, 1, 1):
        rates.look(0.0, (value, 0, 0))
    assert rates.idle == 1
