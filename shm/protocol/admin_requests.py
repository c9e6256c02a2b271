"""Requests that only a broker makes, mostly for RocketMQ's tools. `requests.py` lists them all."""

from __future__ import annotations

from .answers import (
    BoardMade,
    GroupConfigsPage,
    GroupSettings,
    OffsetsPage,
    ReadersFound,
    SettingsFound,
)
from .request import Name, Request


class AskGroupConfigs(Request[GroupConfigsPage], frozen=True, tag="group configs"):
    """Asks for the settings of the groups whose names come after `after`, or of the one group
    `only`.
    """

    after: Name = ""
    only: Name = ""


class Forbid(Request[GroupSettings], frozen=True, tag="forbid"):
    """Forbids a group to read a topic, or allows it again."""

    group: Name
    topic: Name
    readable: bool


class AskOffsets(Request[OffsetsPage], frozen=True, tag="offsets"):
    """Asks how far the groups are whose names come after `after`."""

    after: Name


class AskReaders(Request[ReadersFound], frozen=True, tag="readers"):
    """Asks which groups have begun in a topic."""

    topic: Name


class AskSettings(Request[SettingsFound], frozen=True, tag="settings"):
    """Asks for the store's settings under RocketMQ's names."""


class AskBoard(Request[BoardMade], frozen=True, tag="board"):
    """Asks for the session's board. A second request gets the same one. After a restart of the
    registry it gets a new one, and nobody finds the old one.
    """
