"""How far ahead of append files are made and warmed: by fill level, rate, and time to make one."""

from __future__ import annotations

import pytest

from silomq.store.commitlog.ahead import LEAST_WINDOW, Ahead

GIB = 1 << 30
MIB = 1 << 20


def test_a_new_store_has_one_file_and_a_small_window() -> None:
    ahead = Ahead(GIB, 2, 8 * GIB, 0, 0.0)
    assert ahead.window == LEAST_WINDOW <= 128 * MIB
    assert ahead.wants_file(0, 0)
    assert not ahead.wants_file(0, GIB)
    ahead.saw(234, 1.0)
    assert not ahead.wants_file(234, GIB)
    assert ahead.window == LEAST_WINDOW


def test_the_next_file_is_made_before_the_window_needs_it() -> None:
    ahead = Ahead(GIB, 2, 8 * GIB, 0, 0.0)
    assert not ahead.wants_file(GIB - LEAST_WINDOW, GIB)
    assert ahead.wants_file(GIB - LEAST_WINDOW + 1, GIB)
    assert not ahead.wants_file(GIB - LEAST_WINDOW + 1, 2 * GIB)


def test_a_fast_store_has_all_files_ahead_and_no_more() -> None:
    ahead = Ahead(GIB, 2, 8 * GIB, 0, 0.0)
    ahead.saw(700 * MIB, 0.5)
    assert ahead.wants_file(700 * MIB, GIB)
    assert ahead.wants_file(700 * MIB, 2 * GIB)
    assert not ahead.wants_file(700 * MIB, 3 * GIB)
    assert ahead.window > 2 * GIB


def test_a_store_with_small_files_has_as_many_as_it_may() -> None:
    ahead = Ahead(MIB, 2, 8 * GIB, 0, 0.0)
    assert ahead.wants_file(5, MIB)
    assert ahead.wants_file(5, 2 * MIB)
    assert not ahead.wants_file(5, 3 * MIB)


def test_files_that_take_long_are_begun_earlier() -> None:
    """At 20 MiB a second and 30 s a file, 600 MiB are not enough."""
    ahead = Ahead(GIB, 2, 8 * GIB, 0, 0.0)
    ahead.saw(20 * MIB, 1.0)
    assert not ahead.wants_file(424 * MIB, GIB)
    ahead.made(30.0)
    assert ahead.wants_file(424 * MIB, GIB)
    for _ in range(8):
        ahead.made(0.001)
    assert not ahead.wants_file(424 * MIB, GIB), "the slow one is forgotten"


def test_the_window_follows_the_rate_and_is_small_again_after_minutes() -> None:
    ahead = Ahead(GIB, 2, 2 * GIB, 0, 0.0)
    wrote = 0
    for tick in range(1, 8 + 1):
        wrote += 25 * MIB
        ahead.saw(wrote, tick / 8)
    assert ahead.window == pytest.approx(8 * 200 * MIB, rel=0.02)
    ahead.saw(wrote + 600 * MIB, 1.5)
    assert ahead.window == 2 * GIB, "never more than it may"
    for second in range(2, 900):
        ahead.saw(wrote + 600 * MIB, float(second))
    assert ahead.window == LEAST_WINDOW


@pytest.mark.parametrize("passed", [0.0, 0.001, 0.02, 0.9])
def test_a_short_burst_of_a_slow_store_needs_no_memory(passed: float) -> None:
    ahead = Ahead(GIB, 2, 8 * GIB, 0, 0.0)
    ahead.saw(15 * MIB, passed)
    assert ahead.window == LEAST_WINDOW
    assert not ahead.wants_file(15 * MIB, GIB)


def test_warming_rests_unless_append_is_close() -> None:
    """It is twice as fast as append, so the window fills; a slow store's takes some seconds."""
    ahead = Ahead(GIB, 2, 8 * GIB, 0, 0.0)
    assert ahead.rest(LEAST_WINDOW // 4 - 1, 2 * MIB) == 0
    assert ahead.rest(LEAST_WINDOW // 4, 2 * MIB) == pytest.approx(1 / 16)
    ahead.saw(200 * MIB, 1.0)
    assert ahead.rest(400 * MIB - 1, 2 * MIB) == 0
    assert ahead.rest(400 * MIB, 2 * MIB) == pytest.approx(0.005)
    assert ahead.rest(400 * MIB, GIB) == pytest.approx(0.1), "a file may be wanted meanwhile"


@pytest.mark.parametrize(
    ("seen", "fast"),
    [
        ([], False),
        ([(200, 1.0)], False),
        ([(200, 1.0), (700, 2.0)], True),
        ([(200, 1.0), (700, 2.0), (700, 180.0)], False),
    ],
)
def test_only_a_store_that_was_fast_within_the_last_minutes_is_fast(
    seen: list[tuple[int, float]], *, fast: bool
) -> None:
    """Seen are MiB and seconds."""
    ahead = Ahead(GIB, 2, 8 * GIB, 0, 0.0)
    for wrote, now in seen:
        ahead.saw(wrote * MIB, now)
    assert ahead.is_fast is fast
