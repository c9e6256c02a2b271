"""The figures of a run that reports, comparisons and the documentation show, in their order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from .amounts import digits
from .drift import trends

if TYPE_CHECKING:
    from collections.abc import Callable

    from .model import Result, Run

    _Of = Callable[[Run], float | None]

KINDS: Final = {
    "publish": "publish latency",
    "durable": "time until durable",
    "end_to_end": "end-to-end latency",
    "delay": "delay of the sender",
}
DURABILITY: Final = (
    "may still be in the client",
    "is lost if the server's process is killed",
    "survives a kill of the server, but is lost in a power cut",
    "survives a power cut",
)


class Figure(NamedTuple):
    """A figure: `of` gives it for a run, None if it was not measured."""

    key: str
    title: str
    unit: str
    of: _Of


def _latency(kind: str, percentile: str) -> Figure:
    def of(run: Run) -> float | None:
        found = run.latency.get(kind)
        return found.percentiles.get(percentile) if found and found.count else None

    name = "greatest" if percentile == "100" else f"p{percentile}"
    return Figure(f"{kind}_{name}", f"{KINDS[kind]}, {name}", "us", of)


def _pause(name: str, title: str) -> Figure:
    def of(run: Run) -> float | None:
        column = run.series.columns.get(name, [None] * len(run.series.time))
        times = zip(run.series.time, column, strict=True)
        found = [value for at, value in times if value is not None and at >= run.warm_up_s]
        return max(found, default=None)

    return Figure(name, title, "us", of)


def _drifts(run: Run) -> float | None:
    found = trends(run)
    return float(sum(one.is_drift for one in found)) if found else None


#: A shorter run has no rate: the quotient need not be a finite number.
_SHORTEST_S: Final = 1e-9


def _positive(value: float) -> float | None:
    return value if value > 0 else None


FIGURES: Final = (
    Figure("publish_rate", "published", "msg/s", lambda run: _positive(run.publish_rate)),
    Figure(
        "publish_bytes",
        "published bytes",
        "bytes/s",
        lambda run: _positive(run.sent_bytes / run.seconds) if run.seconds > _SHORTEST_S else None,
    ),
    Figure("dispatch_rate", "dispatched", "msg/s", lambda run: _positive(run.dispatch_rate)),
    Figure("consume_rate", "consumed", "msg/s", lambda run: _positive(run.consume_rate)),
    *(_latency("publish", one) for one in ("50", "99", "99.9", "100")),
    *(_latency("durable", one) for one in ("50", "99")),
    *(_latency("end_to_end", one) for one in ("50", "99", "99.9", "100")),
    _latency("delay", "99"),
    Figure("server_cpu", "CPU of the server a message", "us", lambda r: _positive(r.server_cpu_us)),
    Figure(
        "client_cpu", "CPU of the clients a message", "us", lambda r: _positive(r.client_cpu_us)
    ),
    _pause("machine_pause", "longest pause of the machine itself"),
    _pause("core_pause", "longest pause of one core of the machine"),
    Figure(
        "cached",
        "in the page cache before a cold read",
        "%",
        lambda run: None if run.cached is None else run.cached * 100,
    ),
    Figure("errors", "errors", "", lambda run: float(run.errors)),
    Figure("lost", "lost", "", lambda run: None if run.lost is None else float(run.lost)),
    Figure("doubled", "doubled", "", lambda r: None if r.doubled is None else float(r.doubled)),
    Figure("drifts", "how many things drift (rate, latency, memory, open files)", "", _drifts),
)
BY_KEY: Final = {figure.key: figure for figure in FIGURES}

#: The label and the value of a step of a sweep.
Step = tuple[str, float]


def steps(result: Result) -> dict[Step, list[Run]]:
    """The runs of each step, in the order of the file."""
    found: dict[Step, list[Run]] = {}
    for run in result.runs:
        found.setdefault((run.label, run.value), []).append(run)
    return found


def step_name(step: Step) -> str:
    """The step as in "size 128", empty for a workload without a sweep."""
    return f"{step[0]} {digits(step[1])}" if step[0] else ""


def values(figure: Figure, runs: list[Run]) -> list[float]:
    """The figure of each run in which it was measured."""
    found = [figure.of(run) for run in runs]
    # A rate over next to no time may be endless.
    return [value for value in found if value is not None and math.isfinite(value)]
