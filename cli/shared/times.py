"""Types of options for times and lengths of time; most have the syntax of `client/times.py`."""

from __future__ import annotations

import math
from typing import Any, Final

import click

from ...client.times import epoch_ms, is_length, length_ms
from ...store.errors import IllegalQuery


class _Time(click.ParamType[int]):
    """Epoch ms."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return epoch_ms(value)
        except IllegalQuery as error:
            self.fail(str(error), param, ctx)


class _Instant(_Time):
    """Epoch ms, and not a length of time ago: nothing can be delivered then."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if is_length(value):
            self.fail(f"{value!a} is a length of time: give it with --delay", param, ctx)
        return super().convert(value, param, ctx)


class _Length(click.ParamType[int]):
    """Milliseconds."""

    name = "length"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return length_ms(value)
        except IllegalQuery as error:
            self.fail(str(error), param, ctx)


class Seconds(click.FloatRange):
    """A number of seconds in a range. A nan is in none, but click would let it pass."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        return seconds


TIME: Final = _Time()
INSTANT: Final = _Instant()
LENGTH: Final = _Length()
