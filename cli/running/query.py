"""`silo query`: looks messages up, as mqadmin's queryMsgBy... commands do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ...client.consuming.message_view import MessageView
from ...client.lookup.store_reader import StoreReader
from ...client.times import LAST_MS
from ...conf.printable import printable
from ..shared.common import json_option, put_json, put_line, store_option
from ..shared.completion import topic_names
from ..shared.outcome import Exit, Failure
from ..shared.reader import open_reader
from ..shared.times import TIME
from .message_trace import trace
from .messages import (
    await_dispatch,
    body_field,
    body_of,
    body_size,
    local_time,
    message_fields,
)

F = TypeVar("F", bound=Callable[..., Any])

_EPILOG = """\b
Examples:
  silo query id 7F00000100002A9F0000000000000000 --body
  silo query key orders order-17
  silo query unique orders C0000202393A6A5747F268FBDB790001
  silo query offset orders 1 0
  silo query time orders 1 '2026-11-21 09:15'
  silo query key orders order-17 --begin 15min
  silo query trace C0000202393A6A5747F268FBDB790001 --topic orders

A TIME is milliseconds since 1970, a date and time like '2026-11-21 09:15:36' (local, or with a
zone), or a length of time ago like 15min.
"""


def _message_options(command: F) -> F:
    """`--body`, `--json` and `--store`."""
    body = click.option(
        "--body",
        "with_body",
        is_flag=True,
        help="Print bodies too; bytes that are not printable UTF-8 are escaped.",
    )
    return store_option(json_option(body(command)))


@click.group(epilog=_EPILOG)
def query() -> None:
    """Look messages up: by id, key, unique key, offset, or time; or one message's way."""


query.add_command(trace)


@query.command("id", short_help="By offset message id (mqadmin queryMsgById).")
@click.argument("message_id")
@_message_options
def by_id(message_id: str, store: Path, *, with_body: bool, as_json: bool) -> None:
    """Print the message with the offset message id MESSAGE_ID."""
    with _reader(store) as reader:
        found = reader.by_offset_message_id(message_id)
    _put_one(found, with_body=with_body, as_json=as_json)


@query.command("key", short_help="By key (mqadmin queryMsgByKey).")
@click.argument("topic", shell_complete=topic_names)
@click.argument("key")
@click.option(
    "--max", "most", type=int, default=32, show_default=True, help="At most this many, the newest."
)
@click.option("--begin", type=TIME, default=0, help="Stored then or later.")
@click.option("--end", type=TIME, default=LAST_MS, help="Stored then or earlier.")
@_message_options
def by_key(
    *,
    topic: str,
    key: str,
    most: int,
    begin: int,
    end: int,
    store: Path,
    with_body: bool,
    as_json: bool,
) -> None:
    """Print the messages of TOPIC that have KEY, oldest first."""
    with _reader(store) as reader:
        found = reader.by_key(topic, key, most, begin, end)
    if not found:
        raise Failure(Exit.FAILED, f"no message of topic {topic} with key {key!a} in that time")
    if not as_json and not with_body:
        _put_table(found)
        return
    _put_all(found, with_body=with_body, as_json=as_json)


@query.command("unique", short_help="By unique key (mqadmin queryMsgByUniqueKey).")
@click.argument("topic", shell_complete=topic_names)
@click.argument("key")
@_message_options
def by_unique(topic: str, key: str, store: Path, *, with_body: bool, as_json: bool) -> None:
    """Print the message of TOPIC with the unique key KEY, the id that its producer got.

    Prints several messages if a producer sent it again.
    """
    with _reader(store) as reader:
        found = reader.by_unique_key(topic, key)
    if not found:
        raise Failure(Exit.FAILED, f"no message of topic {topic} with unique key {key!a}")
    _put_all(found, with_body=with_body, as_json=as_json)


