"""`make bench`: the figures that the design must reach, as ratios measured in one run. They are
printed and written as JSON.
"""

from __future__ import annotations

import json
import platform
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from . import rows as bench
from .consume import consuming
from .counting import counting
from .delayed import delayed
from .limits import futex_hand_over_us
from .pops import popping
from .read import reading
from .requests import requesting
from .rows import Plan, Row

PARTS = (
    "throughput128",
    "throughput1024",
    "rolls",
    "latency",
    "sync",
    "topics",
    "read",
    "consume",
    "pops",
    "requests",
    "delayed",
    "counting",
    "idle",
)


def collect(plan: Plan, parts: tuple[str, ...], console: Console) -> list[Row]:
    """Runs the parts one after the other, so that they do not disturb each other."""
    hand_over = [futex_hand_over_us() for _ in range(plan.runs)]
    calls = {
        "throughput128": lambda: bench.throughput(plan, 128),
        "throughput1024": lambda: bench.throughput(plan, 1024),
        "rolls": lambda: bench.file_rolls(plan),
        "latency": lambda: bench.latency(plan, hand_over),
        "sync": lambda: bench.sync_flush(plan),
        "topics": lambda: bench.many_topics(plan),
        "read": lambda: reading(plan),
        "consume": lambda: consuming(plan, hand_over),
        "pops": lambda: popping(plan, hand_over),
        "requests": lambda: requesting(plan, hand_over),
        "delayed": lambda: delayed(plan),
        "counting": lambda: counting(plan),
        "idle": lambda: bench.idle(plan),
    }
    found = []
    for part in parts:
        began = time.monotonic()
        rows = calls[part]()
        found += rows
        for row in rows:
            console.print(f"  {row.name.strip()}: {number(row.median)} {row.unit}", style="dim")
        console.print(f"{part}: {time.monotonic() - began:.0f} s", style="dim")
    return found


def number(value: float) -> str:
    """A figure short enough for a table: 2.31 M, 45.2 k, 7.1."""
    for limit, letter in ((1e6, " M"), (1e4, " k")):
        if value >= limit:
            return f"{value / (1e6 if letter == ' M' else 1e3):.2f}{letter}"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def table(found: list[Row]) -> Table:
    """One line a figure: median and spread, the limit beside it, the ratio, the bar."""
    shown = Table(title="medians of the runs (min - max)")
    for heading in ("figure", "median", "spread", "limit", "its median", "ratio", "bar", ""):
        shown.add_column(heading, justify="left" if heading in ("figure", "limit", "") else "right")
    for row in found:
        beside = number(statistics.median(row.limit_samples)) if row.limit_samples else ""
        verdict = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[row.passed]
        sign = ">=" if row.higher_is_better else "<="
        bar = f"{sign} {number(row.bar)}" + (f" ({row.bar_text})" if row.bar_text else "")
        shown.add_row(
            row.name,
            f"{number(row.median)} {row.unit}",
            f"{number(min(row.samples))} - {number(max(row.samples))}",
            row.limit,
            beside,
            f"{row.ratio:.2f}" if row.ratio is not None else "",
            bar if row.bar else "",
            verdict,
        )
    return shown


def as_json(found: list[Row], plan: Plan) -> dict[str, object]:
    """Everything that was measured, for programs."""
    return {
        "kernel": platform.release(),
        "python": platform.python_version(),
        "runs": plan.runs,
        "rows": [
            {
                "name": row.name.strip(),
                "unit": row.unit,
                "median": row.median,
                "samples": row.samples,
                "limit": row.limit,
                "limit_samples": row.limit_samples,
                "ratio": row.ratio,
                "bar": row.bar or None,
                "bar_text": row.bar_text,
                "met": row.passed,
            }
            for row in found
        ],
    }


def bench_console() -> Console:
    """Standard output, wide enough for the table even if it is no terminal."""
    return Console(width=None if Console().is_terminal else 160)


def report(found: list[Row], plan: Plan, console: Console, output: Path) -> None:
    """Prints the table to `console`, and writes everything to the JSON file `output`."""
    console.print(table(found))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(as_json(found, plan), indent=1) + "\n")
    console.print(f"written to {output}")


@click.command()
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="only these parts")
@click.option("--runs", default=5, show_default=True, help="runs of each figure")
@click.option("--short", is_flag=True, help="a short form that only shows that everything runs")
@click.option("--folder", type=click.Path(path_type=Path), help="where to put stores (a real disk)")
@click.option("--output", type=click.Path(path_type=Path), default=Path("build/bench.json"))
def main(  # click passes by name
    *, parts: tuple[str, ...], runs: int, short: bool, folder: Path | None, output: Path
) -> None:
    """Measures the store against this machine's limits. Run it alone: it needs both cores."""
    # SIGTERM must end the benchmark in order, so that its stores are stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    console = bench_console()
    home = folder or Path.cwd()
    with tempfile.TemporaryDirectory(prefix="silomq-bench-", dir=home) as inside:
        plan = Plan.of(Path(inside), runs, short=short)
        found = collect(plan, parts or PARTS, console)
    report(found, plan, console, output)


if __name__ == "__main__":
    main()
