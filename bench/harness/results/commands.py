"""`silo bench report` and `silo bench compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from ....conf.printable import printable
from . import comparison, exports
from .figures import step_name
from .file import BadResult, load, write_whole
from .report import report as page_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .model import Result

_FILE = click.Path(path_type=Path, dir_okay=False)


class Unusable(click.ClickException):
    """A file that cannot be used."""

    exit_code = 1


def _load(path: Path) -> Result:
    try:
        return load(path)
    except BadResult as error:
        raise Unusable(str(error)) from None


def _write(path: Path, data: bytes) -> None:
    """Writes a file and says where."""
    write_whole(path, data)
    click.echo(printable(f"written to {path}"), err=True)


@click.command()
@click.argument("result", type=_FILE)
@click.option("-o", "--output", type=_FILE, metavar="FILE", help="[default: RESULT.html]")
@click.option(
    "--hgrm",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write HdrHistogram's tables and logs (.hgrm, .hlog) into a folder instead.",
)
@click.option(
    "--omb",
    type=_FILE,
    metavar="FILE",
    help="Write JSON with the keys of OpenMessaging Benchmark's results instead.",
)
@click.option(
    "--style",
    type=click.Choice(["html", "rocketmq"]),
    default="html",
    help="rocketmq: print a line for each run as RocketMQ's producer benchmark does instead.",
)
def report(
    result: Path, output: Path | None, hgrm: Path | None, omb: Path | None, style: str
) -> None:
    """Make a page of plots and tables from RESULT, a file of `silo bench run`.

    The page is one file, which needs no network.
    """
    found = _load(result)
    if style == "rocketmq":
        for line in exports.rocketmq_lines(found):
            click.echo(line)
    if hgrm is not None:
        hgrm.mkdir(parents=True, exist_ok=True)
        for name, data in exports.histogram_files(found):
            _write(hgrm / name, data)
    if omb is not None:
        for step, content in exports.openmessaging_files(found):
            place = omb.with_stem(f"{omb.stem}-{step}") if step else omb
            _write(place, msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
    if output is not None or (style == "html" and hgrm is None and omb is None):
        _write(output or result.with_suffix(".html"), page_of(found))


@click.command()
@click.argument("results", type=_FILE, nargs=-1, required=True, metavar="RESULT RESULT...")
@click.option("-o", "--output", type=_FILE, metavar="FILE", help="Write an HTML page too.")
def compare(results: tuple[Path, ...], output: Path | None) -> None:
    """Lay files of `silo bench run` side by side. Ratios are to the first."""
    if len(results) < 2:
        raise click.UsageError("give at least two results")
    found = [_load(one) for one in results]
    shown = comparison.names(found, [str(one) for one in results])
    for line in comparison.warnings(found, shown):
        click.echo(printable(f"warning: {line}"), err=True)
    _print(found, shown)
    if output is not None:
        _write(output, comparison.comparison(found, [str(one) for one in results]))


def _print(found: Sequence[Result], shown: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=printable(found[0].name), caption=comparison.NOISE)
    table.add_column("figure")
    for name in shown:
        table.add_column(Text(printable(name)), justify="right")
    last = None
    for row in comparison.rows(found):
        if row.step != last and row.step[0]:
            table.add_section()
            table.add_row(Text(printable(step_name(row.step)), style="bold"))
        last = row.step
        cells = [Text(printable(cell.said(), keep="\n")) for cell in row.cells]
        table.add_row(row.figure.title, *cells)
    for name, some in comparison.differing(found):
        table.add_row(Text(printable(name)), *(Text(printable(one)) for one in some))
    Console(highlight=False).print(table)
