"""Bars beside what was measured, with numbers that are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from support.bench_results import SERVER, result, run

from silomq.bench.harness.results.model import Limit
from silomq.bench.harness.suite.suite import Bar, Part, Suite
from silomq.bench.harness.suite.verdicts import Line, lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from silomq.bench.harness.results.model import Result

TEN = [run(n, 100_000.0 + n) for n in range(1, 6)]
ONE = [run(n, 10_000.0 + n) for n in range(1, 6)]


def judged(found: dict[str, Result], **keys: Any) -> list[Line]:
    """The lines of one bar; `found` are results by target."""
    part = Part(name="a", workload="smoke", targets=["silomq", "redis", "kafka"])
    bar = Bar(title="rate", part="a", **{"figure": "publish_rate", **keys})
    return lines(Suite(parts=[part], bars=[bar]), lambda _, target: found.get(target))


def test_a_ratio_to_each_peer() -> None:
    found = {"silomq": result(TEN), "redis": result(ONE)}
    met, missing = judged(found, beside=["redis", "kafka"], at_least=5)
    assert (met.beside, met.ratio, met.bar, met.verdict) == (
        "redis",
        "10× (10× to 10×)",
        "≥ 5×",
        "met",
    )
    assert met.is_met
    assert (missing.theirs, missing.ratio, missing.verdict) == ("–", "–", "not measured")
    assert not missing.is_met


def test_a_missed_bar() -> None:
    found = {"silomq": result(TEN), "redis": result(ONE)}
    (line,) = judged(found, beside=["redis"], at_least=11)
    assert (line.verdict, line.is_met) == ("MISSED", False)
    (line,) = judged(found, beside=["redis"], at_most=0.2)
    assert (line.bar, line.verdict) == ("≤ 0.2×", "MISSED")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        pytest.param([14e6, 16e6], "", id="can_be_written"),
        pytest.param([], "", id="not_measured"),
        pytest.param(
            [12e6, 11e6],
            ", would need 12.8 MB/s of bodies; sequential write has 12 MB/s at most",
            id="more_than_can_be_written",
        ),
    ],
)
def test_a_bar_beyond_what_the_machine_can_write(written: list[float], said: str) -> None:
    """10 x 10,000 messages/s of 128 bytes."""
    limits = [Limit("sequential write", "bytes/s", written)] if written else []
    mine = [run(n, 20_000.0) for n in range(1, 6)]
    ours = msgspec.structs.replace(result(mine), limits=limits)
    theirs = result([run(n, 10_000.0) for n in range(1, 6)])
    (line,) = judged({"silomq": ours, "redis": theirs}, beside=["redis"], at_least=10)
    assert line.verdict == "MISSED" + said
    (line,) = judged({"silomq": ours, "redis": theirs}, beside=["redis"], at_least=2)
    assert line.verdict == "met", "whatever the machine wrote"


def test_an_interval_that_has_the_bar_in_it_is_told() -> None:
    spread = [run(n, 50_000.0 + 20_000 * n) for n in range(5)]
    (line,) = judged({"silomq": result(spread), "redis": result(ONE)}, beside=["redis"], at_least=8)
    assert line.verdict == "met, within the noise"
    assert line.is_met


def test_few_runs_and_less_durability_are_told() -> None:
    weak = result(ONE[:2], server=msgspec.structs.replace(SERVER, durability=1))
    (line,) = judged({"silomq": result(TEN), "redis": weak}, beside=["redis"], at_least=5)
    assert line.notes == (
        "its acknowledged message is lost if the server's process is killed; fewer than 5 runs"
    )


def sweep(rates: Sequence[tuple[float, float]]) -> Result:
    return result(
        [run(n, rate, label="window", value=value) for value, rate in rates for n in range(1, 6)]
    )


def test_a_step_beside_a_step() -> None:
    found = {"silomq": sweep([(1, 1000.0), (64, 30_000.0)])}
    (line,) = judged(found, step=64, beside_step=1, at_least=25)
    assert (line.beside, line.ours, line.theirs) == ("at 1", "30 k msg/s", "1 k msg/s")
    assert line.verdict == "met"


def test_a_figure_beside_a_limit_of_the_machine() -> None:
    latencies = [210] * 100
    found = {"silomq": result([run(n, latencies=latencies) for n in range(1, 6)])}
    limits = ["write and fdatasync"]
    (line,) = judged(found, figure="publish_p50", beside_limits=limits, at_most=1.6)
    # Of 100, 110 and 105 us the median; three samples are too few for an interval.
    assert (line.ours, line.ratio, line.verdict) == ("210 us", "2×", "MISSED")


def test_a_figure_beside_several_limits() -> None:
    """One that the machine could not measure is said to be missing."""
    found = {"silomq": result([run(n, latencies=[210] * 100) for n in range(1, 6)])}
    limits = ["write and fdatasync", "no such limit"]
    known, missing = judged(found, figure="publish_p50", beside_limits=limits, at_most=2)
    assert (known.beside, known.verdict) == (limits[0], "met")
    assert (missing.beside, missing.verdict) == (limits[1], "not measured")


def test_a_plain_figure() -> None:
    found = {"silomq": result([run(n, latencies=[1000 * n]) for n in range(1, 6)])}
    (line,) = judged(found, figure="publish_greatest", at_most=4000)
    assert (line.ours, line.bar) == ("3 ms (1 ms to 5 ms)", "≤ 4 ms")
    assert line.verdict == "met, within the noise"
    assert (line.beside, line.theirs) == ("", "")
    (line,) = judged({}, figure="publish_greatest", at_most=4000)
    assert line.verdict == "not measured"


def test_another_figure_of_the_same_runs_is_shown_and_judges_nothing() -> None:
    """The pause of the warm-up does not count."""
    runs = [run(n, latencies=[5000]) for n in range(1, 6)]
    for number, one in enumerate(runs):
        pauses: list[float | None] = [9e6, 9e6, 1000.0 + 100 * number, None]
        one.series.columns["machine_pause"] = pauses + [10.0] * (len(one.series.time) - 4)
    found = {"silomq": result(runs)}
    (line,) = judged(found, figure="publish_greatest", beside_figure="machine_pause", at_most=4000)
    assert line.beside == "longest pause of the machine itself"
    assert line.theirs == "1.2 ms (1 ms to 1.4 ms)"
    assert (line.ratio, line.verdict) == ("5 ms", "MISSED")
