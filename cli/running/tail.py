"""`silo tail`: prints the messages of a topic."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from ...client.consuming.consumer import Consumer, Start
from ...client.consuming.message_view import MessageView
from ...client.groups.group_consumer import GroupConsumer
from ...client.groups.subscription import Sql
from ...store.filters.tags import FilterError, MessageFilter, sql_filter, tag_filter
from ...store.names import validate_topic
from ..shared.common import json_option, printable, put_json, put_line, store_option
from ..shared.outcome import Exit, Failure
from .messages import await_dispatch, body_field, message_fields

_EPILOG = """\b
Examples:
  silo tail orders
  silo tail orders -f --tag 'drinks || food' --json
  silo tail orders --sql "price > 10 AND TAGS IN ('drinks')"
  silo tail orders --queue 2 --from 1000 --max 10
  silo tail orders --body-only > bodies.txt
  silo tail orders --group readers -f

\b
A readable line is QUEUE@OFFSET, store time, tags, keys, body. Bytes that are not printable UTF-8
are escaped in it; --json has "body" for UTF-8 and "body_base64" for anything else.

\b
With --group NAME this command is a member of that consumer group while it runs: it gets its share
of the messages, messages that were sent back too, and acknowledges those that it printed. --from
says where a new group begins; --tag and --sql must be the filter that the group uses.
"""
_BATCH = 256
_WAIT_S = 1.0
# Within this time other members should have given queues to a new member.
_JOIN_S = 2.0


def _start(value: str) -> Start:
    if value in {"earliest", "latest"}:
        return "earliest" if value == "earliest" else "latest"
    if not (value.isascii() and value.isdecimal()):
        why = f"{value!r} is not 'earliest', 'latest' or a queue offset from 0 on"
        raise click.BadParameter(why)
    return int(value)


@click.command(epilog=_EPILOG)
@click.argument("topic")
@store_option
@click.option(
    "--queue",
    "queues",
    type=click.IntRange(min=0),
    multiple=True,
    help="Queue to read; may be repeated.  [default: all]",
)
@click.option(
    "--from",
    "start",
    type=_start,
    metavar="earliest|latest|OFFSET",
    help="Where to begin.  [default: earliest, with --follow latest]",
)
@click.option("--group", metavar="NAME", help="Read as a member of this consumer group.")
@click.option("-f", "--follow", is_flag=True, help="Wait for more messages until Ctrl-C.")
@click.option("--max", "limit", type=click.IntRange(min=1), help="End after this many messages.")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAGS",
    help="Only these tags, as 'a || b'; may be repeated.",
)
@click.option(
    "--sql",
    metavar="EXPRESSION",
    help="Only messages whose properties fulfil an SQL92 expression.",
)
@click.option(
    "--body-only",
    is_flag=True,
    help="Print only bodies: unchanged into a file or pipe, escaped on a terminal.",
)
@json_option
def tail(
    *,
    topic: str,
    store: Path,
    queues: tuple[int, ...],
    group: str | None,
    start: Start | None,
    limit: int | None,
    tags: tuple[str, ...],
    sql: str | None,
    follow: bool,
    body_only: bool,
    as_json: bool,
) -> int:
    """Print the messages of TOPIC, one a line. Within a queue they are in order."""
    validate_topic(topic)
    if body_only and as_json:
        raise click.UsageError("--body-only and --json exclude each other")
    wanted = _filter(tags, sql)
    if start is None:
        start = "latest" if follow else "earliest"
    if as_json:
        put: Callable[[MessageView], None] = _put_json
    elif body_only:
        put = _put_escaped_body if sys.stdout.isatty() else _put_body
    else:
        put = _put_readable
    if group is not None and queues:
        raise click.UsageError("--group and --queue exclude each other: the group has its queues")
    try:
        if not follow:
            await_dispatch(store)
        if group is not None:
            with _join(store, group, topic, start, wanted) as member:
                _print_shared(member, put, limit, follow=follow)
            return Exit.OK
        try:
            consumer = Consumer(store, topic, queues=queues or None, offset=start)
        except ValueError as error:
            raise Failure(Exit.USAGE, str(error)) from error
        with consumer:
            found = _follow(consumer) if follow else _until_now(consumer, store)
            _print(found, put, wanted, limit)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return Exit.OK


def _join(
    store: Path, group: str, topic: str, start: Start, wanted: MessageFilter
) -> GroupConsumer:
    if isinstance(start, int):
        raise click.UsageError("--group takes --from earliest or latest; see silo reset-offset")
    kind, expression = wanted.describe()
    return GroupConsumer(
        store,
        group,
        {topic: Sql(expression) if kind == "SQL92" else expression},
        start=start,
        auto_ack=False,
    )


def _print_shared(
    member: GroupConsumer,
    put: Callable[[MessageView], None],
    limit: int | None,
    *,
    follow: bool,
) -> None:
    """Prints the messages that this member gets. Messages that could not be written stay
    unacknowledged.
    """
    printed = 0
    patience = _JOIN_S
    while limit is None or printed < limit:
        most = _BATCH if limit is None else min(_BATCH, limit - printed)
        found = member.poll(most, _WAIT_S if follow else patience)
        if not found and not follow:
            return
        if found:
            patience = _WAIT_S / 10
        for message in found:
            put(message)
        sys.stdout.flush()
        member.ack(found)
        printed += len(found)


def _filter(tags: tuple[str, ...], sql: str | None) -> MessageFilter:
    """The filter of these options. Raises click.UsageError."""
    if tags and sql is not None:
        raise click.UsageError("--tag and --sql exclude each other: TAGS is a property in --sql")
    try:
        return tag_filter(" || ".join(tags)) if sql is None else sql_filter(sql)
    except FilterError as error:
        raise click.UsageError(str(error)) from error


def _until_now(consumer: Consumer, store: Path) -> Iterator[list[MessageView]]:
    """The messages that the queues hold now, not those that arrive meanwhile."""
    positions = consumer.positions()
    with Consumer(store, consumer.topic, queues=positions, offset="latest") as other:
        ends = other.positions()
    while any(position < ends[queue] for queue, position in consumer.positions().items()):
        found = consumer.poll(_BATCH)
        if not found:
            return
        yield [message for message in found if message.queue_offset < ends[message.queue_id]]


def _follow(consumer: Consumer) -> Iterator[list[MessageView]]:
    while True:
        yield consumer.poll(_BATCH, _WAIT_S)


def _print(
    batches: Iterator[list[MessageView]],
    put: Callable[[MessageView], None],
    wanted: MessageFilter,
    limit: int | None,
) -> None:
    printed = 0
    for batch in batches:
        for message in batch:
            if not wanted.matches(message):
                continue
            put(message)
            printed += 1
            if printed == limit:
                return
        if batch:
            sys.stdout.flush()


def _put_readable(message: MessageView) -> None:
    stamp = message.store_timestamp
    when = dt.datetime.fromtimestamp(stamp // 1000, dt.UTC).astimezone()
    parts = (
        f"{message.queue_id}@{message.queue_offset}",
        f"{when:%Y-%m-%d %H:%M:%S}.{stamp % 1000:03d}",
        printable(message.tags or "-"),
        printable(",".join(message.keys) or "-"),
        printable(message.body),
    )
    put_line("  ".join(parts))


def _put_body(message: MessageView) -> None:
    sys.stdout.buffer.write(message.body + b"\n")


def _put_escaped_body(message: MessageView) -> None:
    put_line(printable(message.body))


def _put_json(message: MessageView) -> None:
    put_json({**message_fields(message), **body_field(message)})
