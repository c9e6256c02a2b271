"""`make bench-broker`: `silo broker` and its store beside RocketMQ's broker, in one run."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..rows import Plan
from ..run import bench_console, report
from .amounts import FULL, SHORT
from .rocketmq import RELEASE, Jvm
from .round import WORKS, measure
from .servers import SERVERS, Place
from .table import rows

if TYPE_CHECKING:
    from rich.console import Console

    from .amounts import Amounts
    from .table import Samples


def collect(
    plan: Plan, amounts: Amounts, works: list[str], home: Path, console: Console
) -> dict[str, Samples]:
    """The figures of all rounds, for each kind of server. `home` is where RocketMQ is."""
    jars = f"{home / RELEASE / 'lib'}/*"
    client = Jvm(f"{home / 'bench' / 'classes'}:{jars}", amounts.java)
    place = Place(plan.folder, Jvm(jars, amounts.java), plan.file_size)
    samples: dict[str, Samples] = {kind: {} for kind in SERVERS}
    for run in range(plan.runs):
        for kind, running in SERVERS.items():
            began = time.monotonic()
            with running(place) as server:
                found = measure(server, amounts, works, plan.folder / "client", client)
            for name, value in found.figures.items():
                samples[kind].setdefault(name, []).append(value)
            for note in found.notes:
                console.print(f"{kind}, {note}", style="yellow")
            took = time.monotonic() - began
            console.print(f"round {run + 1} of {plan.runs}, {kind}: {took:.0f} s", style="dim")
    return samples


@click.command()
@click.option("--part", "parts", multiple=True, type=click.Choice(list(WORKS)), help="only these")
@click.option("--runs", default=3, show_default=True, help="rounds: the median counts")
@click.option("--short", is_flag=True, help="a short form that only shows that everything runs")
@click.option("--folder", type=click.Path(path_type=Path), help="where to put stores (a real disk)")
@click.option(
    "--home",
    type=click.Path(path_type=Path),
    default=Path("build/interop"),
    show_default=True,
    help="where `make bench-broker` has put RocketMQ and the Java client",
)
@click.option("--output", type=click.Path(path_type=Path), default=Path("build/bench-broker.json"))
def main(
    *, parts: tuple[str, ...], runs: int, short: bool, folder: Path | None, home: Path, output: Path
) -> None:
    """Measures the broker beside RocketMQ's. Run it alone: it needs both cores."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if not (home / "bench" / "classes").is_dir():
        raise click.UsageError(f"no RocketMQ in {home}: run `make bench-broker` (JDK 17, Maven)")
    console = bench_console()
    works = [work for work in WORKS if not parts or work in parts]
    with tempfile.TemporaryDirectory(prefix="silomq-bench-", dir=folder or Path.cwd()) as inside:
        plan = Plan.of(Path(inside), runs, short=short)
        found = collect(plan, SHORT if short else FULL, works, home.resolve(), console)
    report(rows(found), plan, console, output)
