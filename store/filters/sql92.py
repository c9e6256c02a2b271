"""SQL92 message filters: RocketMQ's selector language, compiled to closures.

    price > 10 AND region IN ('north', 'it''s') OR NOT (TAGS STARTSWITH 'test' OR a IS NULL)

Grammar and values are those of RocketMQ (`SelectorParser.jj`, `ComparisonExpression`):

- A property is a string. Compared with a number it is parsed as a Java long or double, compared
  with TRUE or FALSE as a boolean. `<`, `<=`, `>` and `>=` compare two properties as doubles, `=` as
  strings.
- A missing property is unknown (NULL), and operators follow three-valued logic. But IS NULL is then
  true, and CONTAINS, STARTSWITH and ENDSWITH are false.
- If a property cannot be parsed as its comparison needs, the whole expression is false.

Two things go beyond RocketMQ: `!=` means `<>`, and NOT applies to the comparison behind it, as in
SQL. RocketMQ reads `NOT a = 1` as `(NOT a) = 1`, which no message fulfils.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

import msgspec

from .sql_tokens import FilterError, Token, split
from .sql_values import LONG_MAX, Unusable, Value, double, order

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]

MAX_DEPTH: Final = 64
_SEARCHES: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": lambda text, part: part in text,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}
_ORDERS: Final[dict[str, Callable[[int], bool]]] = {
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
}


class _Node(msgspec.Struct, frozen=True):
    """A part of the expression. `kind` is "boolean", "property", "constant" or "number" (a property
    or expression with a minus). `value` is that of a constant.
    """

    kind: str
    evaluate: Evaluate
    depth: int = 1
    value: Value = None


def compile_sql(expression: str) -> Callable[[Properties], bool]:
    """Compiles `expression` to a function that says whether a message's properties fulfil it, and
    never raises. Raises FilterError for an expression that is not valid.
    """
    evaluate = _Parser(expression).parse()

    def matches(properties: Properties) -> bool:
        try:
            return evaluate(properties) is True
        except Unusable:
            return False

    return matches


class _Parser:
    """A recursive-descent parser. Levels of brackets, NOT and signs count towards MAX_DEPTH."""

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.level = 0
        self.tokens = split(expression)
        self.next = 0

    def fail(self, at: int, why: str) -> NoReturn:
        raise FilterError(self.expression, at, why)

    # -- tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.next]

    def take(self, *signs: str) -> str | None:
        """Consumes the given signs or keywords if they come next, and returns the last of them.
        Otherwise consumes none and returns None.
        """
        for i, sign in enumerate(signs):
            found = self.tokens[min(self.next + i, len(self.tokens) - 1)]
            if found.kind != "sign" or found.text != sign:
                return None
        self.next += len(signs)
        return signs[-1]

    def expected(self, what: str) -> NoReturn:
        found = self.token
        text = found.text if len(found.text) <= 40 else found.text[:37] + "..."
        shown = text if found.kind == "end" else f"{text!a}"
        self.fail(found.at, f"found {shown}, expected {what}")

    def need(self, sign: str) -> None:
        if self.take(sign) is None:
            self.expected(f"{sign!r}")

    def string(self) -> str:
        if self.token.kind != "string":
            self.expected("a 'string'")
        self.next += 1
        return self.tokens[self.next - 1].text[1:-1].replace("''", "'")

    # -- grammar

    def parse(self) -> Evaluate:
        at = self.token.at
        evaluate = self.truth(self.either(), at).evaluate
        if self.token.kind != "end":
            self.expected("AND, OR, a comparison or the end")
        return evaluate

    def deeper(self, parse: Callable[[], _Node]) -> _Node:
        self.level += 1
        self.check_depth(self.level)
        node = parse()
        self.level -= 1
        return node

    def check_depth(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.fail(self.token.at, f"nested deeper than {MAX_DEPTH} levels")

    def node(self, evaluate: Evaluate, *parts: _Node, kind: str = "boolean") -> _Node:
        depth = 1 + max(part.depth for part in parts)
        self.check_depth(depth)
        return _Node(kind, evaluate, depth)

    def truth(self, node: _Node, at: int) -> _Node:
        """The node as a boolean. A property alone is a string and never true: it is false, or
        unknown if it is missing.
        """
        if node.kind == "boolean":
            return node
        if node.kind == "constant" and (node.value is None or isinstance(node.value, bool)):
            return node
        if node.kind != "property":
            self.fail(at, "this is no condition: compare it with something")
        inner = node.evaluate
        return self.node(lambda p: None if inner(p) is None else False, node)

    def either(self) -> _Node:
        return self._joined(self.both, "OR", ends=True)

    def both(self) -> _Node:
        return self._joined(self.negation, "AND", ends=False)

    def _joined(self, parse: Callable[[], _Node], word: str, *, ends: bool) -> _Node:
        """Parses parts that `word` (OR or AND) joins. The result is `ends` if a part is, else
        unknown if a part is unknown, else the opposite of `ends`.
        """
        at = self.token.at
        node = parse()
        if self.token.kind != "sign" or self.token.text != word:
            return node
        nodes = [self.truth(node, at)]
        while self.take(word):
            at = self.token.at
            nodes.append(self.truth(parse(), at))
        parts = tuple(node.evaluate for node in nodes)

        def evaluate(properties: Properties) -> Value:
            unknown = False
            for part in parts:
                value = part(properties)
                if value is ends:
                    return ends
                unknown = unknown or value is None
            return None if unknown else not ends

        return self.node(evaluate, *nodes)

    def negation(self) -> _Node:
        if self.take("NOT") is None:
            return self.equality()
        at = self.token.at
        return self._not(self.truth(self.deeper(self.negation), at))

    def _not(self, node: _Node) -> _Node:
        inner = node.evaluate

        def evaluate(properties: Properties) -> Value:
            value = inner(properties)
            return None if value is None else not value

        return self.node(evaluate, node)

    def equality(self) -> _Node:
        left = self.comparison()
        while True:
            at = self.token.at
            if self.take("=") or self.take("<>") or self.take("!="):
                negative = self.tokens[self.next - 1].text != "="
                left = self._equal(left, self.comparison(), at)
                left = self._not(left) if negative else left
            elif self.take("IS", "NULL"):
                left = self._is_null(left)
            elif self.take("IS", "NOT", "NULL"):
                left = self._not(self._is_null(left))
            elif self.take("IS"):
                self.expected("NULL or NOT NULL")
            else:
                return left

    def _is_null(self, node: _Node) -> _Node:
        inner = node.evaluate
        return self.node(lambda p: inner(p) is None, node)

    def _equal(self, left: _Node, right: _Node, at: int) -> _Node:
        for node in (left, right):
            if node.kind == "constant" and node.value is None:
                self.fail(at, "nothing equals NULL: use IS NULL or IS NOT NULL")
        if left.kind == right.kind == "constant" and (
            isinstance(left.value, bool) and not isinstance(right.value, bool)
        ):
            self.fail(at, "a truth value cannot be compared with something else")
        one, other = left.evaluate, right.evaluate

        def evaluate(properties: Properties) -> Value:
            a, b = one(properties), other(properties)
            if a is None or b is None:
                # As in RocketMQ: unknown if only the left is missing, true if both are, else false.
                return (b is None) or None if a is None else False
            return order(a, b) == 0

        return self.node(evaluate, left, right)

    def comparison(self) -> _Node:
        left = self.unary()
        while True:
            at = self.token.at
            sign = next((sign for sign in _ORDERS if self.take(sign)), None)
            if sign:
                left = self._ordered(left, sign, self.unary(), at)
                continue
            negative = self.token.text == "NOT" and self.tokens[self.next + 1].kind == "sign"
            words = ("NOT",) if negative else ()
            search = next((word for word in _SEARCHES if self.take(*words, word)), None)
            if search:
                left = self._searched(left, search, self.string(), negative=negative)
            elif self.take(*words, "BETWEEN"):
                left = self._between(left, at, negative=negative)
            elif self.take(*words, "IN"):
                left = self._in(left, at, negative=negative)
            else:
                return left

    def _ordered(self, left: _Node, sign: str, right: _Node, at: int) -> _Node:
        for node in (left, right):
            number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
            if node.kind == "boolean" or (node.kind == "constant" and not number):
                self.fail(at, f"{sign} compares properties and numbers only")
        one, other, fits = left.evaluate, right.evaluate, _ORDERS[sign]

        def evaluate(properties: Properties) -> Value:
            a, b = one(properties), other(properties)
            if a is None or b is None:
                return None
            if isinstance(a, str) and isinstance(b, str):
                return fits(order(double(a), double(b)))
            return fits(order(a, b))

        return self.node(evaluate, left, right)

    def _between(self, left: _Node, at: int, *, negative: bool) -> _Node:
        low = self.unary()
        self.need("AND")
        high = self.unary()
        if low.kind == high.kind == "constant" and not negative:
            a, b = low.value, high.value
            if a is not None and b is not None and type(a) is type(b) and order(b, a) < 0:
                self.fail(at, f"nothing is between {a!r} and {b!r}: the lesser comes first")
        signs = ("<", ">") if negative else (">=", "<=")
        parts = [
            self._ordered(left, sign, limit, at)
            for sign, limit in zip(signs, (low, high), strict=True)
        ]
        first, second = parts[0].evaluate, parts[1].evaluate

        def evaluate(properties: Properties) -> Value:
            a = first(properties)
            if a is negative:
                return negative
            b = second(properties)
            if b is negative:
                return negative
            return None if a is None or b is None else not negative

        return self.node(evaluate, *parts)

    def _in(self, left: _Node, at: int, *, negative: bool) -> _Node:
        if left.kind != "property":
            self.fail(at, "IN needs the name of a property before it")
        self.need("(")
        found = [self.string()]
        while self.take(","):
            found.append(self.string())
        if self.take(")") is None:
            self.expected("',' or ')'")
        inner, strings = left.evaluate, frozenset(found)

        def evaluate(properties: Properties) -> Value:
            value = inner(properties)
            return None if value is None else (value in strings) is not negative

        return self.node(evaluate, left)

    def _searched(self, left: _Node, word: str, part: str, *, negative: bool) -> _Node:
        inner, search = left.evaluate, _SEARCHES[word]

        def evaluate(properties: Properties) -> Value:
            value = inner(properties)
            return bool(part) and isinstance(value, str) and search(value, part) is not negative

        return self.node(evaluate, left)

    def unary(self) -> _Node:
        at = self.token.at
        if self.take("+"):
            return self.deeper(self.unary)
        if self.take("-"):
            return self._negated(self.deeper(self.unary), at)
        if self.take("NOT"):
            at = self.token.at
            return self._not(self.truth(self.deeper(self.unary), at))
        return self.primary()

    def _negated(self, node: _Node, at: int) -> _Node:
        value = node.value
        if node.kind == "constant" and isinstance(value, int | float):
            if isinstance(value, bool):
                self.fail(at, "- needs a number")
            negative = -value
            return _Node("constant", lambda _: negative, 1, negative)
        # As in RocketMQ, the negative of a property, which is a string, is unknown.
        return self.node(lambda _: None, node, kind="number")

    def primary(self) -> _Node:
        token = self.token
        if self.take("("):
            node = self.deeper(self.either)
            if self.take(")") is None:
                self.expected("AND, OR, a comparison or ')'")
            return node
        if token.kind == "word":
            self.next += 1
            name = token.text
            return _Node("property", lambda properties: properties.get(name))
        value = self._constant(token)
        return _Node("constant", lambda _: value, 1, value)

    def _constant(self, token: Token) -> Value:
        if token.kind == "string":
            return self.string()
        for word, value in (("TRUE", True), ("FALSE", False), ("NULL", None)):
            if self.take(word):
                return value
        if token.kind not in ("long", "float"):
            self.expected("a property, a number, a 'string', TRUE, FALSE, NULL, NOT or '('")
        self.next += 1
        if token.kind == "float":
            number = float(token.text)
            if math.isinf(number):
                self.fail(token.at, "the number does not fit a Java double")
            return number
        digits = token.text.rstrip("lL")
        # The length is checked first: int() of a long digit string takes quadratic time.
        negative = self.next > 1 and self.tokens[self.next - 2].text == "-"
        if len(digits) > 25 or int(digits) > LONG_MAX + negative:
            self.fail(token.at, f"the number {digits[:30]} does not fit a Java long")
        return int(digits)
