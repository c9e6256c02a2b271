"""Places on axes, and their ticks."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from silomq.bench.harness.results.amounts import digits
from silomq.bench.harness.results.axis import Axis, PercentileAxis
from silomq.bench.harness.results.file import GREATEST


def test_a_linear_axis_begins_at_zero() -> None:
    axis = Axis([50.0, 100.0], digits, from_zero=True)
    assert [axis.place(one) for one in (0.0, 50.0, 100.0)] == [0.0, 0.5, 1.0]
    assert [label for _, label in axis.ticks()] == ["0", "20", "40", "60", "80", "100"]


def test_decades_have_the_same_width() -> None:
    axis = Axis([1.0, 10_000.0], digits, log=True)
    assert [axis.place(one) for one in (1.0, 10.0, 100.0)] == [0.0, 0.25, 0.5]
    assert axis.place(0.0) is None
    assert [label for _, label in axis.ticks()] == ["1", "10", "100", "1,000", "10,000"]


def test_nines_have_the_same_width() -> None:
    axis = PercentileAxis([10_000.0])
    labels = ["0 %", "90 %", "99 %", "99.9 %", "99.99"]
    assert axis.ticks() == [(n / 4, label) for n, label in enumerate(labels)]


@given(
    st.lists(st.floats(-GREATEST, GREATEST), max_size=5),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.0, 0.04]),
)
@example(values=[5e-324], log=False, from_zero=True, room=0.0)
@example(values=[1.0, 1e308], log=True, from_zero=False, room=0.04)
def test_every_value_has_a_place(
    values: list[float], log: bool, from_zero: bool, room: float
) -> None:
    axis = Axis(values, digits, log=log, from_zero=from_zero, room=room)
    for value in values:
        place = axis.place(value)
        if log and value <= 0:
            assert place is None
        else:
            assert place == pytest.approx(0.5, abs=0.5 + 1e-6)
    assert len(axis.ticks()) < 40
