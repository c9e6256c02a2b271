"""When the supervisor starts a dead actor again, and when it gives up."""

from __future__ import annotations

import pytest

from silomq.supervisor.restarts import RestartPolicy


def policy(max_delay_s: float = 5.0, max_boot_failures: int = 100) -> RestartPolicy:
    return RestartPolicy(max_delay_s, max_boot_failures)


@pytest.mark.parametrize("was_ready", [False, True])
@pytest.mark.parametrize("lived_s", [0.0, 0.5, 100.0])
def test_the_first_restart_is_at_once(lived_s: float, *, was_ready: bool) -> None:
    assert policy().died(was_ready=was_ready, lived_s=lived_s) == 0.0


def test_a_long_life_is_followed_by_a_start_at_once() -> None:
    actor = policy()
    assert [actor.died(was_ready=True, lived_s=1.0) for _ in range(50)] == [0.0] * 50


def test_short_lives_in_a_row_wait_longer_each_time() -> None:
    actor = policy(max_delay_s=0.1)
    delays = [actor.died(was_ready=True, lived_s=0.9) for _ in range(9)]
    assert delays[:5] == [0.0] * 5
    assert delays[5:] == pytest.approx([0.02, 0.04, 0.08, 0.1])


def test_deaths_before_ready_wait_longer_each_time() -> None:
    actor = policy(max_delay_s=0.1)
    delays = [actor.died(was_ready=False, lived_s=30.0) for _ in range(5)]
    assert delays == pytest.approx([0.0, 0.02, 0.04, 0.08, 0.1])


def test_the_wait_never_exceeds_its_bound() -> None:
    actor = policy(max_delay_s=2.0, max_boot_failures=3000)
    delays = [actor.died(was_ready=False, lived_s=0.0) for _ in range(2000)]
    assert None not in delays
    assert delays[-1] == 2.0
    assert delays == sorted(delays, key=lambda delay: delay or 0.0)


@pytest.mark.parametrize("failures", [1, 3, 10])
def test_boot_failures_in_a_row_are_given_up(failures: int) -> None:
    actor = policy(max_boot_failures=failures)
    delays = [actor.died(was_ready=False, lived_s=0.0) for _ in range(failures)]
    assert None not in delays[:-1]
    assert delays[-1] is None


def test_having_been_ready_ends_a_row_of_boot_failures() -> None:
    actor = policy(max_boot_failures=3)
    for _ in range(10):
        assert actor.died(was_ready=False, lived_s=0.0) is not None
        assert actor.died(was_ready=False, lived_s=0.0) is not None
        assert actor.died(was_ready=True, lived_s=0.0) is not None
    assert actor.boot_failures == 0
    assert actor.died(was_ready=False, lived_s=0.0) is not None
    assert actor.died(was_ready=False, lived_s=0.0) is not None
    assert actor.died(was_ready=False, lived_s=0.0) is None


def test_an_actor_that_was_ready_is_never_given_up() -> None:
    actor = policy(max_boot_failures=1)
    assert all(actor.died(was_ready=True, lived_s=0.0) is not None for _ in range(100))


def test_a_long_life_ends_a_row_of_short_ones() -> None:
    actor = policy()
    for _ in range(6):
        actor.died(was_ready=True, lived_s=0.1)
    assert actor.died(was_ready=True, lived_s=0.1) == pytest.approx(0.04)
    assert actor.died(was_ready=True, lived_s=2.0) == 0.0
    assert [actor.died(was_ready=True, lived_s=0.1) for _ in range(5)] == [0.0] * 5
