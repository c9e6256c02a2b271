"""Tag filters, and the kinds of filters."""

from __future__ import annotations

import pytest
from support.sql_twin import Message

from silomq.store.filters.tags import (
    FilterError,
    SqlFilter,
    TagFilter,
    parse_filter,
    sql_filter,
    tag_filter,
)
from silomq.store.record.javahash import java_string_hash


@pytest.mark.parametrize("expression", [None, "", "*", " * "])
def test_a_star_matches_everything(expression: str | None) -> None:
    found = tag_filter(expression)
    assert found.codes is None
    assert found.matches(Message())
    assert found.matches(Message({"TAGS": "a"}))
    assert found == TagFilter() == parse_filter("TAG", expression)
    assert found.describe() == ("TAG", "*")


def test_tags_are_split_and_trimmed() -> None:
    found = tag_filter(" a||b || a|c ||")
    assert found.tags == {"a", "b", "a|c"}
    assert found.codes == frozenset(map(java_string_hash, found.tags))
    assert [found.matches(Message({"TAGS": t})) for t in ("a", "b", "a|c", "c", "a || b", "")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
    assert not found.matches(Message())
    assert found == tag_filter("b || a|c || a")
    assert hash(found) == hash(parse_filter(*found.describe()))
    assert found != tag_filter("a") != sql_filter("a")


def test_tags_with_one_hash_are_told_apart() -> None:
    found = tag_filter("Aa")
    assert found.codes == tag_filter("BB").codes == frozenset([java_string_hash("BB")])
    assert found.matches(Message({"TAGS": "Aa"}))
    assert not found.matches(Message({"TAGS": "BB"}))


@pytest.mark.parametrize("expression", ["||", " || ", " ", "x" * 70_000])
def test_tag_expressions_that_are_none(expression: str) -> None:
    with pytest.raises(FilterError, match=r"names no tag|at most"):
        tag_filter(expression)


def test_a_filter_has_a_kind() -> None:
    assert isinstance(parse_filter("SQL92", "a = 1"), SqlFilter)
    assert parse_filter("SQL92", " a = 1 ") == sql_filter("a = 1") != sql_filter("a = 2")
    assert repr(tag_filter("a||b")) == "TAG: a || b"
    with pytest.raises(FilterError, match="no kind of filter"):
        parse_filter("CLASS", "x")  # type: ignore[arg-type]
    with pytest.raises(FilterError):
        parse_filter("SQL92", None)
