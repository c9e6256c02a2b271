"""Requests that make sense, nearly make sense, and make none: packets for a store's socket.

The generator walks the request structs themselves, so a new request or field is covered as soon as
it exists.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from silomq.shm.parts import PART
from silomq.shm.protocol.requests import PROTOCOL, AnyRequest

if TYPE_CHECKING:
    import random

_REQUESTS = inspect.type_info(AnyRequest)
assert isinstance(_REQUESTS, inspect.UnionType)
#: One type for each request.
STRUCTS: list[inspect.StructType] = [
    t for t in _REQUESTS.types if isinstance(t, inspect.StructType)
]

#: Names that requests use again and again, so that they meet things that exist.
NAMES = (
    "t",
    "u",
    "v",
    "g",
    "h",
    "%RETRY%g",
    "SCHEDULE_TOPIC_XXXX",
    "",
    "a/b",
    "..",
    "x" * 128,
    "ü",
)
FILTERS = ("*", "a || b", "a > 5", "(" * 500)
INTEGERS = (
    0,
    1,
    2,
    3,
    4,
    6,
    7,
    16,
    1024,
    4096,
    2**31 - 1,
    2**31,
    2**63 - 1,
    2**63,
    2**64,
    -1,
    -(2**63),
)
GARBAGE: tuple[Any, ...] = (
    None, True, False, 0, -1, 2**63, 2**64, 10**400, 1.5, -0.0, 1e308, "", "t", "\0",
    "\u2028", "x" * 70_000, [], {}, [[]], {"": {}}, ["t", 0],
    {"t": {"0": 0}}, [None] * 50, {"0": -1}, {"-1": 0}, {"x": 1},
)  # fmt: skip


class Requests:
    """Packets from a generator of random numbers."""

    def __init__(self, numbers: random.Random) -> None:
        self.numbers = numbers

    def packets(self) -> list[bytes]:
        """The packets of one request, or of what is none."""
        kind = self.numbers.random()
        if kind < 0.45:
            return [self._text(self.request())]
        if kind < 0.8:
            return [self._text(self._spoiled(self.request()))]
        if kind < 0.9:
            return [self._cut(self._text(self.request()))]
        return self._raw()

    def request(self) -> dict[str, Any]:
        """A request with values of the right types, which may lie outside of all bounds."""
        struct = self.numbers.choice(STRUCTS)
        found = self._struct(struct)
        if struct.tag == "hello" and self.numbers.random() < 0.8:
            found["protocol"] = PROTOCOL
        return found

    def _struct(self, struct: inspect.StructType) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if struct.tag_field is not None:
            found[struct.tag_field] = struct.tag
        for each in struct.fields:
            if each.required or self.numbers.random() < 0.7:
                found[each.encode_name] = self._value(each.type)
        return found

    def _value(self, kind: inspect.Type) -> Any:
        numbers = self.numbers
        match kind:
            case inspect.UnionType():
                return self._value(numbers.choice(kind.types))
            case inspect.StructType():
                return self._struct(kind)
            case inspect.LiteralType():
                return numbers.choice(kind.values)
            case inspect.NoneType():
                return None
            case inspect.BoolType():
                return numbers.random() < 0.5
            case inspect.IntType():
                near = [n + d for n in (kind.ge or 0, kind.le or 0) for d in (-1, 0, 1)]
                return numbers.choice([*INTEGERS, *near, numbers.randrange(9)])
            case inspect.StrType():
                return numbers.choice([*NAMES, *FILTERS] if numbers.random() < 0.2 else NAMES[:5])
            case inspect.TupleType():
                return [self._value(each) for each in kind.item_types]
            case inspect.ListType():
                return [self._value(kind.item_type) for _ in range(self._count())]
            case inspect.DictType():
                keys = [str(self._value(kind.key_type)) for _ in range(self._count())]
                return {key: self._value(kind.value_type) for key in keys}
        raise TypeError(f"a request has a field of a kind that is new: {kind}")

    def _count(self) -> int:
        return self.numbers.choice((0, 1, 1, 2, 3, 40))

    def _spoiled(self, request: dict[str, Any]) -> dict[str, Any]:
        """The request with something wrong in it."""
        numbers = self.numbers
        name = numbers.choice(list(request))
        change = numbers.randrange(5)
        if change == 0:
            del request[name]
        elif change == 1:
            request[numbers.choice(("x", "do", "id", "topic"))] = numbers.choice(GARBAGE)
        elif change == 2 and isinstance(request[name], dict | list):
            inner = request[name]
            if isinstance(inner, dict):
                inner[numbers.choice(NAMES)] = numbers.choice(GARBAGE)
            else:
                inner.append(numbers.choice(GARBAGE))
        else:
            request[name] = numbers.choice(GARBAGE)
        return request

    def _text(self, request: dict[str, Any]) -> bytes:
        text = json.dumps(request)
        if self.numbers.random() < 0.05 and request:  # a key that is there twice
            name = self.numbers.choice(list(request))
            text = f"{text[:-1]}, {json.dumps(name)}: {json.dumps(self.numbers.choice(GARBAGE))}}}"
        return text.encode()[:200_000]

    def _cut(self, data: bytes) -> bytes:
        """The packet with bytes that are gone, changed or added."""
        numbers = self.numbers
        at = numbers.randrange(len(data))
        return numbers.choice(
            (
                data[:at],
                data[at:],
                data[:at] + numbers.randbytes(3) + data[at + 3 :],
                data + data[at:],
            )
        )

    def _raw(self) -> list[bytes]:
        numbers = self.numbers
        whole = msgspec.json.encode(self.request())
        deep = b'{"do": "join", "filters":' + b"[" * numbers.choice((10, 900, 60_000))
        parts = [
            [b"1/1 " + whole],
            [b"2/2 " + whole],
            [b"1/3 " + b" " * PART],  # and no more
            [b"1/2 " + b" " * PART, b"2/2 " + whole],
            [b"1/2 " + b" " * PART, b"1/2 " + b"x" * PART, b"2/2 "],
            [b"%d/%d " % (numbers.randrange(5), numbers.randrange(5)) + whole],
        ]
        return numbers.choice(
            (
                [numbers.randbytes(numbers.randrange(1, 300))],
                [deep],
                [b"\xef\xbb\xbf" + whole],
                *parts,
            )
        )
