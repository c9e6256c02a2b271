"""`silo tail`: prints the messages of a topic."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import click

from ...client.admin.admin import Admin
from ...client.consuming.consumer import Consumer
from ...client.consuming.message_view import MessageView
from ...client.errors import StoreClosed
from ...client.groups.group_consumer import GroupConsumer
from ...client.groups.subscription import Sql
from ...client.lookup.store_reader import StoreReader
from ...store.errors import CorruptRange
from ...store.filters.tags import FilterError, MessageFilter, sql_filter, tag_filter
from ...store.names import validate_topic
from ..shared.common import json_option, say, store_option
from ..shared.completion import group_names, topic_names
from ..shared.outcome import Exit, Failure
from ..shared.reader import is_stopped, open_reader
from ..shared.times import TIME
from .messages import (
    await_dispatch,
    put_body,
    put_escaped_body,
    put_message_json,
    put_readable,
)
from .tail_places import AtTime, Place, at_time, last_messages, parse_place, read_stopped

_EPILOG = """\b
Examples:
  silo tail orders
  silo tail orders --last 10
  silo tail orders --since 15min
  silo tail orders --since '2026-11-21 09:15' --json
  silo tail orders -f --tag 'drinks || food' --json
  silo tail orders --sql "price > 10 AND TAGS IN ('drinks')"
  silo tail orders --queue 2 --from 1000 --max 10
  silo tail orders --body-only > bodies.txt
  silo tail orders --group readers -f

\b
A readable line is QUEUE@OFFSET, store time, tags, keys, body. Bytes that are not printable UTF-8
are escaped in it; --json has "body" for UTF-8 and "body_base64" for anything else.

\b
A TIME is milliseconds since 1970, a date and time like '2026-11-21 09:15:36' (local, or with a
zone), or a length of time ago like 15min.

\b
With --group NAME this command is a member of that consumer group while it runs: it gets its share
of the messages, messages that were sent back too, and acknowledges those that it printed. --from
says where a new group begins; --tag and --sql must be the filter that the group uses.
"""
_BATCH = 256
_WAIT_S = 1.0
# Within this time other members should have given queues to a new member.
_JOIN_S = 2.0


@click.command(epilog=_EPILOG)
@click.argument("topic", shell_complete=topic_names)
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
    type=parse_place,
    metavar="earliest|latest|OFFSET|@TIME",
    help="Where to begin.  [default: earliest, with --follow latest]",
)
@click.option("--since", type=TIME, metavar="TIME", help="Only messages stored then or later.")
@click.option(
    "--last",
    type=click.IntRange(min=1, max=1_000_000),
    metavar="N",
    help="Only the newest N messages of all these queues together, in the order of storing.",
)
@click.option(
    "--group",
    metavar="NAME",
    shell_complete=group_names,
    help="Read as a member of this consumer group.",
)
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
    start: Place | None,
    since: int | None,
    last: int | None,
    limit: int | None,
    tags: tuple[str, ...],
    sql: str | None,
    follow: bool,
    body_only: bool,
    as_json: bool,
) -> int:
    """Print the messages of TOPIC, one a line. Within a queue they are in order.

    If the store does not run, its files are read.
    """
    validate_topic(topic)
    if body_only and as_json:
        raise click.UsageError("--body-only and --json exclude each other")
    if group is not None and (queues or last):
        other = "--queue" if queues else "--last"
        raise click.UsageError(f"--group and {other} exclude each other: the group has its queues")
    if sum(given is not None for given in (start, since, last)) > 1:
        raise click.UsageError("give one of --from, --since and --last")
    wanted = _filter(tags, sql)
    if since is not None:
        start = at_time(since)
    if start is None:
        start = "latest" if follow else "earliest"
    put = _form(as_json=as_json, body_only=body_only)
    try:
        if not follow or last:
            await_dispatch(store)
        if group is not None:
            with _join(store, group, topic, start, wanted) as member:
                _print_shared(member, put, limit, follow=follow)
            return Exit.OK
        if not follow and _is_stopped(store):
            with open_reader(store) as reader:
                found = read_stopped(reader, topic, queues, start, last=last, wanted=wanted)
                _print(found, put, wanted, limit)
            return Exit.OK
        with _consumer(store, topic, queues, start) as consumer:
            found = _follow(consumer) if follow else _until_now(consumer, store)
            if last is not None:
                found = _last_then(consumer, store, last, wanted, follow=follow)
            _print(found, put, wanted, limit)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return Exit.OK


def _form(*, as_json: bool, body_only: bool) -> Callable[[MessageView], None]:
    """The function that prints one message."""
    if as_json:
        return put_message_json
    if body_only:
        return put_escaped_body if sys.stdout.isatty() else put_body
    return put_readable


def _is_stopped(store: Path) -> bool:
    """Whether there is a store that does not run."""
    try:
        Admin(store).close()
    except StoreClosed:
        return is_stopped(store)
    return False


def _consumer(store: Path, topic: str, queues: tuple[int, ...], start: Place) -> Consumer:
    """A consumer that begins at `start` in each queue."""
    try:
        if isinstance(start, AtTime):
            return Consumer(store, topic, queues=queues or None, start=start.ms)
        return Consumer(store, topic, queues=queues or None, offset=start)
    except ValueError as error:
        raise Failure(Exit.USAGE, str(error)) from error


def _last_then(
    consumer: Consumer, store: Path, count: int, wanted: MessageFilter, *, follow: bool
) -> Iterator[list[MessageView]]:
    """The newest messages, then with `follow` those that arrive."""
    with StoreReader(store) as reader:
        ends = {q: reader.max_offset(consumer.topic, q) for q in consumer.positions()}
        yield last_messages(reader, consumer.topic, ends, count, wanted)
    for queue_id, end in ends.items():
        consumer.seek(queue_id, end)
    if follow:
        yield from _follow(consumer)


def _join(
    store: Path, group: str, topic: str, start: Place, wanted: MessageFilter
) -> GroupConsumer:
    if isinstance(start, int):
        why = "--group takes --from earliest, latest or @TIME; see silo reset-offset"
        raise click.UsageError(why)
    kind, expression = wanted.describe()
    return GroupConsumer(
        store,
        group,
        {topic: Sql(expression) if kind == "SQL92" else expression},
        start=start.ms if isinstance(start, AtTime) else start,
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
        wait = _WAIT_S if follow else patience
        found = _past_holes(partial(member.poll, most, wait))
        if not found and not follow:
            return
        if found:
            patience = _WAIT_S / 10
        for message in found:
            put(message)
        sys.stdout.flush()
        member.ack(found)
        printed += len(found)


def _past_holes(poll: Callable[[], list[MessageView]]) -> list[MessageView]:
    """The next messages. Says on stderr which declared holes came before them."""
    while True:
        try:
            return poll()
        except CorruptRange as hole:
            say(f"silo: {hole}")


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
        found = _past_holes(partial(consumer.poll, _BATCH))
        if not found:
            return
        yield [message for message in found if message.queue_offset < ends[message.queue_id]]


def _follow(consumer: Consumer) -> Iterator[list[MessageView]]:
    while True:
        yield _past_holes(partial(consumer.poll, _BATCH, _WAIT_S))


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
