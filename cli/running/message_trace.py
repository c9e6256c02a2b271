"""`silo query trace`: the way of one message, as its clients and the store tell it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from ...client.admin.admin import Admin
from ...client.errors import StoreClosed
from ...client.lookup.trace_records import Records, TraceRecord, in_order, parse_records
from ...store.delay.delays import due_by
from ...store.errors import BadBody, IllegalQuery, StoreError
from ...store.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRACE_TOPIC,
    TRANS_HALF_TOPIC,
    dead_letter_topic,
    retry_topic,
)
from ...store.record.properties import DELAY, REAL_TOPIC, RETRY_TOPIC
from ..shared.common import json_option, output, put_json, put_line, store_option
from ..shared.completion import topic_names
from ..shared.outcome import Exit, Failure
from ..shared.reader import open_reader
from ..shared.tables import plain_table
from .messages import await_dispatch, local_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...client.admin.group_admin import GroupState
    from ...client.consuming.message_view import MessageView
    from ...client.lookup.store_reader import StoreReader

#: So many trace messages of one message are read, the newest, and so many copies of it.
_MOST_TRACES: Final = 256
_MOST_COPIES: Final = 64
#: RocketMQ's clients index the trace of a batch by all its ids as one key. So a message of one is
#: looked for among so many trace messages, from this long before it was stored; the newest if the
#: store does not have it.
_MOST_LOOKED_AT: Final = 20_000
_BEFORE_MS: Final = 60_000
_ONE_READ: Final = 32
_OFFSET_ID_DIGITS: Final = (32, 56)
_WAITS: Final = {
    SCHEDULE_TOPIC: "delayed",
    TIMER_TOPIC: "delayed",
    TRANS_HALF_TOPIC: "half of a transaction",
}


class Copy(msgspec.Struct, frozen=True):
    """The message as it lies in one queue. `due_ms` is the time of a delayed one."""

    what: str
    topic: str
    queue_id: int
    queue_offset: int
    offset_message_id: str
    stored_ms: int
    reconsume_times: int
    due_ms: int | None = None


class Passed(msgspec.Struct, frozen=True):
    """Whether a group's progress has passed a copy of the message."""

    group: str
    topic: str
    queue_id: int
    queue_offset: int
    offset: int
    passed: bool


@click.command("trace", short_help="The way of a message: traces, copies, groups.")
@click.argument("message_id")
@click.option("--topic", shell_complete=topic_names, help="Its topic, if no trace tells it.")
@store_option
@json_option
def trace(message_id: str, topic: str | None, store: Path, *, as_json: bool) -> None:
    """Print what is known of the message with the unique key MESSAGE_ID, the id that its producer
    got; an offset message id will do.

    Clients that trace (RocketMQ's enableMsgTrace) tell when it was published and consumed, by whom,
    and with what result. The store tells where it lies: delayed, delivered, sent back, among the
    dead letters; and whether each group has passed it.
    """
    await_dispatch(store)
    with open_reader(store) as reader:
        topics = {topic} if topic else set()
        key = message_id
        with contextlib.suppress(StoreError):
            if len(message_id) in _OFFSET_ID_DIGITS:
                found = reader.by_offset_message_id(message_id)
                key = found.message_id or message_id
                topics.add(found.properties.get(REAL_TOPIC) or found.origin_topic)
        records, bad = _traces(reader, key, topics)
        topics |= {one.topic for one, _ in records if one.topic}
        groups = _groups(store)
        names = {group.name for group in groups} | {one.group for one, _ in records if one.group}
        copies = list(_copies(reader, key, topics, names))
    if not (records or copies):
        why = "" if topic else ": name its --topic, if no client has traced it"
        raise Failure(Exit.FAILED, f"nothing is known of a message {key[:60]!a}{why}")
    passed = list(_passed(groups, copies))
    if as_json:
        _put_json(key, records, bad, copies, passed)
    else:
        _put_tables(key, records, bad, copies, passed)


# -- what is known


