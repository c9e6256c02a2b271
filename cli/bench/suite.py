"""`silo bench suite`: interleaved runs of several targets, and the bars."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..shared.common import output, say
from ..shared.outcome import Exit, Failure
from .needs import check_libraries, folder_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...bench.harness.suite.interleaved import Done
    from ...bench.harness.suite.suite import Suite
    from ...bench.harness.suite.verdicts import Line

_EPILOG = """\b
Examples:
  silo bench suite bars --results results
  silo bench suite bars --results results --part sync --part topics
  silo bench suite bars --results results --stop-after 200s
  silo bench suite bars --results results --show
  silo bench suite my-suite.toml --results results --targets silomq,kafka --runs 3
"""


def _names(_context: click.Context, _option: click.Parameter, given: str) -> list[str]:
    return [one for one in given.split(",") if one]


@click.command(epilog=_EPILOG)
@click.argument("suite")
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="Where results are kept: one file for each part and target. Runs that are there stay.",
)
@click.option("--part", "parts", multiple=True, metavar="NAME", help="Only this part. Repeatable.")
@click.option("--targets", default="", callback=_names, metavar="A,B", help="Only these targets.")
@click.option("--runs", type=click.IntRange(1, 1000), metavar="N", help="Rounds of each part.")
@click.option(
    "--stop-after", metavar="TIME", help="Begin no run after this time, as 200s or 10min."
)
@click.option("--show", is_flag=True, help="Measure nothing: show the bars of what is kept.")
@folder_option
def suite(
    suite: str,
    *,
    results: Path,
    parts: tuple[str, ...],
    targets: list[str],
    runs: int | None,
    stop_after: str | None,
    show: bool,
    folder: Path,
) -> int:
    """Run SUITE, a TOML file or the name of one that is shipped.

    Each round of a part runs all its targets in turn. Ctrl-C or --stop-after end a call; the same
    command goes on where it was. The status is 0 when everything is measured, and 1 when something
    is left or could not be measured.
    """
    check_libraries()
    from ...bench.harness.results.file import BadResult
    from ...bench.harness.suite import verdicts
    from ...bench.harness.suite.kept import kept
    from ...bench.harness.suite.suite import narrowed, read
    from ...bench.harness.workload.load import BadWorkload
    from ...bench.harness.workload.values import Seconds, convert

    try:
        chosen = narrowed(read(suite), [*parts], targets, runs)
        seconds = None if stop_after is None else float(convert(Seconds, stop_after))
        done = None if show else _measure(chosen, results, folder, seconds)
        found = verdicts.lines(chosen, lambda part, target: kept(results, part, target))
    except BadResult as error:
        raise Failure(Exit.FAILED, str(error)) from None
    except (BadWorkload, ValueError) as error:
        raise click.UsageError(str(error)) from None
    _print(found)
    if done is None:
        return Exit.OK
    for one in done.troubles:
        say(f"not measured: {one}")
    if done.left:
        say(f"{done.left} runs are left: the same command goes on")
    return Exit.FAILED if done.left or done.troubles else Exit.OK


def _measure(suite: Suite, results: Path, folder: Path, stop_after: float | None) -> Done:
    from ...bench.harness.run.live import Interrupted, Live
    from ...bench.harness.suite.interleaved import Interleaved, TimeIsUp

    results.mkdir(parents=True, exist_ok=True)
    with Live() as live:
        work = Interleaved(suite, results, folder, live)
        try:
            return work.run(stop_after)
        except (Interrupted, TimeIsUp):
            return work.done


def _print(found: Sequence[Line]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not found:
        return
    shown = Table(
        title="Medians of the runs (least to greatest), ratios and their intervals of 95 %"
    )
    for name, side in (
        ("bar", "left"), ("measured", "right"), ("beside", "left"), ("its figure", "right"),
        ("ratio", "right"), ("wanted", "right"), ("", "left"),
    ):  # fmt: skip
        shown.add_column(name, justify=side)  # type: ignore[arg-type]
    last = ""
    for one in found:
        title, last = ("" if one.title == last else one.title), one.title
        style = "green" if one.is_met else "red" if one.verdict.startswith("MISSED") else "dim"
        verdict = Text(one.verdict, style=style)
        if one.notes:
            verdict.append(f"; {one.notes}", style="dim")
        cells = (title, one.ours, one.beside, one.theirs, one.ratio, one.bar)
        shown.add_row(*(Text(cell) for cell in cells), verdict)
    output().print(shown)
