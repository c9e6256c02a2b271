"""`silo status` and `silo topics`: the state and the topics of a running store."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...client.admin.admin import Admin, TopicInfo, TopicStatus
from ...store.names import validate_topic
from ..shared.common import F, json_option, output, put_json, say, store_option
from ..shared.outcome import Exit, Failure

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
  silo topics update orders --write-queues 4 --perm 6
  silo topics show orders --json
  silo topics delete orders --yes

\b
mqadmin's topicList, topicStatus, updateTopic, updateTopicPerm and deleteTopic
are list, show, update, update --perm and delete here.
"""
_PERMS = {"r": 4, "w": 2, "rw": 6, "4": 4, "2": 2, "6": 6}
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
    console = output()
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


def plain_table(title: str, *columns: str, right: tuple[int, ...] = ()) -> Table:
    """A table for the terminal. An empty `title` is not printed. `right` are the columns of
    numbers.
    """
    from rich import box
    from rich.table import Table

    table = Table(
        title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD
    )
    table.show_edge = False
    for i, name in enumerate(columns):
        table.add_column(name, justify="right" if i in right else "left", overflow="fold")
    return table


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
    """List, show, create, update and delete topics."""
    if context.invoked_subcommand is None:
        _print_topics(store, as_json=as_json)
    else:
        # Options may be given before the subcommand or after it.
        context.default_map = {
            name: {"store": store, "as_json": as_json} for name in topics.commands
        }


@topics.command("list")
@store_option
@json_option
def list_topics(store: Path, *, as_json: bool) -> None:
    """List topics: their queues, and the messages they hold."""
    _print_topics(store, as_json=as_json)


def _topic_options(command: F) -> F:
    """The options of mqadmin's updateTopic."""
    for option in (
        click.option("-r", "--read-queues", type=click.IntRange(min=1), help="Queues to read."),
        click.option("-w", "--write-queues", type=click.IntRange(min=1), help="Queues to write."),
        click.option(
            "-p",
            "--perm",
            type=click.Choice(tuple(_PERMS), case_sensitive=False),
            callback=lambda _context, _option, value: value and _PERMS[value],
            help="What clients may do: 2 or w, 4 or r, 6 or rw.",
        ),
        click.option("-o", "--order/--no-order", default=None, help="RocketMQ's order attribute."),
    ):
        command = option(command)
    return command


@topics.command(epilog="Example: silo topics create orders --queues 8")
@click.argument("name")
@click.option(
    "--queues",
    type=click.IntRange(min=0),
    default=0,
    help="Number of queues; 0 is the store's default_topic_queue_nums.  [default: 0]",
)
@_topic_options
@store_option
@json_option
def create(name: str, queues: int, store: Path, *, as_json: bool, **changes: Any) -> None:
    """Create the topic NAME. Nothing happens if it exists with that number of queues."""
    validate_topic(name)
    with Admin(store) as admin:
        admin.create_topic(name, queues, **changes)
        _say_topic(admin.topic(name), as_json=as_json)


@topics.command(epilog="Example: silo topics update orders --read-queues 8 --write-queues 4")
@click.argument("name")
@_topic_options
@store_option
@json_option
def update(name: str, store: Path, *, as_json: bool, **changes: Any) -> None:
    """Change the topic NAME, or create it if it does not exist. Options that are not given leave
    their attribute as it is.

    To have fewer queues, lower --write-queues first, and --read-queues when all is read.
    """
    validate_topic(name)
    if all(value is None for value in changes.values()):
        raise click.UsageError("nothing to change: give --read-queues, --write-queues, --perm ...")
    with Admin(store) as admin:
        admin.update_topic(name, **changes)
        _say_topic(admin.topic(name), as_json=as_json)


def _say_topic(topic: TopicStatus, *, as_json: bool) -> None:
    if as_json:
        put_json(dataclasses.asdict(topic))
    else:
        many = "" if _queues(topic) == "1" else "s"
        say(f"topic {topic.topic} has {_queues(topic)} queue{many}; clients may {_may(topic.perm)}")


@topics.command(epilog="Example: silo topics show orders")
@click.argument("name")
@store_option
@json_option
def show(name: str, store: Path, *, as_json: bool) -> None:
    """Show the topic NAME, queue by queue: mqadmin's topicStatus and topicRoute."""
    validate_topic(name)
    with Admin(store) as admin:
        topic = admin.topic(name)
    if as_json:
        put_json(dataclasses.asdict(topic), indent=2)
        return
    console = output()
    order = ", ordered" if topic.order else ""
    console.print(f"{name}: perm {topic.perm} ({_may(topic.perm)}){order}", soft_wrap=True)
    right = (0, 1, 2, 3)
    table = plain_table("", "qid", "min offset", "max offset", "messages", "used by", right=right)
    for queue in topic.queues:
        users = [
            word for word, used in (("consumers", queue.read), ("producers", queue.write)) if used
        ]
        count = queue.max_offset - queue.min_offset
        numbers = (queue.min_offset, queue.max_offset, count)
        row = (str(queue.queue_id), *(f"{number:,}" for number in numbers))
        table.add_row(*row, ", ".join(users) or "none")
    console.print(table)


@topics.command(epilog="Example: silo topics delete orders --yes")
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@store_option
@json_option
def delete(name: str, store: Path, *, yes: bool, as_json: bool) -> None:
    """Delete the topic NAME with its queues. Its messages are never served again.

    A new topic of that name starts with queue offset 0. Deleting a topic that does not exist is no
    error.
    """
    validate_topic(name)
    with Admin(store) as admin:
        if not yes:
            found = next((t for t in admin.topics() if t.topic == name), None)
            if found:
                _ask(f"Delete topic {name} and its {found.messages:,} messages?")
        deleted = admin.delete_topic(name)
    if as_json:
        put_json({"topic": name, "deleted": deleted})
    else:
        say(f"topic {name} is deleted" if deleted else f"there is no topic {name}")


def _ask(question: str) -> None:
    """Asks a yes-or-no question. Raises Failure unless the answer is yes."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:  # standard input has ended
        agreed = False
    if not agreed:
        raise Failure(Exit.FAILED, "nothing was deleted (--yes deletes without asking)")


delete_topic = click.Command(
    "delete-topic",
    callback=delete.callback,
    params=delete.params,
    help=delete.help,
    epilog="Example: silo delete-topic orders --yes",
    short_help="Delete a topic: silo topics delete.",
)


def _print_topics(store: Path, *, as_json: bool) -> None:
    with Admin(store) as admin:
        found = admin.topics()
    if as_json:
        put_json([dataclasses.asdict(topic) for topic in found], indent=2)
        return

    table = plain_table("", "topic", "queues", "may", "messages", right=(1, 3))
    for topic in found:
        table.add_row(topic.topic, _queues(topic), _may(topic.perm), f"{topic.messages:,}")
    output().print(table)


def _queues(topic: TopicInfo) -> str:
    if topic.read_queues == topic.write_queues:
        return str(topic.write_queues)
    return f"{topic.write_queues} write, {topic.read_queues} read"


def _may(perm: int) -> str:
    allowed = [word for bit, word in ((_READ, "read"), (_WRITE, "write")) if perm & bit]
    return ", ".join(allowed) or "nothing"
