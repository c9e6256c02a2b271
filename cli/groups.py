"""`silo groups`, `silo reset-offset`, `silo delete-group`: consumer groups of a running store."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..client.admin import Admin
from ..client.reader import StoreReader
from .common import json_option, put_json, say, store_option

if TYPE_CHECKING:
    from ..client.group_admin import GroupState

_GROUPS_EPILOG = """\b
Examples:
  silo groups
  silo groups readers
  silo groups readers --json | jq .lag
"""
_RESET_EPILOG = """\b
TO is `first`, `last`, a queue offset, or `@` with a time in epoch ms.

\b
Examples:
  silo reset-offset readers orders first
  silo reset-offset readers orders 1200 --queue 3
  silo reset-offset readers orders @1767225600000
"""


@click.command(epilog=_GROUPS_EPILOG, short_help="Show consumer groups: progress, lag, members.")
@click.argument("group", required=False)
@store_option
@json_option
def groups(group: str | None, store: Path, *, as_json: bool) -> None:
    """List the consumer groups, or show the progress of GROUP in each queue and its members.

    Columns are those of `mqadmin consumerProgress`: Broker Offset is the offset that the next
    message gets, Consumer Offset the group's next message, Diff what lies between.
    """
    with Admin(store) as admin:
        if group is not None:
            _show(admin.group(group), as_json=as_json)
            return
        states = [admin.group(found.name) for found in admin.groups()]
    if as_json:
        put_json([_summary(state) for state in states], indent=2)
        return
    rows = [(s.name, f"{len(s.members):,}", f"{len(s.queues):,}", f"{s.lag:,}") for s in states]
    _print("", ("Group", "Members", "Queues", "Diff"), rows, right=(1, 2, 3))


def _summary(state: GroupState) -> dict[str, Any]:
    return {
        "group": state.name,
        "members": len(state.members),
        "queues": len(state.queues),
        "lag": state.lag,
    }


def _show(state: GroupState, *, as_json: bool) -> None:
    if as_json:
        queues = [{**dataclasses.asdict(queue), "lag": queue.lag} for queue in state.queues]
        members = [dataclasses.asdict(member) for member in state.members]
        put_json({**_summary(state), "queues": queues, "members": members}, indent=2)
        return
    _print(
        f"Group {state.name}",
        ("Topic", "QID", "Broker Offset", "Consumer Offset", "Diff", "Member"),
        [
            (q.topic, str(q.queue_id), f"{q.end:,}", f"{q.offset:,}", f"{q.lag:,}", _who(q.member))
            for q in state.queues
        ],
        right=(1, 2, 3, 4),
    )
    print()
    _print(
        "Members",
        ("Member", "Model", "Instance", "Queues"),
        [(_who(m.session), m.model, m.instance or "-", str(m.queues)) for m in state.members],
        right=(3,),
    )
    print(f"\nDiff total: {state.lag:,}")


def _who(session: int) -> str:
    return f"{session:x}" if session else "-"


def _print(
    title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, right: tuple[int, ...]
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    for i, name in enumerate(columns):
        table.add_column(name, justify="right" if i in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)


@click.command("reset-offset", epilog=_RESET_EPILOG, short_help="Put a group elsewhere in a topic.")
@click.argument("group")
@click.argument("topic")
@click.argument("to")
@click.option("--queue", type=click.IntRange(min=0), help="Only this queue; else all of them.")
@store_option
@json_option
def reset_offset(
    group: str, topic: str, to: str, queue: int | None, store: Path, *, as_json: bool
) -> None:
    """Put the consumer group GROUP at another place of TOPIC.

    Its members, if there are any, give the queues back first and then go on from there. Messages
    that they have in hand may still be consumed.
    """
    with Admin(store) as admin, StoreReader(store) as reader:
        found = next((t for t in admin.topics() if t.topic == topic), None)
        if found is None:
            raise click.UsageError(f"topic {topic} does not exist")
        queues = range(found.read_queues) if queue is None else (queue,)
        offsets = {number: _place(reader, topic, number, to) for number in queues}
        admin.reset_offset(group, topic, offsets)
    if as_json:
        put_json({"group": group, "topic": topic, "offsets": offsets})
    else:
        for number, offset in offsets.items():
            say(f"{group} goes on at offset {offset} of queue {number} of {topic}")


def _place(reader: StoreReader, topic: str, queue: int, to: str) -> int:
    if to == "first":
        return reader.min_offset(topic, queue)
    if to == "last":
        return reader.max_offset(topic, queue)
    number = to.removeprefix("@")
    if not (number.isascii() and number.isdigit()):
        raise click.UsageError(f"{to!r}: give `first`, `last`, a queue offset, or @ and epoch ms")
    if to != number:
        return reader.offset_at_time(topic, queue, int(number))
    return int(number)


@click.command("delete-group", short_help="Forget a consumer group that has no members.")
@click.argument("group")
@store_option
def delete_group(group: str, store: Path) -> None:
    """Forget the consumer group GROUP: where it is in each queue, and how it consumes."""
    with Admin(store) as admin:
        admin.delete_group(group)
    say(f"group {group} is gone")