def _traces(
    reader: StoreReader, key: str, topics: set[str]
) -> tuple[list[tuple[TraceRecord, str]], int]:
    """The records of the trace topic on a message, each with its client's address, and how many
    could not be read. `topics` are those in which it may be.
    """
    try:
        messages = reader.by_key(TRACE_TOPIC, key, _MOST_TRACES)
    except IllegalQuery:
        return [], 0  # nobody has traced a message here
    found: list[tuple[TraceRecord, str]] = []
    bad = 0
    for message in messages:
        records = _records(message)
        bad += records.bad
        found += [(one, str(message.born_host)) for one in records.good if key in one.message_ids]
    if not any(one.kind == "published" for one, _ in found):
        found += _of_batches(reader, key, topics)
    return in_order(iter(found)), bad


def _records(message: MessageView) -> Records:
    try:
        return parse_records(message.body)
    except BadBody:
        return Records([], 1)


def _of_batches(
    reader: StoreReader, key: str, topics: set[str]
) -> Iterator[tuple[TraceRecord, str]]:
    """The traces of batches in which a message was published."""
    stored = [one.store_timestamp for topic in topics for one in _found(reader, topic, key)]
    left = _MOST_LOOKED_AT
    for queue_id in range(reader.read_queues(TRACE_TOPIC)):
        end = reader.max_offset(TRACE_TOPIC, queue_id)
        place = end - left
        if stored:
            since_ms = max(0, min(stored) - _BEFORE_MS)
            place = reader.offset_at_time(TRACE_TOPIC, queue_id, since_ms)
        place = max(place, reader.min_offset(TRACE_TOPIC, queue_id))
        while place < end and left > 0:
            read = reader.get_message(TRACE_TOPIC, queue_id, place, _ONE_READ)
            left -= max(1, len(read.messages))
            place = max(place + 1, read.next_begin_offset)
            for message in filter(lambda one: _mentions(one, key), read.messages):
                for record in _records(message).good:
                    if len(record.message_ids) > 1 and key in record.message_ids:
                        yield record, str(message.born_host)


def _mentions(message: MessageView, key: str) -> bool:
    """Whether the key is in the body at all: most messages need not be parsed."""
    try:
        return key.encode() in message.body
    except BadBody:
        return False


def _groups(store: Path) -> list[GroupState]:
    """The consumer groups of a store that runs."""
    try:
        with Admin(store) as admin:
            return [admin.group(group.name) for group in admin.groups()]
    except StoreClosed:
        return []


def _copies(
    reader: StoreReader, key: str, topics: set[str], groups: Iterable[str]
) -> Iterator[Copy]:
    """All that the store has of a message, in the order in which it was stored."""
    places = [*topics, *map(retry_topic, groups), *map(dead_letter_topic, groups)]
    found = [one for topic in dict.fromkeys(places) for one in _found(reader, topic, key)]
    # A message that was sent back says where it was first.
    first = {one.origin_topic for one in found} - set(places)
    found += [one for topic in sorted(first) for one in _found(reader, topic, key)]
    topics |= first
    waiting = [one for topic in _WAITS for one in _found(reader, topic, key)]
    messages = [
        one
        for one in [*found, *waiting]
        # In a topic where messages of all topics wait, those of another may have the same key.
        if one.topic not in _WAITS or not topics or _bound_for(one) in topics
    ]
    for message in sorted(messages, key=lambda one: one.physical_offset)[:_MOST_COPIES]:
        yield Copy(
            what=_what(message),
            topic=message.topic,
            queue_id=message.queue_id,
            queue_offset=message.queue_offset,
            offset_message_id=message.offset_message_id,
            stored_ms=message.store_timestamp,
            reconsume_times=message.reconsume_times,
            due_ms=(due_by(message.properties) or None) if message.topic == TIMER_TOPIC else None,
        )


def _found(reader: StoreReader, topic: str, key: str) -> list[MessageView]:
    try:
        return reader.by_unique_key(topic, key)[:_MOST_COPIES]
    except IllegalQuery:
        return []  # there is no such topic


