"""`silo bench`: the load-test harness (bench/harness)."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..shared.common import json_option, output, put_json, put_line, say, set_option
from ..shared.outcome import Exit, Failure
from .needs import check_libraries, folder_option
from .suite import suite

if TYPE_CHECKING:
    from ...bench.harness.results.model import Result, Run

_EPILOG = """\b
Examples:
  silo bench list
  silo bench run smoke
  silo bench run latency-under-load --runs 3 --set producers.size=1024 --output result.json
  silo bench run max-throughput --target silomq-broker
  silo bench run my-workload.toml --target remoting --set address=127.0.0.1:9876
  silo bench suite bars --results results --part one-producer-128
  silo bench report result.json
  silo bench compare before.json after.json
"""


class _Group(click.Group):
    """Loads the commands that read results when they are asked for: `silo` starts without them."""

    _OF_RESULTS = ("compare", "report")

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self._OF_RESULTS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._OF_RESULTS:
            return super().get_command(ctx, cmd_name)
        check_libraries()
        from ...bench.harness.results.commands import compare, report

        return report if cmd_name == "report" else compare


@click.group(cls=_Group, epilog=_EPILOG)
def bench() -> None:
    """Measure a store, a broker, or a peer under load.

    A workload is a TOML file, or the name of one that is shipped. Run it on a machine that does
    nothing else. What is needed beside SiloMQ: pip install 'silomq[bench]'.
    """


bench.add_command(suite)


@bench.command()
@click.argument("workload")
@click.option("--target", metavar="NAME", help="What is measured (silo bench list).")
@click.option("--runs", type=click.IntRange(1, 1000), metavar="N", help="Runs of each step.")
@set_option("Change one key of the workload, as producers.rate=1000")
@click.option(
    "--output",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where the result is written.  [default: bench-WORKLOAD-TIME.json]",
)
@folder_option
def run(
    workload: str,
    *,
    target: str | None,
    runs: int | None,
    overrides: tuple[str, ...],
    file: Path | None,
    folder: Path,
) -> int:
    """Run WORKLOAD and write what was measured as JSON.

    Ctrl-C ends it; what was measured until then is written all the same.
    """
    check_libraries()
    from ...bench.harness.results.file import readable, write_whole
    from ...bench.harness.run.crew import WorkerFailed
    from ...bench.harness.run.live import Live
    from ...bench.harness.run.session import NotMeasured, run_all
    from ...bench.harness.targets.processes import ServerFailed
    from ...bench.harness.workload.load import BadWorkload, load

    changes = [*overrides]
    changes += [f"target={target}"] if target else []
    changes += [f"runs={runs}"] if runs else []
    try:
        plan = load(workload, changes)
        place = file or _default_file(plan.name)
        if not place.absolute().parent.is_dir():
            raise click.BadParameter(f"{place.parent} is no folder", param_hint="--output")
        with Live() as live:
            result = run_all(plan, folder, live)
    except BadWorkload as error:
        raise click.UsageError(str(error)) from None
    except (WorkerFailed, ServerFailed, NotMeasured) as error:
        raise Failure(Exit.FAILED, str(error)) from None
    write_whole(place, readable(result))
    _show(result)
    say(f"written to {place}")
    return Exit.INTERRUPTED if result.interrupted else Exit.OK


def _default_file(name: str) -> Path:
    now = dt.datetime.now(dt.UTC)
    return Path(f"bench-{name}-{now:%Y%m%d-%H%M%S}.json")


def _show(result: Result) -> None:
    from rich.table import Table

    from ...bench.harness.results.drift import trends

    title = f"{result.name}: {result.server.title} {result.server.version}"
    shown = Table(title=title + (" (ended before its time)" if result.interrupted else ""))
    names = ("run", "sent/s", "read/s", "publish p50/p99/p99.9/max us", "end to end p50/p99 us")
    for name in (*names, "errors", "lost/doubled"):
        shown.add_column(name, justify="right")
    for one in result.runs:
        step = f"{one.label}={one.value:g} " if one.label else ""
        shown.add_row(
            f"{step}{one.number}",
            f"{one.publish_rate:,.0f}",
            f"{one.consume_rate:,.0f}",
            _figures(one, "publish", "50", "99", "99.9", "100"),
            _figures(one, "end_to_end", "50", "99"),
            f"{one.errors:,}",
            "" if one.lost is None else f"{one.lost}/{one.doubled}",
        )
    output().print(shown)
    for one in result.runs:
        for trend in trends(one):
            put_line(f"run {one.number}: {trend.title}: {', '.join(trend.said())}")
        if one.first_error:
            say(f"run {one.number}: the first of {one.errors} errors: {one.first_error}")


def _figures(run: Run, kind: str, *names: str) -> str:
    found = run.latency.get(kind)
    return "" if found is None else "/".join(f"{found.percentiles[name]:,.0f}" for name in names)


@bench.command("list")
@json_option
def list_all(*, as_json: bool) -> None:
    """List the workloads and suites that are shipped, and the targets."""
    from ...bench.harness.run.catalog import targets
    from ...bench.harness.suite import suite as suites
    from ...bench.harness.workload.shipped import descriptions

    known = descriptions()
    several = {name: suites.read(name).description for name in suites.names()}
    missing = {name: one.missing() for name, one in targets().items()}
    if as_json:
        put_json({"workloads": known, "suites": several, "targets": missing}, indent=2)
        return
    put_line("Workloads:")
    for name, text in known.items():
        put_line(f"  {name:<27} {text}")
    put_line("Suites:")
    for name, text in several.items():
        put_line(f"  {name:<27} {text}")
    put_line("Targets:")
    for name, text in missing.items():
        put_line(f"  {name:<27} {text or 'can be measured here'}")


@bench.command()
@folder_option
@json_option
def limits(folder: Path, *, as_json: bool) -> None:
    """Measure what this machine can do: copying, syncing, waking, loopback, new pages, disk."""
    import statistics

    import msgspec

    from ...bench.harness.run.limits import measure

    found = measure(folder)
    if as_json:
        put_json(msgspec.to_builtins(found), indent=2)
        return
    width = max(len(one.name) for one in found)
    for one in found:
        least, most = min(one.samples), max(one.samples)
        middle = statistics.median(one.samples)
        put_line(f"{one.name:<{width}} {middle:>18,.1f} {one.unit:<8} ({least:,.1f} - {most:,.1f})")
