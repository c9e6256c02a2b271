"""The page of one result: what was measured, its figures and plots, and what they depend on."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from . import page
from .amounts import amount, digits
from .drift import trends
from .figures import BY_KEY, DURABILITY, FIGURES, step_name, steps, values
from .plot import escape
from .plots import over_sweep, over_time, percentiles, percentiles_of_kinds, rates
from .spread import ENOUGH, spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .figures import Figure, Step
    from .model import Limit, Result, Run

#: Points of all lines of a page: some 15 bytes each.
_POINTS = 40_000
_MOST_OF_A_LINE = 400
_LEAST_OF_A_LINE = 40
#: Steps whose plots over time are shown.
_STEPS = 24


def report(result: Result) -> bytes:
    """The page as HTML."""
    found = steps(result)
    parts = [f"<h1>{escape(result.name)}: {escape(result.server.title)}</h1>"]
    parts += _beginning(result)
    if not result.runs:
        parts.append(page.paragraph("No run was measured.", "warn"))
    else:
        parts += [page.heading("Figures"), *_figures(found)]
        parts += _sweep(found)
        parts += _step_plots(found)
        parts += _happened(result.runs)
    parts += [page.heading("Limits of the machine"), *_limits(result)]
    parts += _settings(result)
    return page.page(f"{result.name}: {result.server.title}", parts)


def _beginning(result: Result) -> Iterator[str]:
    server = result.server
    version = f" {server.version}" if server.version else ""
    where = f"{result.machine.cpu}, {result.machine.cores} cores"
    yield page.paragraph(f"{server.title}{version}, {result.started}, {where}", "dim")
    yield page.paragraph(f"An acknowledgement means: {server.acknowledged}")
    yield page.paragraph(f"An acknowledged message {DURABILITY[server.durability]}.")
    if result.interrupted:
        yield page.paragraph(
            "Interrupted: the measurement was ended before its time. The last run is shorter than "
            "the workload says, and runs may be missing.",
            "warn",
        )
    errors = sum(run.errors for run in result.runs)
    if errors:
        first = next((run.first_error for run in result.runs if run.first_error), "")
        yield page.paragraph(f"{errors:,} errors. The first: {first or 'not told'}", "warn")
    wrong = sum((run.lost or 0) + (run.doubled or 0) for run in result.runs)
    if wrong:
        yield page.paragraph(f"{wrong:,} messages were lost or doubled: see the figures.", "warn")


def range_of(figure: Figure, runs: list[Run]) -> str:
    """The median, and below it the range of the runs. A dash if it was not measured."""
    known = spread(values(figure, runs))
    if known is None:
        return "–"
    text = amount(known.median, figure.unit)
    if known.least < known.most:
        text += f"\n{amount(known.least, figure.unit)} to {amount(known.most, figure.unit)}"
    return text


def _figures(found: dict[Step, list[Run]]) -> Iterator[str]:
    shown = [one for one in FIGURES if any(values(one, runs) for runs in found.values())]
    counts = sorted({len(runs) for runs in found.values()})
    said = " or ".join(map(str, counts))
    text = f"Medians of {said} run{'s' * (counts != [1])}, and the least and the greatest."
    if counts[0] < ENOUGH:
        text += f" Fewer than {ENOUGH} runs do not tell how large the noise is."
    yield page.paragraph(text, "dim")
    if len(found) == 1:
        (runs,) = found.values()
        rows = [(one.title, range_of(one, runs)) for one in shown]
        yield page.table(("figure", step_name(next(iter(found))) or "value"), rows, 1)
        return
    yield page.table(
        ("step", *(one.title for one in shown)),
        [
            (step_name(step) or "–", *(range_of(one, runs) for one in shown))
            for step, runs in found.items()
        ],
        1,
    )


def _sweep(found: dict[Step, list[Run]]) -> Iterator[str]:
    rate = {"published": ("publish_rate", found), "consumed": ("consume_rate", found)}
    latency = {
        f"{name} {part}": (f"{kind}_{part}", found)
        for kind, name in (("publish", "publish"), ("end_to_end", "end to end"))
        for part in ("p50", "p99", "p99.9")
    }
    cpu = {"server": ("server_cpu", found), "clients": ("client_cpu", found)}
    plots = [
        over_sweep("Rate", rate, "msg/s"),
        over_sweep("Bytes published", {"published": ("publish_bytes", found)}, "bytes/s"),
        over_sweep("Latency", latency, "us"),
        over_sweep("CPU a message", cpu, "us"),
    ]
    by_step = {step_name(step): runs for step, runs in found.items()}
    if any(plots):
        plots.append(percentiles("Publish latency by percentile", by_step, "publish"))
        yield page.heading("Sweep")
        yield page.paragraph("Points are medians, bars the range of the runs.", "dim")
        yield page.plots(one for one in plots if one)


def median_run(runs: Sequence[Run]) -> Run:
    """The run whose rate is the median (of two, the slower)."""
    ordered = sorted(runs, key=lambda run: run.publish_rate or run.consume_rate)
    return ordered[(len(ordered) - 1) // 2]


def _step_plots(found: dict[Step, list[Run]]) -> Iterator[str]:
    yield page.heading("Over time, and by percentile")
    shown = dict([*found.items()][:_STEPS])
    lines = sum(len(median_run(runs).series.columns) + len(runs) for runs in shown.values())
    most = max(_LEAST_OF_A_LINE, min(_MOST_OF_A_LINE, _POINTS // max(1, lines)))
    for number, (step, runs) in enumerate(shown.items()):
        run = median_run(runs)
        said = f"Run {run.number}, {digits(run.seconds)} s"
        said += f", warm-up {digits(run.warm_up_s)} s" * (run.warm_up_s > 0)
        if len(runs) > 1:
            said += f": of {len(runs)} runs the one with the median rate"
        extra = [rates(runs, most), percentiles_of_kinds(runs)]
        plots = [*over_time(run, most), *(one for one in extra if one)]
        inside = [page.paragraph(f"{said}. Percentiles are of all runs.", "dim"), page.plots(plots)]
        if len(found) == 1:
            yield from inside
        else:
            yield page.folded(step_name(step) or "without a value", inside, is_open=number == 0)
    if len(found) > len(shown):
        yield page.paragraph(f"{len(found) - len(shown)} more steps have no plots here.", "dim")


def _happened(runs: list[Run]) -> Iterator[str]:
    faults = [
        (f"{step_name((run.label, run.value))} run {run.number}".strip(), one)
        for run in runs
        for one in run.faults
    ]
    if faults:
        rows = [
            (name, amount(one.at_s, "s"), amount(one.until_s, "s"), one.what)
            for name, one in faults
        ]
        table = page.table(("run", "at", "until", "what was done"), rows)
        yield page.heading("Faults")
        yield page.folded(f"{len(rows)} faults", [table], is_open=len(rows) <= 20)
    slopes = [
        (f"{step_name((run.label, run.value))} run {run.number}".strip(), one.title, *one.said())
        for run in runs
        for one in trends(run)
    ]
    if slopes:
        yield page.heading("Drift")
        yield page.paragraph(
            "Slopes of the measured part, by least squares. A drift changes the mean by more than "
            "noise does, and by more than some percent, from the begin of the run to its end.",
            "dim",
        )
        columns = ("run", "what", "mean", "slope", "from begin to end", "meaning")
        yield page.table(columns, slopes)


def _limits(result: Result) -> Iterator[str]:
    """Each limit, and the figures in the same unit as ratios to it."""
    if not result.limits:
        yield page.paragraph("None were measured.", "dim")
        return
    yield page.paragraph(
        "Measured in the same session. Ratios are figures of the first step divided by the limit.",
        "dim",
    )
    runs = next(iter(steps(result).values()), [])
    yield page.table(
        ("limit", "median", "of samples", "ratios"),
        [(one.name, *_limit(one), _ratios(one, runs)) for one in result.limits],
    )


def _limit(limit: Limit) -> tuple[str, str]:
    known = spread(limit.samples)
    if known is None:
        return "–", "no samples"
    least, most = amount(known.least, limit.unit), amount(known.most, limit.unit)
    return amount(known.median, limit.unit), f"{known.runs}: {least} to {most}"


def _ratios(limit: Limit, runs: list[Run]) -> str:
    keys = {
        "us": ("publish_p50", "durable_p50", "end_to_end_p50", "end_to_end_p99"),
        "bytes/s": ("publish_bytes",),
    }.get(limit.unit, ())
    base = statistics.median(limit.samples) if limit.samples else 0.0
    found = []
    for key in keys:
        measured = values(BY_KEY[key], runs)
        if measured and base > 0:
            ratio = amount(statistics.median(measured) / base, "x")
            found.append(f"{BY_KEY[key].title} {ratio}")
    return "; ".join(found) or "–"


def _settings(result: Result) -> Iterator[str]:
    machine, server = result.machine, result.server
    facts = [
        ("CPU", f"{machine.cpu}, {machine.cores} cores"),
        ("memory", amount(machine.memory, "bytes")),
        ("kernel", machine.kernel),
        ("file system", machine.file_system),
        ("disk", machine.disk),
        ("Python", machine.python),
        ("clock", machine.clock),
        *machine.notes.items(),
    ]
    versions = [
        ("SiloMQ", f"{result.silomq} {result.commit}".strip()),
        (server.title, server.version),
        *server.clients.items(),
    ]
    for title, rows in (
        ("Machine", facts),
        ("Versions", versions),
        ("Settings of the server", [*server.settings.items()]),
        ("Workload", [*flat(result.workload)]),
    ):
        yield page.heading(title)
        yield page.table(("name", "value"), rows) if rows else page.paragraph("None.", "dim")


def flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested values as names with points ("producers.rate") and text."""
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from flat(one, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        for number, one in enumerate(value):
            yield from flat(one, f"{name}[{number}]")
    elif isinstance(value, list):
        yield name, ", ".join(map(str, value)) or "none"
    else:
        yield name, {"": '""', "True": "true", "False": "false"}.get(str(value), str(value))