def _bound_for(message: MessageView) -> str:
    """The topic to which a waiting message was sent; that of a message that was sent back."""
    properties = message.properties
    return properties.get(RETRY_TOPIC) or properties.get(REAL_TOPIC) or ""


def _what(message: MessageView) -> str:
    if message.topic in _WAITS:
        properties = message.properties
        level = f" by level {properties[DELAY]}" if properties.get(DELAY) else ""
        return f"{_WAITS[message.topic]}{level}, for {properties.get(REAL_TOPIC, '')}"
    if message.topic.startswith(RETRY_PREFIX):
        return f"retry {message.reconsume_times} of {message.topic.removeprefix(RETRY_PREFIX)}"
    if message.topic.startswith(DLQ_PREFIX):
        return f"dead letter of {message.topic.removeprefix(DLQ_PREFIX)}"
    return "stored"


def _passed(groups: Iterable[GroupState], copies: list[Copy]) -> Iterator[Passed]:
    for group in groups:
        for queue in group.queues:
            for one in copies:
                if (queue.topic, queue.queue_id) == (one.topic, one.queue_id):
                    yield Passed(
                        group.name, one.topic, one.queue_id, one.queue_offset, queue.offset,
                        queue.offset > one.queue_offset,
                    )  # fmt: skip


# -- how it is shown


def _put_json(
    key: str,
    records: list[tuple[TraceRecord, str]],
    bad: int,
    copies: list[Copy],
    passed: list[Passed],
) -> None:
    traces: list[dict[str, Any]] = [
        {**msgspec.to_builtins(one), "client": client} for one, client in records
    ]
    put_json(
        {
            "message_id": key,
            "traces": traces,
            "bad_records": bad,
            "copies": msgspec.to_builtins(copies),
            "groups": msgspec.to_builtins(passed),
        },
        indent=2,
    )


def _put_tables(
    key: str,
    records: list[tuple[TraceRecord, str]],
    bad: int,
    copies: list[Copy],
    passed: list[Passed],
) -> None:
    columns = ("Time", "What", "Group", "Client", "Cost", "Result")
    table = plain_table(f"Message {key}: what clients tell", *columns, right=(4,))
    for one, client in records:
        cost = "-" if one.cost_ms is None else f"{one.cost_ms} ms"
        when = "-" if one.at_ms is None else local_time(one.at_ms)
        table.add_row(when, _kind(one), one.group or "-", client, cost, _result(one))
    output().print(table)
    if bad:
        put_line(f"Records that could not be read: {bad}")
    put_line("")
    table = plain_table("What the store has", "Stored", "What", "Topic", "QID", "Offset", "Due",
                        right=(3, 4))  # fmt: skip
    for copy in copies:
        due = "-" if copy.due_ms is None else local_time(copy.due_ms)
        numbers = (str(copy.queue_id), str(copy.queue_offset))
        table.add_row(local_time(copy.stored_ms), copy.what, copy.topic, *numbers, due)
    output().print(table)
    put_line("")
    table = plain_table(
        "Groups", "Group", "Topic", "QID", "Offset", "Group is at", "Passed", right=(2, 3, 4)
    )
    for group in passed:
        where = (str(group.queue_id), str(group.queue_offset), str(group.offset))
        table.add_row(group.group, group.topic, *where, "yes" if group.passed else "no")
    output().print(table)


def _kind(record: TraceRecord) -> str:
    more = [
        record.message_type if record.message_type != "normal" else None,
        f"{record.body_size} bytes" if record.body_size is not None else None,
        f"retry {record.retries}" if record.retries else None,
    ]
    told = ", ".join(one for one in more if one)
    return f"{record.kind} ({told})" if told else record.kind


def _result(record: TraceRecord) -> str:
    if record.state is not None:
        checked = " after a check" if record.from_check else ""
        return f"{record.state} of {record.transaction_id}{checked}"
    if record.succeeded is None:
        return "-"
    return record.result or ("success" if record.succeeded else "failed")
