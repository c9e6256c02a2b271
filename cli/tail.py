"""`silo tail`: prints the messages of a topic."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from ..client.consumer import Consumer, Start
from ..client.received import MessageView
from ..store.filters import FilterError, MessageFilter, sql_filter, tag_filter
from ..store.names import validate_topic
from .common import json_option, printable, put_json, put_line, store_option
from .messages import await_dispatch, body_field, message_fields
from .outcome import Exit, Failure

_EPILOG = """\b
Examples:
  silo tail orders
  silo tail orders -f --tag 'drinks || food' --json
  silo tail orders --sql "price > 10 AND TAGS IN ('drinks')"
  silo tail orders --queue 2 --from 1000 --max 10
  silo tail orders --body-only > bodies.txt

\b
A readable line is QUEUE@OFFSET, store time, tags, keys, body. Bytes that are not printable UTF-8
are escaped in it; --json has "body" for UTF-8 and "body_base64" for anything else.
"""
_BATCH = 256
_WAIT_S = 1.0


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
@click.option("-f", "--follow", is_flag=True, help="Wait for more messages until Ctrl-C.")
@click.option("--max", "limit", type=click.IntRange(min=1), help="End after so many messages.")
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
    help="Print bodies alone: as they are into a file or pipe, escaped on a terminal.",
)
@json_option
def tail(
    *,
    topic: str,
    store: Path,
    queues: tuple[int, ...],
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
    try:
        if not follow:
            await_dispatch(store)
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


def _filter(tags: tuple[str, ...], sql: str | None) -> MessageFilter:
    """What of the topic is wanted. Raises click.UsageError."""
    if tags and sql is not None:
        raise click.UsageError("--tag and --sql exclude each other: TAGS is a property in --sql")
    try:
        return tag_filter(" || ".join(tags)) if sql is None else sql_filter(sql)
    except FilterError as error:
        raise click.UsageError(str(error)) from error


def _until_now(consumer: Consumer, store: Path) -> Iterator[list[MessageView]]:
    """What the queues hold now, however fast they grow meanwhile."""
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
