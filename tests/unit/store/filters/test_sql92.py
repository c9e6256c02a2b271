"""SQL92 filters against a plain twin, and against hostile expressions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sql_twin import Message, Tree, evaluate, render
from support.strategies import SQL_EXPRESSIONS, SQL_PROPERTIES

from silomq.store.filters.sql92 import MAX_DEPTH
from silomq.store.filters.sql_tokens import MAX_LENGTH
from silomq.store.filters.tags import (
    FilterError,
    parse_filter,
    sql_filter,
)


def holds(expression: str, **properties: str) -> bool:
    return sql_filter(expression).matches(Message(properties))


@settings(max_examples=600)
@given(SQL_EXPRESSIONS, SQL_PROPERTIES)
def test_sql_equals_its_twin(tree: Tree, properties: dict[str, str]) -> None:
    assert sql_filter(render(tree)).matches(Message(properties)) == evaluate(tree, properties)


@pytest.mark.parametrize(
    ("expression", "properties", "expected"),
    [
        ("a = 1", {"a": "1"}, True),
        ("a = 1", {"a": "01"}, True),
        ("a = 1", {"a": "1.0"}, False),
        ("a = 1.0", {"a": "1"}, True),
        ("a = '1'", {"a": "1.0"}, False),
        ("a = 1", {}, False),
        ("a <> 1", {}, False),
        ("a != 1", {"a": "2"}, True),
        ("a > 5 OR b = 'x'", {"a": "six", "b": "x"}, False),
        ("b = 'x' OR a > 5", {"a": "six", "b": "x"}, True),
        ("a > b", {"a": "10", "b": "9"}, True),
        ("a > b", {"a": "y", "b": "x"}, False),
        ("a = b", {}, True),
        ("a = b", {"a": "1"}, False),
        ("NOT a = b", {"a": "1"}, True),
        ("a = TRUE", {"a": "True"}, True),
        ("TRUE = a", {"a": "no"}, False),
        ("a", {"a": "true"}, False),
        ("NOT a", {"a": "true"}, True),
        ("NOT a", {}, False),
        ("a IS NULL AND b IS NOT NULL", {"b": ""}, True),
        ("a IN ('x', 'it''s')", {"a": "it's"}, True),
        ("a NOT IN ('x')", {}, False),
        ("a NOT IN ('x')", {"a": "y"}, True),
        ("a BETWEEN 1 AND 3", {"a": "3"}, True),
        ("a NOT BETWEEN 1 AND 3", {"a": "3"}, False),
        ("a not between 1 and 3 and b = 'x'", {"a": "4", "b": "x"}, True),
        ("a CONTAINS 'b' AND a STARTSWITH 'a' AND a ENDSWITH 'c'", {"a": "abc"}, True),
        ("a NOT CONTAINS 'b'", {}, False),
        ("a NOT CONTAINS 'b'", {"a": "c"}, True),
        ("a CONTAINS ''", {"a": "c"}, False),
        ("a = -9223372036854775808", {"a": "-9223372036854775808"}, True),
        ("a >= -.5e1", {"a": "-5"}, True),
        ("a > 1", {"a": "9223372036854775808"}, False),
        ("a > 1.0", {"a": " 1e400f "}, True),
        ("a < 1.0", {"a": "NaN"}, False),
        ("a > 1.0", {"a": "NaN"}, True),
        ("TAGS = 'A' /* a * */ AND $x_1 = +2L -- b\n", {"TAGS": "A", "$x_1": "2"}, True),
        ("(a > 1) = TRUE", {"a": "2"}, True),
        ("a = 1 OR TRUE", {}, True),
        ("NULL OR FALSE", {}, False),
        ("NOT (a IS NULL) AND (NOT b = 1)", {"a": "1", "b": "2"}, True),
    ],
)  # fmt: skip
def test_sql_by_examples(expression: str, properties: dict[str, str], expected: bool) -> None:
    assert holds(expression, **properties) is expected


@pytest.mark.parametrize(
    ("expression", "position", "why"),
    [
        ("", 0, "found the end, expected a property"),
        ("a = ", 4, "found the end, expected a property"),
        ("a = 1 b", 6, "found 'b', expected AND, OR"),
        ("(a = 1", 6, "found the end, expected AND, OR, a comparison or ')'"),
        ("a = 'x", 4, "a string that has no end"),
        ("a ? 1", 2, "found '?'"),
        ("a IN (1)", 6, "found '1', expected a 'string'"),
        ("a IN ('x' 'y')", 10, "expected ',' or ')'"),
        ("a IS 1", 5, "expected NULL or NOT NULL"),
        ("a BETWEEN 1 OR 2", 12, "expected 'AND'"),
        ("a BETWEEN 3 AND 1", 2, "nothing is between 3 and 1"),
        ("a > 'x'", 2, "> compares properties and numbers only"),
        ("a = NULL", 2, "use IS NULL"),
        ("'x' IN ('x')", 4, "IN needs the name of a property"),
        ("a = 1 AND 5", 10, "this is no condition"),
        ("'x'", 0, "this is no condition"),
        ("a = 9223372036854775808", 4, "does not fit a Java long"),
        ("a = 1e999", 4, "does not fit a Java double"),
        ("TRUE = 1", 5, "truth value"),
        ("a = 1 AND", 9, "found the end"),
        ("a STARTSWITH b", 13, "expected a 'string'"),
        ("(" * 5000, MAX_DEPTH + 1, "nested deeper"),
        ("NOT " * 3000, 4 * (MAX_DEPTH + 1), "nested deeper"),
        ("a" + " = b" * 3000, 4 * MAX_DEPTH + 2, "nested deeper"),
        ("a" * (MAX_LENGTH + 1), MAX_LENGTH, "at most"),
        ("a = " + "9" * 15_000, 4, "does not fit a Java long"),
    ],
)
def test_errors_say_where_and_what(expression: str, position: int, why: str) -> None:
    with pytest.raises(FilterError) as caught:
        sql_filter(expression)
    assert why in str(caught.value)
    assert f"position {position}:" in str(caught.value)
    assert caught.value.position == position


WORDS = st.sampled_from(
    [
        *("a", "b", "TAGS", "AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE"),
        *("CONTAINS", "STARTSWITH", "ENDSWITH", "(", ")", ",", "=", "<>", "!=", "<", ">", "<="),
        *(">=", "+", "-", "1", "2.5", ".5", "1e3", "9223372036854775808", "'x'", "''", "'", "--"),
        *("/*", "*/", "\n", "ä", "\0"),
    ]
)


@settings(max_examples=1000)
@given(st.lists(WORDS, max_size=30).map(" ".join) | st.text(max_size=40), SQL_PROPERTIES)
def test_anything_is_a_filter_or_an_error(text: str, properties: dict[str, str]) -> None:
    try:
        found = sql_filter(text)
    except FilterError as error:
        position = error.position
    else:
        position = 0
        assert found.matches(Message(properties)) in (True, False)
        assert parse_filter(*found.describe()) == found
    assert 0 <= position <= len(text)


def test_long_flat_expressions_are_fine() -> None:
    many = " OR ".join(f"a = {n}" for n in range(1000))
    assert holds(many, a="999")
    assert not holds(many, a="1000")
