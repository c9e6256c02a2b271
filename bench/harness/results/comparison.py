"""Results side by side: what may be compared, and what is more than noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from . import page
from .amounts import amount
from .figures import DURABILITY, FIGURES, Figure, Step, step_name, steps, values
from .plot import escape
from .plots import over_sweep, percentiles
from .report import flat, range_of
from .spread import ENOUGH, Ratio, ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .model import Result
    from .plot import Plot

NOISE = (
    f"A ratio is that of medians, to the first result. With {ENOUGH} runs or more on both sides it "
    "has an interval of 95 % (bootstrap of the runs). A difference is within the noise if that "
    f"interval includes 1. With fewer than {ENOUGH} runs the noise is unknown."
)


class Cell(NamedTuple):
    """A figure of one result. `ratio` is None for the first result, and where there is none."""

    text: str
    ratio: Ratio | None

    def said(self) -> str:
        """Median, range, ratio and verdict; a line end begins the smaller part."""
        median, _, spread = self.text.partition("\n")
        if self.ratio is None:
            return self.text
        small = [spread] if spread else []
        if self.ratio.interval:
            low, high = (amount(one, "x") for one in self.ratio.interval)
            small.append(f"ratio {low} to {high}")
        small.append(self.ratio.verdict)
        return f"{median} ({amount(self.ratio.value, 'x')})\n" + "; ".join(small)


class Row(NamedTuple):
    """A figure of a step in all results."""

    step: Step
    figure: Figure
    cells: list[Cell]


def rows(results: Sequence[Result]) -> list[Row]:
    """All figures that at least one result has, by steps in the order of their first mention."""
    by_step = [steps(one) for one in results]
    found = []
    for step in dict.fromkeys(step for one in by_step for step in one):
        for figure in FIGURES:
            measured = [values(figure, one.get(step, [])) for one in by_step]
            if not any(measured):
                continue
            cells = [
                Cell(
                    range_of(figure, one.get(step, [])),
                    ratio(some, measured[0]) if number else None,
                )
                for number, (one, some) in enumerate(zip(by_step, measured, strict=True))
            ]
            found.append(Row(step, figure, cells))
    return found


def names(results: Sequence[Result], files: Sequence[str]) -> list[str]:
    """A name for each result, by which a reader tells it from the others. Those whose
    acknowledgement promises less than another's are marked with *.
    """
    most = max(one.server.durability for one in results)
    titles = [f"{one.server.title} {one.server.version}".strip() for one in results]
    return [
        title
        + (f" [{file}]" if titles.count(title) > 1 else "")
        + "*" * (one.server.durability < most)
        for one, title, file in zip(results, titles, files, strict=True)
    ]


def warnings(results: Sequence[Result], shown: Sequence[str]) -> list[str]:
    """What a reader must know before a figure is compared."""
    first = results[0]
    found = []
    most = max(one.server.durability for one in results)
    for one, name in zip(results, shown, strict=True):
        if one.server.durability < most:
            promise = DURABILITY[one.server.durability]
            found.append(f"{name} promises less: an acknowledged message {promise}.")
        if one.interrupted:
            found.append(f"{name} was interrupted: its last run is shorter than the others.")
        if not one.runs:
            found.append(f"{name} has no run.")
        if one.name != first.name:
            found.append(f"{name} ran another workload: {one.name}, not {first.name}.")
        for field in ("cpu", "cores", "memory", "kernel", "file_system", "disk"):
            here, there = getattr(one.machine, field), getattr(first.machine, field)
            if here != there:
                what = field.replace("_", " ")
                found.append(f"{name} ran on another machine: {what} is {here}, not {there}.")
    return found


def differing(results: Sequence[Result]) -> list[tuple[str, list[str]]]:
    """The settings of workload and server that are not the same in all results."""
    found = [
        dict(
            [
                *((f"workload: {name}", value) for name, value in flat(one.workload)),
                *((f"server: {name}", value) for name, value in one.server.settings.items()),
                *((f"client: {name}", value) for name, value in one.server.clients.items()),
            ]
        )
        for one in results
    ]
    every = dict.fromkeys(name for one in found for name in one)
    lines = [(name, [one.get(name, "–") for one in found]) for name in every]
    return [(name, some) for name, some in lines if len(set(some)) > 1]


def comparison(results: Sequence[Result], files: Sequence[str]) -> bytes:
    """The page as HTML."""
    shown = names(results, files)
    title = " and ".join(dict.fromkeys(one.name for one in results)) + ": comparison"
    parts = [f"<h1>{escape(title)}</h1>"]
    parts += [page.paragraph(one, "warn") for one in warnings(results, shown)]
    parts.append(page.paragraph(NOISE, "dim"))
    plot = plot_of(results, shown)
    parts += [page.plots([plot])] if plot else []
    found = rows(results)
    for step in dict.fromkeys(row.step for row in found):
        parts.append(page.heading(step_name(step) or "Figures"))
        lines = [
            (row.figure.title, *(cell.said() for cell in row.cells))
            for row in found
            if row.step == step
        ]
        parts.append(page.table(("figure", *shown), lines, 1))
    parts.append(page.heading("What an acknowledgement means"))
    meanings = [
        (name, one.server.acknowledged, DURABILITY[one.server.durability])
        for name, one in zip(shown, results, strict=True)
    ]
    parts.append(page.table(("result", "acknowledged", "an acknowledged message"), meanings))
    parts.append(page.heading("Settings that differ"))
    others = [(name, *some) for name, some in differing(results)]
    parts.append(page.table(("setting", *shown), others) if others else page.paragraph("None."))
    return page.page(title, parts)


def plot_of(results: Sequence[Result], shown: Sequence[str]) -> Plot | None:
    """One plot of all results: the rates of a sweep, or else the percentiles of the latency."""
    by_name = {name: steps(one) for name, one in zip(shown, results, strict=True)}
    for key, title in (("publish_rate", "Published"), ("consume_rate", "Consumed")):
        lines = {name: (key, some) for name, some in by_name.items()}
        plot = over_sweep(f"{title} a second", lines, "msg/s")
        if plot:
            return plot
    runs = {name: one.runs for name, one in zip(shown, results, strict=True)}
    for kind, title in (("publish", "Publish latency"), ("end_to_end", "End-to-end latency")):
        plot = percentiles(f"{title} by percentile", runs, kind)
        if plot:
            return plot
    return None
