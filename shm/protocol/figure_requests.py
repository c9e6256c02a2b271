"""Requests about what the store and its brokers count. `requests.py` lists them all."""

from __future__ import annotations

from .answers import BoardFound, MetricsFound, ReadsMade, UsersFound
from .request import Number, Request


class AskMetrics(Request[MetricsFound], frozen=True, tag="metrics"):
    """Asks for the metrics page and the history."""


class AskReads(Request[ReadsMade], frozen=True, tag="reads"):
    """Asks for a page on which the session counts its reads. A second request gets a new page, and
    the old one is looked at no more.
    """


class AskUsers(Request[UsersFound], frozen=True, tag="users"):
    """Asks what each user of the store has."""


class FindBoard(Request[BoardFound], frozen=True, tag="next board"):
    """Asks for a board: that of the session with the least number above `after`."""

    after: Number
