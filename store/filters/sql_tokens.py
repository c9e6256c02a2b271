"""The tokens of an SQL92 filter, and the error for expressions that are not valid."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from ..errors import StoreError

MAX_LENGTH: Final = 16_384
_KEYWORDS: Final = frozenset(
    (
        *("AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE"),
        *("CONTAINS", "STARTSWITH", "ENDSWITH"),
    )
)
_TOKEN: Final = re.compile(
    r"(?P<space>[ \t\n\r\f]+|--[^\n\r]*|/\*.*?\*/)"
    r"|(?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?"
    r"|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<long>[0-9]+[lL]?)"
    r"|(?P<string>'(?:[^']|'')*')"
    r"|(?P<word>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<sign><>|!=|<=|>=|[=<>(),+-])",
    re.DOTALL,
)


class FilterError(StoreError, ValueError):
    """A filter expression that is not valid. `position` counts characters from 0, `why` is the
    reason.
    """

    def __init__(self, expression: str, position: int, why: str) -> None:
        super().__init__(expression, position, why)
        self.expression = expression
        self.position = position
        self.why = why

    def __str__(self) -> str:
        shown = self.expression if len(self.expression) <= 80 else self.expression[:77] + "..."
        return f"filter {shown!a}, position {self.position}: {self.why}"


class Token(msgspec.Struct, frozen=True):
    """A token at position `at` of the expression. `kind` is "float", "long", "string", "word" (a
    property), "sign" (also for keywords) or "end".
    """

    kind: str
    text: str
    at: int


def split(expression: str) -> list[Token]:
    """The tokens of an expression without blanks and comments; the last is "end". Raises
    FilterError.
    """
    if len(expression) > MAX_LENGTH:
        why = f"{len(expression)} characters; at most {MAX_LENGTH} are allowed"
        raise FilterError(expression, MAX_LENGTH, why)
    tokens = []
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            found = expression[at]
            what = "a string that has no end" if found == "'" else f"{found!a}"
            why = f"found {what}; expected a name, a number, a 'string' or an operator"
            raise FilterError(expression, at, why)
        kind = str(match.lastgroup)
        text = match[0]
        if kind == "word" and text.upper() in _KEYWORDS:
            kind, text = "sign", text.upper()
        if kind != "space":
            tokens.append(Token(kind, text, at))
        at = match.end()
    return [*tokens, Token("end", "the end", at)]
