"""Values in SQL92 filters: how Java parses numbers, and how RocketMQ compares values of different
types (`ComparisonExpression`).
"""

from __future__ import annotations

import math
import re
from typing import Final

Value = str | int | float | bool | None

LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1
_JAVA_LONG: Final = re.compile(r"[+-]?[0-9]{1,25}")
_JAVA_DOUBLE: Final = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
)
_BLANKS: Final = "".join(map(chr, range(33)))


class Unusable(Exception):
    """A text that cannot be parsed as its comparison needs: the whole expression is false."""


def order(a: Value, b: Value) -> int:
    """-1, 0 or 1 as Java's compareTo after RocketMQ's conversions; -1 for a boolean and a number.
    Neither value may be None. Raises Unusable.
    """
    if isinstance(a, str) and not isinstance(b, str):
        a = _read_as(b, a)
    elif isinstance(b, str) and not isinstance(a, str):
        b = _read_as(a, b)
    if isinstance(a, bool) is not isinstance(b, bool):
        return -1
    if isinstance(a, float) or isinstance(b, float):
        return _order_doubles(float(a or 0), float(b or 0))
    assert a is not None
    assert b is not None
    return (a > b) - (a < b)  # type: ignore[operator]  # both strings, or both numbers


def _order_doubles(a: float, b: float) -> int:
    """Double.compareTo: NaN equals itself and is greater than all others, -0.0 is below 0.0."""
    one, other = ((math.isnan(x), 0.0 if math.isnan(x) else x) for x in (a, b))
    found = (one > other) - (one < other)
    if found == 0 and not one[0]:
        signs = [math.copysign(1.0, x) for x in (a, b)]
        return (signs[0] > signs[1]) - (signs[0] < signs[1])
    return found


def _read_as(other: Value, text: str) -> Value:
    """The text, parsed as the type of the value with which it is compared. Raises Unusable."""
    if isinstance(other, bool):
        return text.lower() == "true"
    if isinstance(other, float):
        return double(text)
    if _JAVA_LONG.fullmatch(text):
        number = int(text)
        if LONG_MIN <= number <= LONG_MAX:
            return number
    raise Unusable


def double(text: str) -> float:
    """Double.valueOf, without hexadecimal numbers. Raises Unusable for any other text, and for one
    of more than 400 characters.
    """
    text = text.strip(_BLANKS)
    if len(text) > 400 or not _JAVA_DOUBLE.fullmatch(text):
        raise Unusable
    return float(text.rstrip("fFdD") if text[-1] in "fFdD" else text)
