"""When flush syncs all queues: often enough for a short start, for a tenth of the time at most."""

from __future__ import annotations

import time

import pytest

from silomq.actors.full_rounds import FAR_BYTES, FAR_ENTRIES, QUIET_S, FullRounds
from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.shm.progress import Progress

EVERY_S = 60.0


@pytest.fixture
def control() -> Control:
    found = Control(bytearray(SIZE), STARTUP)
    found.create(1)
    return found


@pytest.mark.parametrize(
    "progress",
    [Progress(dispatched=FAR_BYTES), Progress(dispatched=1, dispatch_count=FAR_ENTRIES)],
    ids=["bytes", "entries"],
)
def test_a_long_way_to_go_asks_for_a_round(control: Control, progress: Progress) -> None:
    rounds = FullRounds(control)
    now = time.monotonic()
    assert not rounds.is_due(now, EVERY_S)
    control.set_progress(progress)
    assert rounds.is_due(now, EVERY_S)
    rounds.note(progress, took_s=0.0)
    assert rounds.dispatched == progress.dispatched
    assert rounds.behind() == 0
    assert not rounds.is_due(time.monotonic(), EVERY_S)


def test_rounds_of_busy_queues_take_a_tenth_of_the_time(control: Control) -> None:
    rounds = FullRounds(control)
    took_s = 2.0
    rounds.note(Progress(), took_s)
    ended = time.monotonic()
    for tenths in range(1, 180):  # it is never quiet
        control.set_progress(Progress(dispatched=FAR_BYTES + tenths))
        assert not rounds.is_due(ended + tenths / 10 - 0.1, EVERY_S), tenths
    control.set_progress(Progress(dispatched=2 * FAR_BYTES))
    assert rounds.is_due(ended + 9 * took_s, EVERY_S)


def test_the_interval_and_a_quiet_time_wait_for_no_rest(control: Control) -> None:
    rounds = FullRounds(control)
    rounds.note(Progress(), took_s=1000.0)
    now = time.monotonic()
    control.set_progress(Progress(dispatched=10, dispatch_count=1))
    assert not rounds.is_due(now, EVERY_S)
    assert rounds.is_due(now + QUIET_S, EVERY_S)
    assert rounds.is_due(now + QUIET_S + EVERY_S, EVERY_S)
