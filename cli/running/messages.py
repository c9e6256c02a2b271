"""The form in which commands print messages."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import sys
import time
from pathlib import Path
from typing import Any

import click

from ...client.admin.admin import Admin
from ...client.consuming.message_view import MessageView
from ...client.errors import StoreClosed
from ...conf.printable import printable
from ...store.errors import BadBody
from ..shared.common import put_json, put_line

_DISPATCH_PATIENCE_S = 5.0


def await_dispatch(store: Path) -> None:
    """Waits until messages stored before the call are in their queues and in the index, for 5 s at
    most. Does nothing for a store that does not run.
    """
    deadline = time.monotonic() + _DISPATCH_PATIENCE_S
    with contextlib.suppress(StoreClosed), Admin(store) as admin:
        status = admin.status()
        goal = status["wrote"]
        while status["dispatched"] < goal and time.monotonic() < deadline:
            time.sleep(0.005)
            status = admin.status()


def message_fields(message: MessageView) -> dict[str, Any]:
    """A message without its body, for JSON. Times are epoch ms."""
    return {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": message.physical_offset,
        "message_id": message.message_id,
        "offset_message_id": message.offset_message_id,
        "born_timestamp": message.born_timestamp,
        "store_timestamp": message.store_timestamp,
        "tags": message.tags,
        "keys": message.keys,
        "properties": message.properties,
    }


def body_of(message: MessageView) -> bytes:
    """The body, decompressed. If that fails the error goes to standard error, and the result is the
    body as it is stored.
    """
    try:
        return message.body
    except BadBody as error:
        click.echo(f"silo: {printable(str(error))}; it is shown as stored", err=True)
        return message.raw_body


def body_size(message: MessageView) -> int:
    """The length of the body that is shown, in bytes."""
    try:
        return len(message.body)
    except BadBody:
        return len(message.raw_body)


def body_field(message: MessageView) -> dict[str, str]:
    """The field `body` for UTF-8, `body_base64` for anything else. A body that cannot be
    decompressed is there as it is stored, and `body_error` says why.
    """
    try:
        body = message.body
    except BadBody as error:
        stored = base64.b64encode(message.raw_body).decode()
        return {"body_base64": stored, "body_error": error.why}
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def local_time(timestamp_ms: int) -> str:
    """Epoch ms in local time, as RocketMQ's tools write it; the number itself if it is no valid
    time.
    """
    return _local_time(timestamp_ms, ",")


def _local_time(timestamp_ms: int, point: str) -> str:
    try:
        when = dt.datetime.fromtimestamp(timestamp_ms // 1000, dt.UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return f"{when:%Y-%m-%d %H:%M:%S}{point}{timestamp_ms % 1000:03d}"


def put_readable(message: MessageView) -> None:
    """Prints QUEUE@OFFSET, store time, tags, keys and body on one line."""
    parts = (
        f"{message.queue_id}@{message.queue_offset}",
        _local_time(message.store_timestamp, "."),
        printable(message.tags or "-"),
        printable(",".join(message.keys) or "-"),
        printable(body_of(message)),
    )
    put_line("  ".join(parts))


def put_body(message: MessageView) -> None:
    """Prints the body unchanged, and a line feed."""
    sys.stdout.buffer.write(body_of(message) + b"\n")


def put_escaped_body(message: MessageView) -> None:
    """Prints the body as a terminal may show it."""
    put_line(printable(body_of(message)))


def put_message_json(message: MessageView) -> None:
    """Prints the message with its body as one JSON object."""
    put_json({**message_fields(message), **body_field(message)})
