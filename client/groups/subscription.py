"""What a member of a consumer group subscribes to, and where a new group begins."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Literal

from ...shm.protocol.requests import Open, Start
from ...store.consumequeue.time_lookup import first_since
from ...store.filters.tags import FilterKind, MessageFilter, parse_filter
from ..consuming.cursors import Cursor, StoreView
from ..consuming.message_view import MessageView
from ..session import Connection


class Sql(str):
    """A filter in RocketMQ's SQL92 on the properties of messages: `Sql("price > 10")`
    (`MessageSelector.bySql`). Where a subscription takes one, a plain str is a tag expression.

    An expression that cannot be parsed raises FilterError where it is used, not here.
    """

    __slots__ = ()


#: A topic, several topics, or a mapping from topic to filter (a tag expression or `Sql`).
Subscription = str | Iterable[str] | Mapping[str, str]


def filter_expressions(subscribe: Subscription) -> dict[str, tuple[FilterKind, str]]:
    """Topic -> (kind of filter, expression) for each topic subscribed to. Raises ValueError when
    there is none.
    """
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
    """A subscription's filter as reading applies it: `codes` on the queue entries, then `select` on
    the messages. `takes_all` says that every message passes. Raises FilterError.
    """

    def __init__(self, kind: FilterKind, expression: str) -> None:
        self.filter: MessageFilter = parse_filter(kind, expression)
        self.codes = self.filter.codes
        self.takes_all = kind == "TAG" and self.codes is None

    def select(self, messages: list[MessageView]) -> list[MessageView]:
        """The messages that pass the filter. Drops messages whose tags only share the hash of a
        wanted tag, and messages that an SQL expression does not match.
        """
        if self.takes_all:
            return messages
        matches = self.filter.matches
        return [message for message in messages if matches(message)]


def start_request(
    start: Literal["earliest", "latest"] | int,
    topics: Iterable[str],
    link: Connection,
    view: StoreView,
) -> Start:
    """Turns `start` of GroupConsumer into the form of a join request. Raises ValueError.

    RocketMQ: `ConsumeFromWhere`. A time is turned into queue offsets here, as RocketMQ's clients
    do.
    """
    if isinstance(start, int) and start >= 0:
        offsets = {topic: _offsets_at(link, view, topic, start) for topic in topics}
        return Start("time", offsets)
    if start not in ("earliest", "latest"):
        raise ValueError(f"start={start!r}: 'earliest', 'latest' or a time in epoch ms from 0 on")
    return Start(start)


def _offsets_at(link: Connection, view: StoreView, topic: str, time_ms: int) -> dict[int, int]:
    """Queue id -> queue offset of the first message that was stored at `time_ms` (epoch ms) or
    later.
    """
    slots = link.request(Open(topic, write=False)).slots
    found = {}
    for queue_id, slot in enumerate(slots):
        cursor = view.cursor(topic, queue_id, slot, 0)
        low, high = cursor.start.load(), cursor.end.load()
        found[queue_id] = first_since(partial(_stored_ms, cursor), low, high, time_ms)
        view.remove(cursor)
    return found


def _stored_ms(cursor: Cursor, queue_offset: int) -> int:
    cursor.next = queue_offset
    found = cursor.read(1)
    return found[0].store_timestamp if found else sys.maxsize
