"""`silo groups`, `silo reset-offset`, `silo delete-group`: consumer groups of a running store."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...client.admin.admin import Admin
from ...client.lookup.store_reader import StoreReader
from ..shared.common import json_option, output, put_json, put_line, say, store_option
from ..shared.completion import group_names, topic_names
from ..shared.tables import plain_table
from .tail_places import Place, offset_of, parse_place

if TYPE_CHECKING:
    from rich.table import Table

    from ...client.admin.group_admin import GroupState

_GROUPS_EPILOG = """\b
Examples:
  silo groups
  silo groups readers
  silo groups readers --json | jq .lag
"""
_RESET_EPILOG = """\b
TO is `earliest`, `latest`, a queue offset, or `@` with a time: milliseconds since 1970, a date and
time (local, or with a zone), or a length of time ago.

\b
Examples:
  silo reset-offset readers orders earliest
  silo reset-offset readers orders 1200 --queue 3
  silo reset-offset readers orders @1767225600000
  silo reset-offset readers orders '@2026-11-21 09:15'
  silo reset-offset readers orders @2h
"""


@click.command(epilog=_GROUPS_EPILOG, short_help="Show consumer groups: progress, lag, members.")
@click.argument("group", required=False, shell_complete=group_names)
@store_option
@json_option
def groups(group: str | None, store: Path, *, as_json: bool) -> None:
    """List the consumer groups, or show the progress of GROUP in each queue and its members.

    Columns are those of `mqadmin consumerProgress`: Broker Offset is the offset that the next
    message gets, Consumer Offset the group's next message, Diff the number of messages between.
    """
    with Admin(store) as admin:
        if group is not None:
            _show(admin.group(group), as_json=as_json)
            return
        states = [admin.group(found.name) for found in admin.groups()]
    if as_json:
        put_json([_summary(state) for state in states], indent=2)
        return
    table = plain_table("", "Group", "Members", "Queues", "Diff", right=(1, 2, 3))
    for s in states:
        table.add_row(s.name, f"{len(s.members):,}", f"{len(s.queues):,}", f"{s.lag:,}")
    _print(table)


def _summary(state: GroupState) -> dict[str, Any]:
    return {
        "group": state.name,
        "members": len(state.members),
        "queues": len(state.queues),
        "lag": state.lag,
        "leased": state.leased,
        "oldest_lease_ms": state.oldest_lease_ms,
    }


def _show(state: GroupState, *, as_json: bool) -> None:
    if as_json:
        queues = [{**dataclasses.asdict(queue), "lag": queue.lag} for queue in state.queues]
        members = [dataclasses.asdict(member) for member in state.members]
        put_json({**_summary(state), "queues": queues, "members": members}, indent=2)
        return
    columns = ("Topic", "QID", "Broker Offset", "Consumer Offset", "Diff", "Member")
    table = plain_table(f"Group {state.name}", *columns, right=(1, 2, 3, 4))
    for q in state.queues:
        numbers = (f"{number:,}" for number in (q.end, q.offset, q.lag))
        table.add_row(q.topic, str(q.queue_id), *numbers, _who(q.member))
    _print(table)
    put_line("")
    table = plain_table("Members", "Member", "Model", "Instance", "Queues", right=(3,))
    for m in state.members:
        table.add_row(_who(m.session), m.model, m.instance or "-", str(m.queues))
    _print(table)
    put_line("")
    put_line(f"Diff total: {state.lag:,}")
    if state.leased:
        age_s = max(0.0, time.time() - state.oldest_lease_ms / 1000)
        put_line(f"Leased by members that pop: {state.leased:,}, the oldest for {age_s:,.1f} s")


def _who(session: int) -> str:
    return f"{session:x}" if session else "-"


def _print(table: Table) -> None:
    output().print(table)


@click.command("reset-offset", epilog=_RESET_EPILOG, short_help="Move a group to other offsets.")
@click.argument("group", shell_complete=group_names)
@click.argument("topic", shell_complete=topic_names)
@click.argument("to", type=parse_place)
@click.option("--queue", type=click.IntRange(min=0), help="Only this queue; else all of them.")
@store_option
@json_option
def reset_offset(
    group: str, topic: str, to: Place, queue: int | None, store: Path, *, as_json: bool
) -> None:
    """Move the consumer group GROUP to another offset in each queue of TOPIC.

    Its members, if there are any, first give the queues back and then continue from there. Messages
    that they have already received may still be consumed.
    """
    with Admin(store) as admin, StoreReader(store) as reader:
        found = next((t for t in admin.topics() if t.topic == topic), None)
        if found is None:
            raise click.UsageError(f"topic {topic} does not exist")
        queues = range(found.read_queues) if queue is None else (queue,)
        offsets = {number: offset_of(to, reader, topic, number) for number in queues}
        admin.reset_offset(group, topic, offsets)
    if as_json:
        put_json({"group": group, "topic": topic, "offsets": offsets})
    else:
        for number, offset in offsets.items():
            say(f"{group} continues at offset {offset} of queue {number} of {topic}")


@click.command("delete-group", short_help="Delete a consumer group that has no members.")
@click.argument("group", shell_complete=group_names)
@store_option
@json_option
def delete_group(group: str, store: Path, *, as_json: bool) -> None:
    """Delete the consumer group GROUP: its offset in each queue, and its settings.

    A group that has members is refused. Deleting a group that does not exist is no error.
    """
    with Admin(store) as admin:
        known = any(found.name == group for found in admin.groups())
        admin.delete_group(group)
    if as_json:
        put_json({"group": group, "deleted": known})
    else:
        say(f"group {group} is deleted" if known else f"there is no consumer group {group}")
