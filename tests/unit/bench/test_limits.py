"""The limits of the machine: hand-overs to another process."""

from __future__ import annotations

import os
from array import array

import pytest

from silomq.bench._limits import hand_over, hand_over_times
from silomq.bench.limits import paced_hand_over_us


def test_hand_overs_between_two_cores_leave_the_cores_as_they_were() -> None:
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip("needs two cores")
    found = paced_hand_over_us(10_000, 101)
    assert found is not None
    assert found > 0
    assert os.sched_getaffinity(0) == cores


def test_there_are_none_on_one_core() -> None:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        assert paced_hand_over_us(10_000, 1) is None
    finally:
        os.sched_setaffinity(0, cores)


def test_a_hand_over_to_nobody_ends() -> None:
    for side in (0, 1):
        with pytest.raises(TimeoutError, match="the other process of a hand-over"):
            hand_over(bytearray(256), side, 1, patience_s=1)
    with pytest.raises(TimeoutError, match="the other process of a hand-over"):
        hand_over_times(bytearray(256), array("q", [0]), 100_000, patience_s=1)
