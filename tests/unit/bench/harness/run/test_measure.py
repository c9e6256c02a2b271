"""The dispatch rate of a run, with positions that a test makes up. The e2e tests make runs."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from silomq.bench.harness.run.measure import Measurement

SECOND = 1_000_000_000


def dispatch_rate(positions: list[dict[str, int]], before: int, interrupted: bool = False) -> float:
    """The rate of a run whose measured part began 100 s ago with `before` messages dispatched, and
    whose server tells these positions one after the other.
    """
    found: Any = Measurement.__new__(Measurement)
    told = iter(positions)
    found._server = SimpleNamespace(positions=lambda: next(told), pids=dict)
    found._live = SimpleNamespace(is_interrupted=lambda: interrupted)
    found._dispatched_before = (time.monotonic_ns() - 100 * SECOND, before)
    found._dispatch_rate = 0.0
    found._await_dispatch()
    assert interrupted or next(told, None) is None
    return float(found._dispatch_rate)


def at(dispatched: int, count: int) -> dict[str, int]:
    return {"dispatch_count": count, "dispatched": dispatched, "wrote": 900}


def test_what_the_warm_up_left_is_counted_too() -> None:
    """However many were sent in the measured part, 5,000 were dispatched in it."""
    rate = dispatch_rate([at(100, 1000), at(800, 5000), at(900, 6000)], 1000)
    assert rate == pytest.approx(50, rel=0.2)


@pytest.mark.parametrize(
    ("positions", "interrupted"),
    [
        pytest.param([{}], False, id="a_server_that_tells_nothing"),
        pytest.param([at(100, 1000)], True, id="an_interrupted_run"),
    ],
)
def test_no_rate(positions: list[dict[str, int]], interrupted: bool) -> None:
    assert dispatch_rate(positions, 0, interrupted) == 0
