"""Which messages of a topic a subscription wants: tag expressions and SQL92 (RocketMQ's
`FilterAPI`, `MessageSelector`).

A tag filter is decided twice: by the hash in the consume queue (`codes`), which costs no look at
the record, and exactly (`matches`), because tags may share a hash. An SQL92 filter has properties
to look at, hence no codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, Protocol

from ..record.javahash import java_string_hash
from .sql92 import compile_sql
from .sql_tokens import FilterError

__all__ = [
    "FilterError",
    "FilterKind",
    "Filterable",
    "MessageFilter",
    "SqlFilter",
    "TagFilter",
    "parse_filter",
    "sql_filter",
    "tag_filter",
]

FilterKind = Literal["TAG", "SQL92"]
ALL: Final = "*"
_SEPARATOR: Final = "||"
# What Java's String.trim takes away.
_BLANKS: Final = "".join(map(chr, range(33)))
MAX_TAG_EXPRESSION: Final = 65_536


class Filterable(Protocol):
    """What a filter looks at: a message as a consumer has it."""

    @property
    def tags(self) -> str | None:
        """The TAGS property."""

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties, TAGS and KEYS among them."""


class MessageFilter(Protocol):
    """Filters are equal, and have one hash, if they say the same; `describe` tells them apart."""

    @property
    def codes(self) -> frozenset[int] | None:
        """What the tags code of a queue entry must be (int32); None: any."""

    def matches(self, message: Filterable) -> bool:
        """Whether the message itself is wanted. Never raises."""

    def describe(self) -> tuple[FilterKind, str]:
        """(kind, expression) in one form for all filters that say the same; `parse_filter` takes
        them back.
        """


class _Described:
    """Equality by description."""

    def describe(self) -> tuple[FilterKind, str]:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Described) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(self.describe())

    def __repr__(self) -> str:
        return "{}: {}".format(*self.describe())


class TagFilter(_Described):
    """Messages with one of `tags`; with none given, all messages."""

    def __init__(self, tags: frozenset[str] = frozenset()) -> None:
        self.tags = tags
        self.codes = frozenset(map(java_string_hash, tags)) if tags else None

    def matches(self, message: Filterable) -> bool:
        return not self.tags or message.tags in self.tags

    def describe(self) -> tuple[FilterKind, str]:
        return "TAG", f" {_SEPARATOR} ".join(sorted(self.tags)) or ALL


class SqlFilter(_Described):
    """Messages whose properties fulfil `expression`. Raises FilterError."""

    codes: None = None

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self._matches = compile_sql(expression)

    def matches(self, message: Filterable) -> bool:
        return self._matches(message.properties)

    def describe(self) -> tuple[FilterKind, str]:
        return "SQL92", self.expression.strip(_BLANKS)


def tag_filter(expression: str | None) -> TagFilter:
    """The filter of "a || b": split and trimmed as RocketMQ does; "*", "" and None mean all.

    Raises FilterError where nothing is between the bars: RocketMQ would deliver nothing, silently.
    """
    if not expression or expression.strip(_BLANKS) == ALL:
        return TagFilter()
    if len(expression) > MAX_TAG_EXPRESSION:
        why = f"{len(expression)} characters; at most {MAX_TAG_EXPRESSION} are allowed"
        raise FilterError(expression, MAX_TAG_EXPRESSION, why)
    tags = frozenset(tag.strip(_BLANKS) for tag in expression.split(_SEPARATOR)) - {""}
    if not tags:
        raise FilterError(expression, 0, "it names no tag; expected 'a || b', or * for all")
    return TagFilter(tags)


def sql_filter(expression: str) -> SqlFilter:
    """The filter of an SQL92 expression (`store/filters/sql92.py`). Raises FilterError."""
    return SqlFilter(expression)


def parse_filter(kind: FilterKind, expression: str | None) -> TagFilter | SqlFilter:
    """The filter of a subscription, of RocketMQ's expression types. Raises FilterError."""
    if kind == "TAG":
        return tag_filter(expression)
    if kind == "SQL92":
        return sql_filter(expression or "")
    raise FilterError(str(expression), 0, f"{kind!r} is no kind of filter; expected TAG or SQL92")
