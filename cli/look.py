"""`silo status` and `silo topics`: what a running store holds and does."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..client.admin import Admin, TopicInfo
from ..store.names import validate_topic
from .common import json_option, put_json, say, store_option

if TYPE_CHECKING:
    from rich.table import Table

_STATUS_EPILOG = """\b
Examples:
  silo status
  silo status --json | jq .processes.append.pid
"""
_TOPICS_EPILOG = """\b
Examples:
  silo topics
  silo topics create orders --queues 8
"""
_READ, _WRITE = 4, 2


@click.command(epilog=_STATUS_EPILOG, short_help="Show positions, processes, start-up.")
@store_option
@json_option
def status(store: Path, *, as_json: bool) -> None:
    """Show positions, processes and the last start-up of a running store."""
    with Admin(store) as admin:
        found = admin.status()
    if as_json:
        put_json(found, indent=2)
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    up_s = time.time() - found["started_ms"] / 1000
    console.print(
        f"{found['store']}: {found['state']}, {found['flush_disk_type']}, up {duration(up_s)}",
        soft_wrap=True,
    )
    for table in (
        _positions(found),
        _counts(found),
        _disk(found),
        _processes(found),
        _start_up(found),
    ):
        console.print()
        console.print(table)
    for field, what in (
        ("flush_error", "a sync of the commit log failed and the store takes no more messages"),
        ("allocate_error", "the next commit-log file cannot be made"),
    ):
        if found[field]:
            say(f"silo: {what}: {os.strerror(found[field])}")
    if found["disk"]["flags"]:
        say("silo: the disk is too full: the store takes no messages until there is space")


def _table(title: str, *columns: str, right: tuple[int, ...] = ()) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.show_edge = False
    for i, name in enumerate(columns):
        table.add_column(name, justify="right" if i in right else "left", overflow="fold")
    return table


def _positions(found: dict[str, Any]) -> Table:
    table = _table("Commit log (bytes)", "position", "offset", "behind", right=(1, 2))
    behind = {
        "flushed": found["flush_behind_bytes"],
        "dispatched": found["dispatch_behind_bytes"],
    }
    for name in ("min_offset", "dispatched", "flushed", "wrote", "ready"):
        lag = f"{behind[name]:,}" if name in behind else ""
        table.add_row(name, f"{found[name]:,}", lag)
    return table


def _counts(found: dict[str, Any]) -> Table:
    table = _table("Since the start", "count", "value", right=(1,))
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


def _disk(found: dict[str, Any]) -> Table:
    table = _table("Disk", "what", "value", right=(1,))
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
    table = _table("Processes", "process", "pid", "starts", "state", "up", right=(1, 2, 4))
    now = time.time()
    for name, process in found["processes"].items():
        up = duration(now - process["started_ms"] / 1000) if process["pid"] else "-"
        row = (str(process["pid"] or "-"), str(process["starts"]), process["state"].lower(), up)
        table.add_row(name, *row)
    return table


def _start_up(found: dict[str, Any]) -> Table:
    table = _table("Start-up", "what", "value", right=(1,))
    for name, value in found["start_up"].items():
        if isinstance(value, bool):
            shown = "yes" if value else "no"
        elif isinstance(value, list):
            shown = "; ".join(map(str, value)) or "-"
        else:
            shown = f"{value:,}" if isinstance(value, int) else str(value)
        table.add_row(name.replace("_", " "), shown)
    return table


def duration(seconds: float) -> str:
    """A length of time for people: 42 s, 3 min, 5 h, 2 d."""
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{max(0, seconds) / divisor:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


@click.group(invoke_without_command=True, epilog=_TOPICS_EPILOG)
@store_option
@json_option
@click.pass_context
def topics(context: click.Context, store: Path, *, as_json: bool) -> None:
    """List topics, or create one."""
    if context.invoked_subcommand is None:
        _print_topics(store, as_json=as_json)
    else:
        # Options may stand before the subcommand or behind it.
        context.default_map = {
            name: {"store": store, "as_json": as_json} for name in ("list", "create")
        }


@topics.command("list")
@store_option
@json_option
def list_topics(store: Path, *, as_json: bool) -> None:
    """List topics: their queues, and the messages they hold."""
    _print_topics(store, as_json=as_json)


@topics.command(epilog="Example: silo topics create orders --queues 8")
@click.argument("name")
@click.option(
    "--queues",
    type=click.IntRange(min=0),
    default=0,
    help="Number of queues; 0 is the store's default_topic_queue_nums.  [default: 0]",
)
@store_option
@json_option
def create(name: str, queues: int, store: Path, *, as_json: bool) -> None:
    """Create the topic NAME. Nothing happens if it exists with that number of queues."""
    validate_topic(name)
    with Admin(store) as admin:
        admin.create_topic(name, queues)
        made = next(topic for topic in admin.topics() if topic.topic == name)
    if as_json:
        put_json(dataclasses.asdict(made))
    else:
        say(f"topic {name} has {made.write_queues} queues")


def _print_topics(store: Path, *, as_json: bool) -> None:
    with Admin(store) as admin:
        found = admin.topics()
    if as_json:
        put_json([dataclasses.asdict(topic) for topic in found], indent=2)
        return
    from rich.console import Console

    table = _table("", "topic", "queues", "may", "messages", right=(1, 3))
    table.title = None
    for topic in found:
        table.add_row(topic.topic, _queues(topic), _may(topic.perm), f"{topic.messages:,}")
    Console(highlight=False, markup=False).print(table)


def _queues(topic: TopicInfo) -> str:
    if topic.read_queues == topic.write_queues:
        return str(topic.write_queues)
    return f"{topic.write_queues} write, {topic.read_queues} read"


def _may(perm: int) -> str:
    allowed = [word for bit, word in ((_READ, "read"), (_WRITE, "write")) if perm & bit]
    return ", ".join(allowed) or "nothing"
