"""Each bar of a suite beside what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ..results.amounts import amount
from ..results.figures import BY_KEY, DURABILITY, steps, values
from ..results.spread import ENOUGH, Ratio, ratio, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..results.model import Result
    from .suite import Bar, Suite

    _Results = Callable[[str, str], Result | None]

#: The limit of the machine that no rate of bytes passes for long: a log is written to the disk.
_WRITE: Final = "sequential write"
_MISSED: Final = "MISSED"


class Line(NamedTuple):
    """A bar and one thing that it is beside. `ratio` is the plain figure if it is beside nothing;
    None if something is not measured yet.
    """

    title: str
    ours: str
    beside: str
    theirs: str
    ratio: str
    bar: str
    verdict: str
    notes: str

    @property
    def is_met(self) -> bool:
        return self.verdict.startswith("met")


def lines(suite: Suite, results: _Results) -> list[Line]:
    """All bars. `results` gives the result of a part and target, None if there is none."""
    return [one for bar in suite.bars for one in _lines(bar, results)]


def _lines(bar: Bar, results: _Results) -> list[Line]:
    ours = results(bar.part, bar.target)
    if bar.beside:
        others = [(name, results(bar.part, name)) for name in bar.beside]
        return [_compared(bar, ours, one, name, _measured(bar, one)) for name, one in others]
    if bar.beside_step is not None:
        found = _at(bar, ours, bar.beside_step)
        return [_compared(bar, ours, None, f"at {bar.beside_step:g}", found)]
    if bar.beside_limits:
        return [_compared(bar, ours, None, name, _limit(ours, name)) for name in bar.beside_limits]
    return [_plain(bar, ours)]


def _measured(bar: Bar, result: Result | None) -> list[float]:
    return _at(bar, result, bar.step)


def _at(bar: Bar, result: Result | None, step: float | None) -> list[float]:
    return _values(bar.figure, result, step)


def _values(figure: str, result: Result | None, step: float | None) -> list[float]:
    """A figure of each run, of one step or of a workload without a sweep."""
    if result is None:
        return []
    return [
        value
        for (_, place), runs in steps(result).items()
        if step is None or place == step
        for value in values(BY_KEY[figure], runs)
    ]


def _limit(result: Result | None, name: str) -> list[float]:
    limits = result.limits if result else []
    return next((one.samples for one in limits if one.name == name), [])


def _compared(
    bar: Bar, ours: Result | None, other: Result | None, name: str, base: Sequence[float]
) -> Line:
    mine = _measured(bar, ours)
    found = ratio(mine, base)
    said = "–"
    if found is not None:
        said = amount(found.value, "x")
        if found.interval:
            low, high = (amount(one, "x") for one in found.interval)
            said += f" ({low} to {high})"
    notes = []
    if ours and other and ours.server.durability != other.server.durability:
        notes.append(f"its acknowledged message {DURABILITY[other.server.durability]}")
    if found is not None and found.interval is None:
        notes.append(f"fewer than {ENOUGH} runs")
    unit = BY_KEY[bar.figure].unit
    verdict = _verdict(bar, found)
    if verdict.startswith(_MISSED):
        verdict += _beyond(bar, ours, base)
    return Line(
        bar.title, _said(mine, unit), name, _said(base, unit), said, _bar(bar, "x"),
        verdict, "; ".join(notes),
    )  # fmt: skip


def _beyond(bar: Bar, ours: Result | None, base: Sequence[float]) -> str:
    """Says of a rate that it would need more bytes of bodies than the machine can write."""
    if bar.figure != "publish_rate" or bar.at_least is None:
        return ""
    rate, of_bytes, theirs = map(
        spread, (_measured(bar, ours), _values("publish_bytes", ours, bar.step), base)
    )
    best = max(_limit(ours, _WRITE), default=0.0)
    if not (rate and of_bytes and theirs and best):
        return ""
    needed = bar.at_least * theirs.median * of_bytes.median / rate.median
    if needed <= best:
        return ""
    said = amount(needed, "bytes/s"), amount(best, "bytes/s")
    return f", would need {said[0]} of bodies; {_WRITE} has {said[1]} at most"


def _plain(bar: Bar, result: Result | None) -> Line:
    mine = _measured(bar, result)
    beside = theirs = ""
    if bar.beside_figure:
        other = BY_KEY[bar.beside_figure]
        beside, theirs = other.title, _said(_values(other.key, result, bar.step), other.unit)
    known = spread(mine)
    found = None if known is None else Ratio(known.median, (known.least, known.most))
    unit = BY_KEY[bar.figure].unit
    said = "–" if found is None else amount(found.value, unit)
    few = f"{len(mine)} runs" if 0 < len(mine) < ENOUGH else ""
    return Line(
        bar.title,
        _said(mine, unit),
        beside,
        theirs,
        said,
        _bar(bar, unit),
        _verdict(bar, found),
        few,
    )


def _said(found: Sequence[float], unit: str) -> str:
    known = spread(found)
    if known is None:
        return "–"
    if known.least == known.most:
        return amount(known.median, unit)
    return (
        f"{amount(known.median, unit)} ({amount(known.least, unit)} to {amount(known.most, unit)})"
    )


def _bar(bar: Bar, unit: str) -> str:
    if bar.at_least is not None:
        return f"≥ {amount(bar.at_least, unit)}"
    return f"≤ {amount(bar.at_most, unit)}"


def _verdict(bar: Bar, found: Ratio | None) -> str:
    """What the median says; whether the interval of the runs has the bar in it."""
    if found is None:
        return "not measured"
    if bar.at_least is not None:
        limit, is_met = bar.at_least, found.value >= bar.at_least
    else:
        assert bar.at_most is not None
        limit, is_met = bar.at_most, found.value <= bar.at_most
    said = "met" if is_met else _MISSED
    if found.interval and found.interval[0] < limit < found.interval[1]:
        said += ", within the noise"
    return said
