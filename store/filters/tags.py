"""The filters of subscriptions: tag expressions and SQL92 (RocketMQ's `FilterAPI`,
`MessageSelector`).

A tag filter is tested twice: by the hash in the consume queue (`codes`), without the record, and
then exactly (`matches`), because tags may share a hash. An SQL92 filter needs the properties, so it
has no codes.
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
# The characters that Java's String.trim removes.
_BLANKS: Final = "".join(map(chr, range(33)))
MAX_TAG_EXPRESSION: Final = 65_536


class Filterable(Protocol):
    """The fields of a message that a filter reads."""

    @property
    def tags(self) -> str | None:
        """The TAGS property."""

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties, TAGS and KEYS among them."""


class MessageFilter(Protocol):
    """A filter of one subscription. Filters with the same description are equal and have the same
    hash.
    """

    @property
    def codes(self) -> frozenset[int] | None:
        """The tags codes (int32) of which a queue entry must have one; None: any."""

    def matches(self, message: Filterable) -> bool:
        """Whether the filter accepts the message, by its tags or properties. Never raises."""

    def describe(self) -> tuple[FilterKind, str]:
        """(kind, expression) in a canonical form, which `parse_filter` turns back into the
        filter.
        """

    def __hash__(self) -> int: ...


class _Described:
    """Filters that are equal if their descriptions are."""

    def describe(self) -> tuple[FilterKind, str]:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Described) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(self.describe())

    def __repr__(self) -> str:
        return "{}: {}".format(*self.describe())


class TagFilter(_Described):
    """Accepts messages with one of `tags`, or all messages if `tags` is empty."""

    def __init__(self, tags: frozenset[str] = frozenset()) -> None:
        self.tags = tags
        self.codes = frozenset(map(java_string_hash, tags)) if tags else None

    def matches(self, message: Filterable) -> bool:
        return not self.tags or message.tags in self.tags

    def describe(self) -> tuple[FilterKind, str]:
        return "TAG", f" {_SEPARATOR} ".join(sorted(self.tags)) or ALL


class SqlFilter(_Described):
    """Accepts messages whose properties fulfil `expression`. Raises FilterError."""

    codes: None = None

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self._matches = compile_sql(expression)

    def matches(self, message: Filterable) -> bool:
        return self._matches(message.properties)

    def describe(self) -> tuple[FilterKind, str]:
        return "SQL92", self.expression.strip(_BLANKS)


def tag_filter(expression: str | None) -> TagFilter:
    """The filter of a tag expression such as "a || b", split and trimmed as RocketMQ does. "*", ""
    and None mean all messages.

    Raises FilterError if the expression is too long or has no tag. RocketMQ would accept the latter
    and deliver no message.
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
    """The filter of a subscription. `kind` is RocketMQ's expression type, "TAG" or "SQL92". Raises
    FilterError.
    """
    if kind == "TAG":
        return tag_filter(expression)
    if kind == "SQL92":
        return sql_filter(expression or "")
    raise FilterError(str(expression), 0, f"{kind!r} is no kind of filter; expected TAG or SQL92")
