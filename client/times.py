"""Times as users write them: one syntax for every command and for `start=` of the consumers.

| form | means |
|---|---|
| `1795252536067`, or an int | milliseconds since 1970 |
| `2026-11-21`, `2026-11-21 09:15:36.067+01:00` | ISO 8601; local time without a zone |
| `15min`, `15min ago`, also `us`, `ms`, `s`, `h`, `d` | that long before now |
| a `datetime` | itself; local time without a zone |
"""

from __future__ import annotations

import datetime as dt
import operator
import time
from typing import Final, Literal, TypeAlias

from ..conf.kinds import Duration
from ..store.errors import IllegalArgument, IllegalQuery
from . import arguments

Time: TypeAlias = int | str | dt.datetime
Start: TypeAlias = Literal["earliest", "latest"] | Time

#: The last millisecond that a record's time field can hold.
LAST_MS: Final = 2**63 - 1
_LENGTH: Final = Duration("us", 0, LAST_MS, "")
_SHOWN: Final = 60  # characters of a text that an error quotes


def epoch_ms(when: Time) -> int:
    """A time in milliseconds since 1970, from 0 to 2^63 - 1. Raises IllegalQuery for anything that
    is no time, or lies before 1970.
    """
    found = _epoch_ms(when)
    if found is None or not 0 <= found <= LAST_MS:
        raise IllegalQuery(
            f"{_quoted(when)} is no time since 1970: write milliseconds, a date like "
            "'2026-11-21 09:15:36' or a length of time ago like '15min'"
        )
    return found


def parse_start(start: object) -> Literal["earliest", "latest"] | int:
    """What `start=` of a consumer means: an end of the queue, or a time in milliseconds since 1970.
    Raises IllegalArgument, IllegalType.
    """
    if isinstance(start, str):
        start = arguments.text("start", start)
        if start == "earliest":
            return "earliest"
        if start == "latest":
            return "latest"
    elif not isinstance(start, dt.datetime):
        if isinstance(start, bool) or not hasattr(type(start), "__index__"):
            arguments.refuse_type("start", start, "'earliest', 'latest' or a time")
        start = arguments.converted("start", start, operator.index)
    try:
        return arguments.converted("start", start, epoch_ms)
    except IllegalQuery as error:
        raise IllegalArgument(f"start: neither 'earliest' nor 'latest', and {error}") from error


def length_ms(text: str) -> int:
    """A length of time like `10s` or `2h`, in whole milliseconds. Raises IllegalQuery."""
    has_unit = text.strip()[-1:].isalpha()
    try:
        length_us = _LENGTH.parse(text) if has_unit else -1
    except ValueError:
        length_us = -1
    if length_us < 0:
        raise IllegalQuery(
            f"{_quoted(text)} is no length of time: write it like '500ms', '10s', '5min', '2h'"
        )
    return length_us // 1000


def is_length(text: object) -> bool:
    """Whether a text is a length of time, like `10s` or `15min ago`."""
    if not isinstance(text, str):
        return False
    text = text.strip()
    return text[:1].isdecimal() and text[-1:].isalpha() and text[-1] != "Z" and "T" not in text


def _epoch_ms(when: object) -> int | None:
    if isinstance(when, bool):
        return None
    if isinstance(when, int):
        return when
    try:
        if isinstance(when, dt.datetime):
            return round(when.timestamp() * 1000)
        if isinstance(when, str):
            return _of_text(when.strip())
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _of_text(text: str) -> int:
    if text.isascii() and text.isdecimal():
        return int(text[:20])
    if is_length(text):
        ago = _LENGTH.parse(text.removesuffix("ago"))
        return time.time_ns() // 1_000_000 - ago // 1000
    return round(dt.datetime.fromisoformat(text).timestamp() * 1000)


def _quoted(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
