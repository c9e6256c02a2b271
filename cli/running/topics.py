"""`silo topics`: the topics of a store."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import click

from ...client.admin.admin import Admin
from ...client.admin.topic_info import TopicInfo, TopicStatus
from ...client.errors import StoreClosed
from ...conf.kinds import Duration, Kind, Size
from ...store.names import validate_topic
from ...store.retention.topic_limits import MOST_HOURS, MOST_SIZE, TopicLimits
from ..shared.common import F, json_option, output, put_json, say, store_option
from ..shared.completion import topic_names
from ..shared.outcome import Exit, Failure
from ..shared.reader import is_stopped, open_stopped
from ..shared.tables import plain_table

_TOPICS_EPILOG = """\b
Examples:
  silo topics
  silo topics create orders --queues 8
  silo topics update orders --write-queues 4 --perm 6
  silo topics update audit --reserved-time-h 30d
  silo topics show orders --json
  silo topics delete orders --yes

\b
mqadmin's topicList, topicStatus, updateTopic, updateTopicPerm and deleteTopic
are list, show, update, update --perm and delete here.
"""
_PERMS = {"r": 4, "w": 2, "rw": 6, "4": 4, "2": 2, "6": 6}
_READ, _WRITE = 4, 2
_STORE = "store"
_LIMIT = 'The topic\'s own limit; "store": the setting'


class _Limit(click.ParamType[int]):
    """A limit of a setting's kind, or -1 for the text "store"."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.name = kind.unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value == _STORE:
            return -1
        try:
            return int(self.kind.parse(value))
        except ValueError:
            self.fail(f'{value!a}: give {self.kind.range}, or "{_STORE}"', param, ctx)


_HOURS = _Limit(Duration("h", 0, MOST_HOURS, ""))
_BYTES = _Limit(Size(0, MOST_SIZE, ""))


@click.group(invoke_without_command=True, epilog=_TOPICS_EPILOG)
@store_option
@json_option
@click.pass_context
def topics(context: click.Context, store: Path, *, as_json: bool) -> None:
    """List, show, create, update and delete topics. A stopped store's can be listed and shown."""
    if context.invoked_subcommand is None:
        _print_topics(store, as_json=as_json)
    else:
        # Options may be given before the subcommand or after it (`--store`: see `store_option`).
        context.default_map = {name: {"as_json": as_json} for name in topics.commands}


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
        click.option("--reserved-time-h", type=_HOURS, help=f"{_LIMIT} file_reserved_time_h."),
        click.option("--reserved-size", type=_BYTES, help=f"{_LIMIT} file_reserved_size."),
        click.option(
            "--reserved-unconsumed-h", type=_HOURS, help=f"{_LIMIT} file_reserved_unconsumed_h."
        ),
    ):
        command = option(command)
    return command


@topics.command(epilog="Example: silo topics create orders --queues 8")
@click.argument("name", shell_complete=topic_names)
@click.option(
    "--queues",
    type=click.IntRange(min=1),
    help="Number of queues.  [default: the store's default_topic_queue_nums]",
)
@_topic_options
@store_option
@json_option
def create(name: str, queues: int | None, store: Path, *, as_json: bool, **changes: Any) -> None:
    """Create the topic NAME. Nothing happens if it exists with that number of queues."""
    validate_topic(name)
    with Admin(store) as admin:
        admin.create_topic(name, queues or 0, **changes)
        _say_topic(admin.topic(name), as_json=as_json)


@topics.command(epilog="Example: silo topics update orders --read-queues 8 --write-queues 4")
@click.argument("name", shell_complete=topic_names)
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
        kept = f"; {_kept(topic.limits)}" if topic.limits else ""
        may = _may(topic.perm)
        say(f"topic {topic.topic} has {_queues(topic)} queue{many}; clients may {may}{kept}")


@topics.command(epilog="Example: silo topics show orders")
@click.argument("name", shell_complete=topic_names)
@store_option
@json_option
def show(name: str, store: Path, *, as_json: bool) -> None:
    """Show the topic NAME, queue by queue: mqadmin's topicStatus and topicRoute."""
    validate_topic(name)
    try:
        with Admin(store) as admin:
            topic = admin.topic(name)
    except StoreClosed:
        if not is_stopped(store):
            raise
        with contextlib.closing(open_stopped(store)) as files:
            topic = files.topic_status(name)
    if as_json:
        put_json(dataclasses.asdict(topic), indent=2)
        return
    console = output()
    order = ", ordered" if topic.order else ""
    console.print(f"{name}: perm {topic.perm} ({_may(topic.perm)}){order}", soft_wrap=True)
    if topic.limits:
        console.print(f"{name}: {_kept(topic.limits)}", soft_wrap=True)
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
@click.argument("name", shell_complete=topic_names)
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
    except click.Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        agreed = False  # standard input has ended
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
    try:
        with Admin(store) as admin:
            found = admin.topics()
    except StoreClosed:
        if not is_stopped(store):
            raise
        with contextlib.closing(open_stopped(store)) as files:
            found = files.topics()
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


def _kept(limits: TopicLimits) -> str:
    """A topic's own limits in words."""
    said = []
    if limits.time_h is not None:
        said.append(f"for {limits.time_h:,} h")
    if limits.size is not None:
        said.append(f"up to {limits.size:,} bytes" if limits.size else "of any size")
    if limits.unconsumed_h:
        said.append(f"unconsumed for {limits.unconsumed_h:,} h")
    elif limits.unconsumed_h == 0:
        said.append("consumed or not")
    return f"messages are kept {', '.join(said)}"
