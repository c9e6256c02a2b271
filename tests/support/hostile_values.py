"""What a program may pass by mistake, or by malice, where a public call takes an argument."""

from __future__ import annotations

import array
import decimal
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np


class Refused(Exception):
    """What the methods of hostile objects raise."""


def refuse(*_: object) -> NoReturn:
    raise Refused


def raising(*methods: str) -> object:
    """An object whose methods raise."""
    return type("Raising", (), dict.fromkeys(methods, refuse))()


class LyingText(str):
    """A str whose methods say something else."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\x01\x02"

    def __format__(self, _: str) -> str:
        return "\x01\x02"

    def encode(self, *_: object) -> bytes:
        return b"\xff"


class LyingNumber(int):
    """An int whose methods say something else."""

    def __index__(self) -> int:
        return 10**30

    def __lt__(self, _: object) -> bool:
        return False

    __gt__ = __lt__


class Shifting(Mapping[str, str]):
    """A mapping that has other pairs each time one looks."""

    def __init__(self) -> None:
        self._count = itertools.count()

    def __getitem__(self, _: str) -> str:
        return f"v{next(self._count)}"

    def __iter__(self) -> Iterator[str]:
        return iter([f"k{next(self._count)}"])

    def __len__(self) -> int:
        return next(self._count) % 3


def released() -> memoryview:
    view = memoryview(b"released")
    view.release()
    return view


def growing() -> list[bytes]:
    """A list whose iteration makes it longer would not end; this one is only long."""
    return [b"x"] * 5000


def failing_iterator() -> Iterator[bytes]:
    yield b"x"
    refuse()


def _same(value: object) -> object:
    return value


#: Name -> what makes the value anew: some can be used only once.
VALUES: dict[str, Callable[[], Any]] = {
    **{
        repr(value)[:30]: functools.partial(_same, value)
        for value in (
            None, True, False, 0, 1, -1, 5, 4096, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64,
            -(2**31) - 1, -(2**63) - 1, 0.0, 0.05, 0.5, -0.5, float("nan"), float("inf"),
            float("-inf"), 1e308, 1j, "", "x", " ", "0", "grün", "\0", "a\x01b", "a\x02b", "\ud800",
            "x\udfffy", "../..", "/", "%RETRY%", "\n", b"", b"x", b"\xff", bytearray(b"abc"), [],
            [1], [True], ["a", "a"], ["\ud800"], ["a b"], [b"a", "b"], [None], [[]], (), ("topic",),
            {}, {1: 2}, {0: -1}, {0: "x"}, {"a": None}, {"a": "\ud800"}, {"": "x"}, {"TAGS": "x"},
            set(), frozenset("ab"), ..., int, print, object(), decimal.Decimal("NaN"), range(3),
        )
    },
    "10**5000": lambda: 10**5000,
    "-10**5000": lambda: -(10**5000),
    "long str": lambda: "x" * 70_000,
    "long str of surrogates": lambda: "\ud800" * 70_000,
    "long bytes": lambda: bytes(300_000),
    "memoryview": lambda: memoryview(b"view"),
    "released memoryview": released,
    "memoryview in pieces": lambda: memoryview(b"a-b-c-")[::2],
    "memoryview of two dimensions": lambda: memoryview(b"abcdef").cast("B", (2, 3)),
    "array of doubles": lambda: array.array("d", [1.5, 2.5]),
    "NumPy array": lambda: np.arange(6, dtype=np.int16)[::2],
    "NumPy array of objects": lambda: np.array([object()], dtype=object),
    "NumPy number": lambda: np.int64(1),
    "NumPy bool": lambda: np.True_,
    "NumPy float": lambda: np.float32(0.01),
    "generator": lambda: (b"x" for _ in range(3)),
    "spent iterator": lambda: iter([]),
    "failing iterator": failing_iterator,
    "endless iterator": lambda: itertools.repeat("x"),
    "endless counter": itertools.count,
    "long list": growing,
    "lying text": lambda: LyingText("lying"),
    "lying number": lambda: LyingNumber(1),
    "shifting mapping": Shifting,
    "raising __index__": lambda: raising("__index__"),
    "raising __float__": lambda: raising("__float__"),
    "raising __len__": lambda: raising("__len__", "__getitem__"),
    "raising __iter__": lambda: raising("__iter__"),
    "raising __buffer__": lambda: raising("__buffer__", "__bytes__"),
    "raising __fspath__": lambda: raising("__fspath__"),
    "raising __bool__": lambda: raising("__bool__"),
    "raising __eq__": lambda: raising("__eq__", "__hash__"),
    "raising __repr__": lambda: raising("__repr__", "__str__", "__format__"),
    "raising __call__": lambda: raising("__call__"),
    "raising everything": lambda: raising(
        "__index__", "__float__", "__len__", "__iter__", "__buffer__", "__fspath__", "__bool__",
        "__eq__", "__hash__", "__repr__", "__str__", "__int__", "__getitem__", "__call__",
    ),
}  # fmt: skip