@query.command("offset", short_help="By queue offset (mqadmin queryMsgByOffset).")
@click.argument("topic", shell_complete=topic_names)
@click.argument("queue", type=int)
@click.argument("offset", type=int)
@_message_options
def by_offset(
    topic: str, queue: int, offset: int, store: Path, *, with_body: bool, as_json: bool
) -> None:
    """Print the message at OFFSET of queue QUEUE of TOPIC."""
    with _reader(store) as reader:
        found = reader.at(topic, queue, offset)
    _put_one(found, with_body=with_body, as_json=as_json)


@query.command("time", short_help="The queue offset for a time.")
@click.argument("topic", shell_complete=topic_names)
@click.argument("queue", type=int)
@click.argument("when", type=TIME)
@click.option("--upper", is_flag=True, help="The last message stored then or earlier instead.")
@store_option
@json_option
def by_time(topic: str, queue: int, when: int, store: Path, *, upper: bool, as_json: bool) -> None:
    """Print the offset, in queue QUEUE of TOPIC, of the first message stored at WHEN or later.

    If there is none, the queue's end is printed. WHEN is a time (`silo query --help`).
    """
    with _reader(store) as reader:
        found = reader.offset_at_time(topic, queue, when, "upper" if upper else "lower")
    if as_json:
        put_json({"topic": topic, "queue_id": queue, "timestamp": when, "offset": found}, indent=2)
    else:
        put_line(str(found))


def _reader(store: Path) -> StoreReader:
    """A reader that finds all messages which were stored before."""
    await_dispatch(store)
    return open_reader(store)


def _put_one(message: MessageView, *, with_body: bool, as_json: bool) -> None:
    _put_all([message], with_body=with_body, as_json=as_json)


def _put_all(messages: Sequence[MessageView], *, with_body: bool, as_json: bool) -> None:
    """Prints one JSON object a line, or blocks of lines as mqadmin does."""
    for number, message in enumerate(messages):
        if as_json:
            body = body_field(message) if with_body else {}
            put_json({**_fields(message), **body})
            continue
        if number:
            put_line("")
        for label, value in _labelled(message):
            put_line(f"{label + ':':<20} {value}")
        if with_body:
            put_line(f"{'Message Body:':<20} {printable(body_of(message))}")


def _fields(message: MessageView) -> dict[str, Any]:
    return {
        **message_fields(message),
        "reconsume_times": message.reconsume_times,
        "born_host": str(message.born_host),
        "store_host": str(message.store_host),
        "sys_flag": message.sys_flag,
        "flag": message.flag,
        "size": message.size,
        "body_size": body_size(message),
    }


def _labelled(message: MessageView) -> list[tuple[str, object]]:
    properties = ", ".join(f"{name}={value}" for name, value in message.properties.items())
    return [
        ("OffsetID", message.offset_message_id),
        ("Topic", printable(message.topic)),
        ("Tags", f"[{printable(message.tags or '')}]"),
        ("Keys", f"[{printable(' '.join(message.keys))}]"),
        ("Queue ID", message.queue_id),
        ("Queue Offset", message.queue_offset),
        ("CommitLog Offset", message.physical_offset),
        ("Reconsume Times", message.reconsume_times),
        ("Born Timestamp", local_time(message.born_timestamp)),
        ("Store Timestamp", local_time(message.store_timestamp)),
        ("Born Host", message.born_host),
        ("Store Host", message.store_host),
        ("System Flag", message.sys_flag),
        ("Properties", f"{{{printable(properties)}}}"),
        ("Body Size", body_size(message)),
    ]


def _put_table(messages: Sequence[MessageView]) -> None:
    """Prints a table like that of mqadmin's queryMsgByKey."""
    put_line(f"{'#Message ID':<50} {'#QID':>4} {'#Offset':>40}")
    for message in messages:
        name = printable(message.message_id or message.offset_message_id)
        put_line(f"{name:<50} {message.queue_id:>4} {message.queue_offset:>40}")
