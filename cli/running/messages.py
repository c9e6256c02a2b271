"""The form in which commands print messages."""

from __future__ import annotations

import base64
import datetime as dt
import time
from pathlib import Path
from typing import Any

from ...client.admin.admin import Admin
from ...client.consuming.message_view import MessageView

_DISPATCH_PATIENCE_S = 5.0


def await_dispatch(store: Path) -> None:
    """Waits until messages stored before the call are in their queues and in the index, for 5 s at
    most.
    """
    deadline = time.monotonic() + _DISPATCH_PATIENCE_S
    with Admin(store) as admin:
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


def body_field(message: MessageView) -> dict[str, str]:
    """The field `body` for UTF-8, `body_base64` for anything else."""
    try:
        return {"body": message.body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(message.body).decode()}


def local_time(timestamp_ms: int) -> str:
    """Epoch ms in local time, as RocketMQ's tools write it; the number itself if it is no valid
    time.
    """
    try:
        when = dt.datetime.fromtimestamp(timestamp_ms // 1000, dt.UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return f"{when:%Y-%m-%d %H:%M:%S},{timestamp_ms % 1000:03d}"
