"""`silo top`: a running store, live."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..shared.common import json_option, output, put_json, store_option
from ..shared.outcome import Exit
from ..shared.tables import duration, plain_table
from ..shared.times import Seconds

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_EPILOG = """\b
Examples:
  silo top
  silo top --once
  silo top --json --once | jq .behind.flush
"""
_SETTLE_S: Final = 0.5
_WIDE: Final = 120
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


@click.command(epilog=_EPILOG, short_help="Show a running store live.")
@store_option
@click.option(
    "--interval",
    type=Seconds(min=0.2, max=86_400),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two looks.",
)
@click.option(
    "--most-groups",
    type=click.IntRange(0, 10_000),
    default=10,
    show_default=True,
    help="Consumer groups to show, those with the largest lags first.",
)
@click.option(
    "--once", is_flag=True, help="Look once. That is so too if the output is no terminal."
)
@json_option
def top(store: Path, interval: float, most_groups: int, *, once: bool, as_json: bool) -> int:
    """Show rates, latencies, lags, processes, groups and the disk of a running store, until Ctrl-C.

    Rates are those of the last 5 seconds. The store may stop and come again meanwhile. With --json
    and without --once each look is one line.
    """
    from ...monitor.looks import Looks, settled

    if once or not (as_json or sys.stdout.isatty()):
        with Looks(str(store), most_groups) as looks:
            found = settled(looks, _SETTLE_S)
        if as_json:
            put_json(found, indent=2)
        else:
            console = output()
            for part in _parts(found, _WIDE):
                console.print(part, soft_wrap=isinstance(part, str))
        return Exit.OK
    try:
        if as_json:
            with Looks(str(store), most_groups) as looks:
                while True:
                    put_json(looks.look())
                    sys.stdout.buffer.flush()
                    time.sleep(interval)
        _live(store, interval, most_groups)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return Exit.OK


def _live(store: Path, interval: float, most_groups: int) -> None:
    """Shows the store on the whole screen, until an exception ends it."""
    from rich.console import Group
    from rich.live import Live

    from ...monitor.looks import NOT_THERE, Looks

    console = output()
    looks: Looks | None = None
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                looks = looks or Looks(str(store), most_groups)
                shown: RenderableType = Group(*_parts(looks.look(), console.width))
            except NOT_THERE as error:
                if looks is not None:
                    looks.close()
                    looks = None
                shown = f"{error}\n\nWaiting for the store. Ctrl-C ends this."
            live.update(shown, refresh=True)
            time.sleep(interval)


def _parts(found: dict[str, Any], width: int) -> list[RenderableType]:
    """What is shown, from top to bottom; side by side if there is room."""
    from rich.table import Table as Grid

    up = duration(time.time() - found["started_ms"] / 1000)
    counts = found["counts"]
    head = f"{found['store']}: {found['state']}, up {up}; " + ", ".join(
        f"{value:,} {name.replace('_', ' ')}" for name, value in counts.items()
    )
    tables = [_rates(found), _log(found), _processes(found), _groups(found)]
    parts: list[RenderableType] = [head]
    if width < _WIDE:
        for table in tables:
            parts += ["", table]
    else:
        for pair in (tables[:2], tables[2:]):
            grid = Grid.grid(padding=(0, 4))
            grid.add_row(*pair)
            parts += ["", grid]
    return [*parts, "", _disk(found["disk"])]


def _rates(found: dict[str, Any]) -> Table:
    table = plain_table("Rates", "what", "a second", right=(1,))
    for name, value in found["rates"].items():
        shown = _size(value) if name.endswith("bytes") else f"{value:,.1f}"
        table.add_row(name.replace("_", " "), shown)
    for name, value in found["latencies_ms"].items():
        what, share = name.split("_")
        table.add_row(f"{what} time, {share} %", "-" if value is None else f"{value:,.3f} ms")
    return table


def _log(found: dict[str, Any]) -> Table:
    table = plain_table(
        "Commit log", "position", "offset", "behind", "messages", "oldest", right=(1, 2, 3, 4)
    )
    steps = {"flushed": "flush", "dispatched": "dispatch"}
    for name, offset in found["positions"].items():
        behind = found["behind"].get(steps.get(name, ""))
        lags = ("", "", "")
        if behind is not None:
            age = f"{behind['seconds']:.1f} s"
            lags = (_size(behind["bytes"]), f"{behind['messages']:,}", age)
        table.add_row(name, f"{offset:,}", *lags)
    return table


def _processes(found: dict[str, Any]) -> Table:
    table = plain_table(
        "Processes", "process", "pid", "starts", "state", "CPU", "memory", right=(1, 2, 4, 5)
    )
    for one in found["processes"]:
        cpu, memory = one["cpu_percent"], one["memory_bytes"]
        table.add_row(
            one["process"],
            str(one["pid"] or "-"),
            str(one["starts"]),
            one["state"].lower(),
            "-" if cpu is None else f"{cpu:.0f} %",
            "-" if memory is None else _size(memory),
        )
    return table


def _groups(found: dict[str, Any]) -> Table:
    title = f"Groups ({len(found['groups'])} of {found['group_count']})"
    table = plain_table(title, "group", "members", "lag", "leased", right=(1, 2, 3))
    for one in found["groups"]:
        numbers = (f"{one[name]:,}" for name in ("members", "lag", "leased"))
        table.add_row(one["group"], *numbers)
    return table


def _disk(disk: dict[str, Any]) -> str:
    grows = disk["log_bytes_a_second"]
    full = disk["full_in_s"]
    text = f"Disk: {_size(disk['free_bytes'])} of {_size(disk['total_bytes'])} free"
    if full is None:
        return f"{text}; the log does not grow"
    return f"{text}; the log grows by {_size(grows)} a second (last hour): full in {duration(full)}"


def _size(count: float) -> str:
    """Bytes for people: 1.5 MiB."""
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    raise AssertionError
