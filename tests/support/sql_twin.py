"""SQL92 filters as plain trees: their text, and their value straight from RocketMQ's rules."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

#: ("and", left, right), ("=", left, right), ("in", name, negative, strings) and so on.
Tree = tuple[Any, ...]
#: What searches in a property for a constant string.
SEARCHES = ("CONTAINS", "STARTSWITH", "ENDSWITH")


@dataclass
class Message:
    """As much of a message as filters look at."""

    properties: dict[str, str] = field(default_factory=dict)

    @property
    def tags(self) -> str | None:
        return self.properties.get("TAGS")


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def render(tree: Tree) -> str:
    """The expression as text."""
    match tree:
        case ("and" | "or" as word, left, right):
            return f"({render(left)}) {word} ({render(right)})"
        case ("not", inner):
            return f"NOT ({render(inner)})"
        case ("property", name):
            return str(name)
        case ("constant", value):
            if isinstance(value, str):
                return _quote(value)
            return "NULL" if value is None else str(value)
        case ("in", name, negative, texts):
            return f"{name} {'NOT ' * negative}IN ({','.join(map(_quote, texts))})"
        case ("between", operand, negative, (low, high)):
            return f"{render(operand)} {'not ' * negative}between {low} and {high}"
        case ("null", name, negative):
            return f"{name} IS {'NOT ' * negative}NULL"
        case ("CONTAINS" | "STARTSWITH" | "ENDSWITH" as word, name, negative, text):
            return f"{name} {'NOT ' * negative}{word} {_quote(text)}"
        case (sign, left, right):
            return f"{render(left)} {sign} {render(right)}"
    raise AssertionError(tree)


class _NoNumberError(Exception):
    pass


def evaluate(tree: Tree, properties: dict[str, str]) -> bool:
    """Whether the properties fulfil the expression."""
    try:
        return _value(tree, properties) is True
    except _NoNumberError:
        return False


def _value(tree: Tree, p: dict[str, str]) -> Any:
    match tree:
        case ("and", left, right):
            one = _value(left, p)
            if one is False:
                return False
            other = _value(right, p)
            return False if other is False else None if None in (one, other) else True
        case ("or", left, right):
            return _value(("not", ("and", ("not", left), ("not", right))), p)
        case ("not", inner):
            value = _value(inner, p)
            return None if value is None else not value
        case ("property", name):
            return p.get(name)
        case ("constant", value):
            return value
        case ("between", operand, negative, (low, high)):
            signs = ("or", "<", ">") if negative else ("and", ">=", "<=")
            low, high = ("constant", low), ("constant", high)
            return _value((signs[0], (signs[1], operand, low), (signs[2], operand, high)), p)
        case ("=" | "<>" | "<" | "<=" | ">" | ">=" as sign, left, right):
            return _compare(sign, _value(left, p), _value(right, p))
    return _of_property(tree, p)


def _of_property(tree: Tree, p: dict[str, str]) -> Any:
    match tree:
        case ("in", name, negative, texts):
            return None if name not in p else (p[name] in texts) != negative
        case ("null", name, negative):
            return (name not in p) != negative
        case (word, name, negative, text):
            if name not in p or not text:
                return False
            pattern = {"CONTAINS": ".*{}.*", "STARTSWITH": "{}.*", "ENDSWITH": ".*{}"}[word]
            found = re.fullmatch(pattern.format(re.escape(text)), p[name], re.DOTALL)
            return bool(found) != negative
    raise AssertionError(tree)


def _compare(sign: str, a: Any, b: Any) -> Any:
    if sign == "<>":
        value = _compare("=", a, b)
        return None if value is None else not value
    if sign == "=":
        if a is None or b is None:
            return True if a is b else None if a is None else False
    elif a is None or b is None:
        return None
    elif isinstance(a, str) and isinstance(b, str):
        a, b = _double(a), _double(b)
    if isinstance(a, str) and not isinstance(b, str):
        a = _like(b, a)
    elif isinstance(b, str) and not isinstance(a, str):
        b = _like(a, b)
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    # Java orders NaN behind everything, and -0.0 before 0.0, which no value here is.
    one, other = ((True, 0) if str(x) == "nan" else (False, x) for x in (a, b))
    return {"=": one == other, "<": one < other, "<=": one <= other, ">": one > other,
            ">=": one >= other}[sign]  # fmt: skip


def _like(value: Any, text: str) -> Any:
    if isinstance(value, bool):
        return text.lower() == "true"
    if isinstance(value, float):
        return _double(text)
    if not re.fullmatch(r"-?\d+", text) or abs(int(text)) >= 2**63:
        raise _NoNumberError
    return int(text)


def _double(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise _NoNumberError from None
    assert not math.isinf(number)
    return number
