"""What users may call: these names and no others are public."""

from __future__ import annotations

import inspect

import pytest

from silomq import Message, Producer, SendFuture, SendResult

PUBLIC = {
    Producer: {
        "cancel", "close", "fileno", "flush", "in_flight", "open_topic", "poll", "rejected",
        "reply", "reply_async", "send", "send_async", "send_batch", "send_batch_async",
        "send_batch_oneway", "send_oneway", "store", "timeout",
    },
    SendFuture: {
        "add_done_callback", "count", "done", "exception", "queue_id", "result", "topic",
    },
    SendResult: {
        "count", "level", "message_id", "message_ids", "offset_message_id", "physical_offset",
        "queue_id", "queue_offset", "recall_handle", "status", "store_timestamp", "topic",
    },
    Message: {"body", "born_timestamp", "flag", "keys", "properties", "tags"},
}  # fmt: skip


@pytest.mark.parametrize("kind", PUBLIC, ids=lambda kind: kind.__name__)
def test_public_names(kind: type) -> None:
    assert {name for name in dir(kind) if not name.startswith("_")} == PUBLIC[kind]


@pytest.mark.parametrize("kind", PUBLIC, ids=lambda kind: kind.__name__)
def test_what_is_public_says_what_it_is(kind: type) -> None:
    assert inspect.getdoc(kind)
    for name in PUBLIC[kind]:
        member = inspect.getattr_static(kind, name)
        if callable(member) or isinstance(member, property):
            assert inspect.getdoc(member), name
        else:  # the attribute of a compiled class, or a slot: the class's docstring tells of it
            assert f"`{name}`" in (inspect.getdoc(kind) or ""), name
