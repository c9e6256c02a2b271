"""The arguments of look-ups, turned into typed values: what is out of range is an IllegalQuery."""

from __future__ import annotations

from typing import cast

from ...store.errors import IllegalArgument, IllegalQuery
from .. import arguments
from .queue_times import Boundary


def number(name: str, value: object, least: int = 0) -> int:
    """A whole number from `least` to 2^63 - 1. Raises IllegalQuery, IllegalType."""
    try:
        return arguments.whole(name, value, least)
    except IllegalArgument as error:
        raise IllegalQuery(str(error)) from error


def queue_of(value: object) -> int:
    """The id of a queue; the store says whether there is one. Raises IllegalQuery, IllegalType."""
    return number("queue_id", value, -(2**63))


def past_time(name: str, value: object, now_ms: int) -> int:
    """A time (epoch ms). Raises IllegalQuery for one that is negative or in the future,
    IllegalType.
    """
    timestamp = number(name, value)
    if timestamp > now_ms:
        raise IllegalQuery(
            f"{name} {timestamp} is in the future: it is {now_ms} (milliseconds since 1970)"
        )
    return timestamp


def boundary_of(value: object) -> Boundary:
    """Which end of a time is meant. Raises IllegalQuery, IllegalType."""
    try:
        return cast("Boundary", arguments.choice("boundary", value, ("lower", "upper")))
    except IllegalArgument as error:
        raise IllegalQuery(str(error)) from error
