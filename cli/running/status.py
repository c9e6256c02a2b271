"""`silo status`: the state of a running store."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...client.admin.admin import Admin
from ..shared.common import json_option, output, put_json, say, store_option
from ..shared.outcome import Exit
from ..shared.tables import duration, plain_table
from ..shared.times import Seconds
from .broker_tables import broker_parts, broker_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType
    from rich.table import Table

_STATUS_EPILOG = """\b
Examples:
  silo status
  silo status --json | jq .processes.append.pid
  silo status --watch
"""


@click.command(epilog=_STATUS_EPILOG, short_help="Show positions, processes, start-up, brokers.")
@store_option
@click.option("--watch", is_flag=True, help="Show it again and again, with rates, until Ctrl-C.")
@click.option(
    "--interval",
    type=Seconds(min=0.1, max=86_400),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two looks of --watch.",
)
@json_option
def status(store: Path, *, watch: bool, interval: float, as_json: bool) -> int:
    """Show positions, processes, the last start-up and the brokers of a running store.

    With --watch and --json each look is one line.
    """
    with Admin(store) as admin:
        if not watch:
            found = admin.status()
            if as_json:
                put_json(found, indent=2)
            else:
                _print(found)
            return Exit.OK
        try:
            _watch(admin, interval, as_json=as_json)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
    return Exit.OK


def _print(found: dict[str, Any]) -> None:
    console = output()
    for part in _parts(found):
        console.print(part, soft_wrap=isinstance(part, str))
    for sentence in _warnings(found):
        say(f"silo: {sentence}")


def _watch(admin: Admin, interval_s: float, *, as_json: bool) -> None:
    """Shows the status again and again, until an exception ends it."""
    from rich.console import Group
    from rich.live import Live

    console = output()
    before: tuple[float, dict[str, Any]] | None = None
    on_screen = sys.stdout.isatty() and not as_json
    live = Live(console=console, screen=True, auto_refresh=False)
    with live if on_screen else contextlib.nullcontext():
        while True:
            now, found = time.monotonic(), admin.status()
            rates = _rates(found, before[1], now - before[0]) if before else {}
            before = now, found
            if as_json:
                put_json({**found, "rates": rates})
                sys.stdout.buffer.flush()
            elif on_screen:
                live.update(Group(*_parts(found, rates), *_warnings(found)), refresh=True)
            else:
                for part in (*_parts(found, rates), *_warnings(found), ""):
                    console.print(part, soft_wrap=isinstance(part, str))
            time.sleep(interval_s)


def _rates(found: dict[str, Any], before: dict[str, Any], seconds: float) -> dict[str, float]:
    """How fast the store works: messages, bytes and syncs a second."""
    return {
        name: round((found[word] - before[word]) / seconds, 1)
        for name, word in (
            ("messages_per_second", "records"),
            ("bytes_per_second", "wrote"),
            ("dispatched_per_second", "dispatch_count"),
            ("syncs_per_second", "flushes"),
        )
    }


def _parts(
    found: dict[str, Any], rates: dict[str, float] | None = None
) -> Iterator[RenderableType]:
    """What is shown, from top to bottom, with empty lines in between."""
    up_s = time.time() - found["started_ms"] / 1000
    yield f"{found['store']}: {found['state']}, {found['flush_disk_type']}, up {duration(up_s)}"
    positions, counts, disk = _positions(found), _counts(found), _disk(found)
    tables = (positions, counts, _puts(found), _statistics(found), disk, _processes(found))
    brokers = broker_parts(found["brokers"])
    for table in (
        *([_speeds(rates)] if rates else ()),
        *tables,
        _users(found),
        _start_up(found),
        *brokers,
    ):
        yield ""
        yield table


def _speeds(rates: dict[str, float]) -> Table:
    table = plain_table("Now", "what", "a second", right=(1,))
    for name, rate in rates.items():
        table.add_row(name.removesuffix("_per_second"), f"{rate:,.1f}")
    return table


def _warnings(found: dict[str, Any]) -> Iterator[str]:
    """What an operator must see, in sentences."""
    for field, what in (
        ("flush_error", "a sync of the commit log failed and the store takes no more messages"),
        ("allocate_error", "the next commit-log file cannot be made"),
    ):
        if found[field]:
            yield f"{what}: {os.strerror(found[field])}"
    if found["failed"]:
        names = ", ".join(found["failed"])
        yield f"a file is missing or damaged, and {names} cannot go on: the store's log names it"
    if found["disk"]["flags"]:
        yield "the disk is too full: the store takes no messages until there is space"
    yield from broker_warnings(found["brokers"])


def _positions(found: dict[str, Any]) -> Table:
    table = plain_table("Commit log (bytes)", "position", "offset", "behind", right=(1, 2))
    behind = {
        "flushed": found["flush_behind_bytes"],
        "dispatched": found["dispatch_behind_bytes"],
    }
    for name in ("min_offset", "dispatched", "flushed", "wrote", "ready"):
        lag = f"{behind[name]:,}" if name in behind else ""
        table.add_row(name, f"{found[name]:,}", lag)
    return table


def _counts(found: dict[str, Any]) -> Table:
    table = plain_table("Since the start", "count", "value", right=(1,))
    for name, label in (
        ("records", "messages appended"),
        ("rejected", "messages refused"),
        ("dispatch_count", "queue entries written"),
        ("flushes", "syncs of the commit log"),
        ("topics", "topics"),
        ("sessions", "sessions"),
        ("locked_bytes", "bytes locked in memory"),
    ):
        table.add_row(label, f"{found[name]:,}")
    return table


def _users(found: dict[str, Any]) -> Table:
    """What each user of the machine has in the store."""
    columns = ("uid", "sessions", "rings, bytes", "in flight, bytes", "topics made", "groups made")
    table = plain_table("Users", *columns, right=(1, 2, 3, 4, 5))
    for user in found["users"]:
        numbers = ("sessions", "ring_bytes", "in_flight_bytes", "topics", "groups")
        table.add_row(str(user["uid"]), *(f"{user[name]:,}" for name in numbers))
    return table


def _puts(found: dict[str, Any]) -> Table:
    """RocketMQ's distribution of put times."""
    table = plain_table("Put times since the start", "range", "puts", right=(1,))
    for name, count in found["statistics"]["put_distribution"].items():
        table.add_row(name, f"{count:,}")
    return table


