"""The plots of results: over time, percentiles, and over the values of a sweep."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from .amounts import amount, digits
from .axis import Axis, PercentileAxis
from .figures import BY_KEY, KINDS, Step, values
from .histograms import added_up, percentile_points
from .plot import Line, Mark, Plot, thinned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .model import Run

#: Title, unit, whether the axis is logarithmic, and the columns with their names in the legend. A
#: column that ends with a point stands for all columns that begin so.
_OVER_TIME: Final[tuple[tuple[str, str, bool, tuple[tuple[str, str], ...]], ...]] = (
    ("Rate", "msg/s", False, (("publish_rate", "published"), ("consume_rate", "consumed"))),
    (
        "Publish latency",
        "us",
        True,
        (
            ("publish_p50", "p50"),
            ("publish_p99", "p99"),
            ("publish_p999", "p99.9"),
            ("publish_max", "greatest"),
        ),
    ),
    ("End-to-end latency", "us", True, (("end_to_end_p50", "p50"), ("end_to_end_p99", "p99"))),
    ("CPU (1 is one core)", "", False, (("cpu.", ""),)),
    ("Memory of each process", "B", False, (("memory.", ""),)),
    ("Backlog", "msg", False, (("backlog", "not yet consumed"),)),
    (
        "Taken by the server, not finished",
        "B",
        False,
        (("not_flushed", "not on the disk"), ("not_dispatched", "not in the queues")),
    ),
    ("Written to the disk", "bytes/s", False, (("disk_written", "written"),)),
    (
        "Longest pauses of the machine itself",
        "us",
        False,
        (("machine_pause", "all cores"), ("core_pause", "one core")),
    ),
    ("Page cache", "B", False, (("page_cache", "page cache"),)),
    ("Open files", "", False, (("files.", ""),)),
    ("Errors", "", False, (("errors", "errors"),)),
)
#: The ratio of the greatest to the least value from which an axis is logarithmic.
_SPAN: Final = 20.0


def over_time(run: Run, points: int) -> list[Plot]:
    """The plots of a run over its seconds; lines have at most `points` points."""
    marks = _marks(run)
    found = []
    for title, unit, log, wanted in _OVER_TIME:
        lines = [
            Line(name, thinned([*zip(run.series.time, column, strict=True)], points))
            for prefix, known in wanted
            for name, column in _columns(run, prefix, known)
            if any(value is not None for value in column)
        ]
        if title == "Errors" and not any(y for line in lines for _, y in line.points):
            continue
        if lines:
            found.append(_time_plot(title, unit, lines, marks, log=log))
    return found


def rates(runs: Sequence[Run], points: int) -> Plot | None:
    """The publish rate of all runs of a step in one plot."""
    lines = [
        Line(f"run {run.number}", thinned([*zip(run.series.time, column, strict=True)], points))
        for run in runs
        for _, column in _columns(run, "publish_rate", "published")
        if any(value is not None for value in column)
    ]
    if len(lines) < 2:
        return None
    return _time_plot("Rate of each run", "msg/s", lines, (), log=False)


def _time_plot(
    title: str, unit: str, lines: Sequence[Line], marks: Sequence[Mark], *, log: bool
) -> Plot:
    times = [x for line in lines for x, _ in line.points]
    heights = [y for line in lines for _, y in line.points if y is not None]
    x = Axis(times, digits)
    return Plot(title, x, _height(heights, unit, log=log), "seconds since the start", lines, marks)


def _columns(run: Run, prefix: str, known: str) -> Iterable[tuple[str, list[float | None]]]:
    if not prefix.endswith("."):
        if prefix in run.series.columns:
            yield known, run.series.columns[prefix]
        return
    for name, column in run.series.columns.items():
        if name.startswith(prefix):
            yield name.removeprefix(prefix), column


def _marks(run: Run) -> list[Mark]:
    marks = [Mark(one.at_s, one.until_s, one.what) for one in run.faults]
    if run.warm_up_s > 0:
        marks.insert(0, Mark(0.0, run.warm_up_s, "warm-up", is_fault=False))
    return marks


def _height(found: Sequence[float], unit: str, *, log: bool) -> Axis:
    def label(value: float) -> str:
        return amount(value, unit).removesuffix("msg/s").removesuffix("msg").rstrip()

    return Axis(found, label, log=log, from_zero=not log, room=0.04)


def percentiles(title: str, latencies: Mapping[str, Iterable[Run]], kind: str) -> Plot | None:
    """A plot of the latencies of runs, added up by name."""
    lines = []
    for name, runs in latencies.items():
        points = percentile_points(added_up(r.latency[kind] for r in runs if kind in r.latency))
        if points:
            lines.append(Line(name, points))
    return _percentile_plot(title, lines)


def percentiles_of_kinds(runs: Sequence[Run]) -> Plot | None:
    """A plot of all latencies of a step, all its runs added up."""
    lines = []
    for kind, name in KINDS.items():
        points = percentile_points(added_up(r.latency[kind] for r in runs if kind in r.latency))
        if points:
            lines.append(Line(name, points))
    return _percentile_plot("Latency by percentile", lines)


def _percentile_plot(title: str, lines: Sequence[Line]) -> Plot | None:
    if not lines:
        return None
    found = [point for line in lines for point in line.points]
    axis = PercentileAxis([x for x, _ in found])
    height = _height([y for _, y in found if y is not None], "us", log=True)
    return Plot(title, axis, height, "percentile (each nine has the same width)", lines)


def over_sweep(
    title: str, wanted: Mapping[str, tuple[str, Mapping[Step, list[Run]]]], unit: str
) -> Plot | None:
    """Figures over the value of a sweep. `wanted` has the key of a figure and the steps by the name
    of the line. Points are medians, bars the range of the runs.
    """
    lines = []
    label = ""
    for name, (key, found) in wanted.items():
        points, ranges = [], []
        for step, runs in sorted(found.items(), key=lambda item: item[0][1]):
            measured = values(BY_KEY[key], runs) if step[0] else []
            if measured:
                label = step[0]
                points.append((step[1], statistics.median(measured)))
                ranges.append((step[1], min(measured), max(measured)))
        if points:
            lines.append(Line(name, points, ranges))
    if not lines or max(len(line.points) for line in lines) < 2:
        return None
    places = [x for line in lines for x, _ in line.points]
    heights = [y for line in lines for _, low, high in line.ranges for y in (low, high)]
    x = Axis(places, _sweep_label, log=_spans(places), room=0.03)
    y = _height(heights, unit, log=_spans(heights))
    return Plot(title, x, y, label, lines)


def _sweep_label(value: float) -> str:
    return digits(value) if value < 10_000 else amount(value, "msg").removesuffix("msg").rstrip()


def _spans(found: Sequence[float]) -> bool:
    """Whether values spread over so much that a linear axis would hide the small ones."""
    return min(found) > 0 and max(found) / min(found) >= _SPAN
