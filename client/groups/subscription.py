"""What a member of a consumer group subscribes to, and where a new group begins."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Self

from ...shm.protocol import requests
from ...shm.protocol.requests import Open
from ...store.errors import IllegalArgument
from ...store.filters.tags import FilterKind, MessageFilter, parse_filter
from .. import arguments
from ..consuming.message_view import MessageView
from ..consuming.start_times import first_since
from ..consuming.store_view import StoreView
from ..session import Connection
from ..times import Start, parse_start

#: More topics than fit into a request.
_MOST_TOPICS = 1 << 16


class Sql(str):
    """A filter in RocketMQ's SQL92 on the properties of messages: `Sql("price > 10")`
    (`MessageSelector.bySql`). Where a subscription takes one, a plain str is a tag expression.

    An expression that cannot be parsed raises FilterError where it is used, not here.
    """

    __slots__ = ()

    def __new__(cls, expression: str = "") -> Self:
        """Raises IllegalType for anything but a str."""
        return super().__new__(cls, arguments.text("expression", expression))


#: A topic, several topics, or a mapping from topic to filter (a tag expression or `Sql`).
Subscription = str | Iterable[str] | Mapping[str, str]


def filter_expressions(subscribe: Subscription) -> dict[str, tuple[FilterKind, str]]:
    """Topic -> (kind of filter, expression) for each topic subscribed to. Raises IllegalArgument
    when there is none, IllegalType.
    """
    if isinstance(subscribe, str):
        pairs: list[tuple[str, str]] = [(subscribe, "*")]
    elif isinstance(subscribe, Mapping):
        pairs = list(arguments.mapping("subscribe", subscribe, _MOST_TOPICS).items())
    else:
        topics = arguments.several("subscribe", subscribe, _MOST_TOPICS)
        pairs = [(topic, "*") for topic in topics]
    if not pairs:
        raise IllegalArgument("subscribe: name at least one topic")
    return {
        arguments.text("topic", topic): (
            "SQL92" if isinstance(expression, Sql) else "TAG",
            arguments.text("filter", expression),
        )
        for topic, expression in pairs
    }


class Selection:
    """A subscription's filter as reading applies it: `codes` on the queue entries, then `select` on
    the messages. `chosen` is `codes` in ascending order. `takes_all` says that every message
    passes. Raises FilterError.
    """

    def __init__(self, kind: FilterKind, expression: str) -> None:
        self.filter: MessageFilter = parse_filter(kind, expression)
        self.codes = self.filter.codes
        self.chosen = None if self.codes is None else array("i", sorted(self.codes))
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
    start: Start,
    topics: Iterable[str],
    link: Connection,
    view: StoreView,
) -> requests.Start:
    """Turns `start` of GroupConsumer into the form of a join request. Raises IllegalArgument,
    IllegalType.

    RocketMQ: `ConsumeFromWhere`. A time is turned into queue offsets here, as RocketMQ's clients
    do.
    """
    at = parse_start(start)
    if isinstance(at, int):
        offsets = {topic: _offsets_at(link, view, topic, at) for topic in topics}
        return requests.Start("time", offsets)
    return requests.Start(at)


def _offsets_at(link: Connection, view: StoreView, topic: str, time_ms: int) -> dict[int, int]:
    """Queue id -> queue offset of the first message that was stored at `time_ms` (epoch ms) or
    later.
    """
    slots = link.request(Open(topic, write=False)).slots
    found = {}
    for queue_id, slot in enumerate(slots):
        cursor = view.cursor(topic, queue_id, slot, 0)
        found[queue_id] = first_since(cursor, time_ms)
        view.remove(cursor)
    return found