def _statistics(found: dict[str, Any]) -> Table:
    """The rest of RocketMQ's StoreStatsService."""
    numbers = found["statistics"]
    table = plain_table(
        "Statistics", "what", "value", "10 s", "1 min", "10 min", right=(1, 2, 3, 4)
    )
    for name, label in (
        ("put_messages", "messages put, a second"),
        ("get_found", "reads that found messages, a second"),
        ("get_missed", "reads that found none, a second"),
        ("get_messages", "messages read locally, a second"),
    ):
        rates = numbers["put_rates" if name == "put_messages" else f"{name}_rates"]
        table.add_row(label, f"{numbers[name]:,}", *(f"{rate:,.1f}" for rate in rates))
    for name, label in (
        ("put_average_bytes", "average record, bytes"),
        ("put_ms_99", "99 of 100 puts took at most, ms"),
        ("put_ms_999", "999 of 1,000 puts, ms"),
        ("put_ms_longest", "longest put, ms"),
        ("sync_ms_99", "99 of 100 syncs, ms"),
        ("flush_behind_messages", "messages not flushed"),
        ("flush_behind_seconds", "oldest message not flushed, s"),
        ("dispatch_behind_messages", "messages not dispatched"),
        ("dispatch_behind_seconds", "oldest message not dispatched, s"),
        ("file_rolls", "log files entered"),
        ("rings", "producers' rings"),
        ("group_members", "members of groups"),
        ("delayed_waiting", "delayed messages that wait"),
        ("open_transactions", "open transactions"),
    ):
        table.add_row(label, f"{numbers[name]:,}", "", "", "")
    return table


def _disk(found: dict[str, Any]) -> Table:
    table = plain_table("Disk", "what", "value", right=(1,))
    for name, label in (("log_used_percent", "commit log"), ("queue_used_percent", "queues")):
        used = found["disk"][name]
        table.add_row(f"disk of the {label}, used", "-" if used is None else f"{used} %")
    table.add_row("flags", ", ".join(found["disk"]["flags"]) or "-")
    last = found["cleaned_ms"] / 1000
    table.add_row("last removal", f"{duration(time.time() - last)} ago" if last else "-")
    table.add_row("commit-log files removed", f"{found['files_removed']:,}")
    table.add_row("runs left of `silo clean`", str(found["manual_runs"]))
    return table


def _processes(found: dict[str, Any]) -> Table:
    table = plain_table("Processes", "process", "pid", "starts", "state", "up", right=(1, 2, 4))
    now = time.time()
    for name, process in found["processes"].items():
        up = duration(now - process["started_ms"] / 1000) if process["pid"] else "-"
        row = (str(process["pid"] or "-"), str(process["starts"]), process["state"].lower(), up)
        table.add_row(name, *row)
    return table


def _start_up(found: dict[str, Any]) -> Table:
    table = plain_table("Start-up", "what", "value", right=(1,))
    for name, value in found["start_up"].items():
        if isinstance(value, bool):
            shown = "yes" if value else "no"
        elif isinstance(value, list):
            shown = "; ".join(map(str, value)) or "-"
        else:
            shown = f"{value:,}" if isinstance(value, int) else str(value)
        table.add_row(name.replace("_", " "), shown)
    return table
