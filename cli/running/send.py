"""`silo send`: one message from the command line, or one for each line of standard input."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from ...client.admin.admin import Admin
from ...client.producing.producer import Producer
from ...client.producing.send_result import SendResult
from ...store.errors import IllegalMessage, StoreError
from ...store.names import validate_topic
from ...store.status import PutMessageStatus
from ..shared.common import json_option, put_json, put_line, store_option
from ..shared.completion import topic_names
from ..shared.outcome import Exit, Failure
from ..shared.times import INSTANT, LENGTH, Seconds
from .send_lines import LineSender, send_lines

_EPILOG = """\b
Examples:
  silo send orders 'one coffee' --tags drinks --keys order-17
  silo send orders --property shop=lisbon < orders.jsonl
  silo send orders 'a reminder' --delay 10min
  silo send pictures --file photo.jpg --tags jpeg
  tail -f app.log | silo send logs
  silo tail orders --json | silo send copies --json-lines

\b
A line of --json-lines is an object with "body" (or "body_base64"), and perhaps "tags", "keys" (a
text or a list), "properties", and one of "delay_ms", "deliver_at" (epoch ms) and "delay_level".
"""


@click.command(epilog=_EPILOG, short_help="Send a message, or lines of standard input.")
@click.argument("topic", shell_complete=topic_names)
@click.argument("body", required=False)
@store_option
@click.option(
    "--file",
    "body_file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Send the bytes of FILE as one message; - is standard input.",
)
@click.option("--json-lines", is_flag=True, help="Lines are JSON objects, as tail --json has them.")
@click.option("--tags", metavar="TAG", help="Tag of the messages.")
@click.option("--keys", multiple=True, metavar="KEY", help="Key for look-ups; may be repeated.")
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="User property; may be repeated.",
)
@click.option("--delay", type=LENGTH, metavar="LENGTH", help="Deliver after 500ms, 10s, 2h ...")
@click.option("--deliver-at", type=INSTANT, metavar="TIME", help="Deliver then.")
@click.option(
    "--delay-level", type=click.IntRange(min=1), metavar="N", help="Deliver after this delay level."
)
@click.option("--queue", type=click.IntRange(min=0), help="Queue to send to.")
@click.option("--shard-key", metavar="KEY", help="Choose the queue by the hash of KEY.")
@click.option(
    "--timeout",
    type=Seconds(min=0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the store.",
)
@json_option
def send(
    *,
    topic: str,
    body: str | None,
    store: Path,
    body_file: Path | None,
    json_lines: bool,
    tags: str | None,
    keys: tuple[str, ...],
    properties: tuple[str, ...],
    delay: int | None,
    deliver_at: int | None,
    delay_level: int | None,
    queue: int | None,
    shard_key: str | None,
    timeout: float,
    as_json: bool,
) -> int:
    """Send BODY to TOPIC, or each line of standard input when BODY is not given.

    With neither --queue nor --shard-key the queues take turns: message by message, or batch by
    batch when several lines arrive at once. Lines may hold any bytes; the line feed is not sent.
    """
    validate_topic(topic)
    if queue is not None and shard_key is not None:
        raise click.UsageError("--queue and --shard-key exclude each other")
    if (body is not None) + (body_file is not None) + json_lines > 1:
        raise click.UsageError("give one of BODY, --file and --json-lines")
    if sum(given is not None for given in (delay, deliver_at, delay_level)) > 1:
        raise click.UsageError("give one of --delay, --deliver-at and --delay-level")
    content = _content(body, body_file)
    extras: dict[str, Any] = {
        "tags": tags,
        "keys": " ".join(keys) or None,
        "properties": _pairs(properties),
        "delay_ms": delay,
        "deliver_at": deliver_at,
        "delay_level": delay_level,
    }
    extras = {name: value for name, value in extras.items() if value is not None}
    route: dict[str, Any] = {"queue": queue, "shard_key": shard_key}
    with Producer(store, timeout=timeout) as producer:
        try:
            if content is not None:
                result = producer.send(topic, content, **extras, **route)
                return _print_result(result, as_json=as_json)
            return send_lines(
                LineSender(producer, topic, extras, route, as_objects=json_lines), as_json=as_json
            )
        except IllegalMessage as error:
            raise _disk_error(store, error) or error from None


def _content(body: str | None, body_file: Path | None) -> bytes | None:
    """The body that the command line gives; None if lines of standard input are to be sent."""
    if body_file is None:
        return None if body is None else os.fsencode(body)
    if str(body_file) == "-":
        return sys.stdin.buffer.read()
    try:
        return body_file.read_bytes()
    except OSError as error:
        why = f"cannot read {body_file}: {error.strerror}"
        raise Failure(Exit.USAGE, why) from error


def _pairs(properties: tuple[str, ...]) -> dict[str, str] | None:
    found = {}
    for item in properties:
        name, equals, value = item.partition("=")
        if not name or not equals:
            raise click.UsageError(f"--property {item}: write it as NAME=VALUE")
        found[name] = value
    return found or None


def _disk_error(store: Path, refused: IllegalMessage) -> OSError | None:
    """The error for which the store could not make its next file, if it refused the message for
    that.
    """
    if refused.status != PutMessageStatus.CREATE_MAPPED_FILE_FAILED:
        return None
    try:
        with Admin(store) as admin:
            number = admin.status()["allocate_error"]
    except StoreError:
        return None
    if not number:
        return None
    why = f"{refused.status.name}: the store cannot make its next file: {os.strerror(number)}"
    return OSError(number, why, os.fspath(store))


def _print_result(result: SendResult, *, as_json: bool) -> int:
    if as_json:
        put_json(
            {
                "status": result.status.name,
                "topic": result.topic,
                "queue_id": result.queue_id,
                "queue_offset": result.queue_offset,
                "physical_offset": result.physical_offset,
                "message_id": result.message_id,
                "offset_message_id": result.offset_message_id,
                "store_timestamp": result.store_timestamp,
            }
        )
    else:
        place = f"{result.topic}[{result.queue_id}]@{result.queue_offset}"
        put_line(f"{result.status.name} {place} {result.message_id}")
    return Exit.OK if result.status == PutMessageStatus.PUT_OK else Exit.FAILED
