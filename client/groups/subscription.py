"""What a member of a consumer group wants to read, and from where."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from ...store.consumequeue.time_lookup import first_since
from ...store.filters.tags import FilterKind, MessageFilter, parse_filter
from ..consuming.cursors import Cursor, Source
from ..session import Connection


class Sql(str):
    """A filter in SQL92 on properties, where a plain str is a tag expression."""

    __slots__ = ()


Subscription = str | Iterable[str] | Mapping[str, str]


def expressions(subscribe: Subscription) -> dict[str, tuple[FilterKind, str]]:
    """Topic -> (kind, expression) of one topic, of several, or of topics with filters."""
    if isinstance(subscribe, str):
        subscribe = {subscribe: "*"}
    elif not isinstance(subscribe, Mapping):
        subscribe = dict.fromkeys(subscribe, "*")
    if not subscribe:
        raise ValueError("subscribe: name at least one topic")
    return {
        topic: ("SQL92" if isinstance(text, Sql) else "TAG", str(text))
        for topic, text in subscribe.items()
    }


class Selection:
    """A filter as reading applies it: `codes` in the queue, then `chosen` on the messages."""

    def __init__(self, kind: FilterKind, expression: str) -> None:
        self.filter: MessageFilter = parse_filter(kind, expression)
        self.codes = self.filter.codes
        self.all = kind == "TAG" and self.codes is None

    def chosen(self, messages: list[Any]) -> list[Any]:
        """Tags whose hashes collide go here, and everything that only SQL can tell."""
        if self.all:
            return messages
        matches = self.filter.matches
        return [message for message in messages if matches(message)]


def start_request(
    start: str | int, topics: Iterable[str], link: Connection, source: Source
) -> dict[str, Any]:
    """Where a group begins that is new to a topic, as the registry takes it. Raises ValueError."""
    if isinstance(start, int) and start >= 0:
        offsets = {topic: _offsets_at(link, source, topic, start) for topic in topics}
        return {"from": "time", "offsets": offsets}
    if start not in ("earliest", "latest"):
        raise ValueError(f"start={start!r}: 'earliest', 'latest' or a time in epoch ms from 0 on")
    return {"from": start}


def _offsets_at(link: Connection, source: Source, topic: str, time_ms: int) -> dict[str, int]:
    """The first message of each queue that was stored at `time_ms` or later."""
    slots = link.request({"do": "open", "topic": topic, "write": False})["slots"]
    found = {}
    for queue_id, slot in enumerate(slots):
        cursor = source.cursor(topic, queue_id, slot, 0)
        low, high = cursor.start.load(), cursor.end.load()
        found[str(queue_id)] = first_since(partial(_stored_ms, cursor), low, high, time_ms)
        source.drop(cursor)
    return found


def _stored_ms(cursor: Cursor, queue_offset: int) -> int:
    cursor.next = queue_offset
    found = cursor.read(1)
    return found[0].store_timestamp if found else sys.maxsize
