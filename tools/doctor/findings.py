"""What a check has found: one line, with what to do."""

from __future__ import annotations

import enum

import msgspec
from msgspec.structs import asdict


class Level(enum.StrEnum):
    """How bad a finding is. With a PROBLEM a store does not start, loses what it should keep, or
    takes no messages.
    """

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True):
    """The outcome of the check `check`: what is so, and what to do about it ("" if nothing)."""

    check: str
    level: Level
    what: str
    advice: str = ""

    def as_dict(self) -> dict[str, str]:
        """For JSON."""
        return {name: str(value) for name, value in asdict(self).items()}


def ok(check: str, what: str) -> Finding:
    """A finding that needs nothing."""
    return Finding(check, Level.OK, what)


def warning(check: str, what: str, advice: str) -> Finding:
    """A finding that costs something, or that could not be looked at."""
    return Finding(check, Level.WARNING, what, advice)


def problem(check: str, what: str, advice: str) -> Finding:
    """A finding with which a store cannot do its work."""
    return Finding(check, Level.PROBLEM, what, advice)
