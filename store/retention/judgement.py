"""Why a commit-log file stays or goes. The clean process and `silo retention explain` both ask
`judge`, so the explanation cannot differ from what is done.

All functions are pure. Times are epoch ms, offsets those of the commit log.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterable
from typing import Final, Self

import msgspec
from msgspec.structs import replace

from ...conf.settings import Settings
from .rules import HOUR_MS, LogFileAge, is_hour_to_delete, removable_below
from .topic_limits import NOTHING_KEPT, NOWHERE, TopicsKeep, kept_ms

_NEVER_MS: Final = 2**62
_HOUR_S: Final = 3600


class Why(enum.StrEnum):
    """What decides about a file. With DUE it goes."""

    END = "end"
    DELAYED = "delayed"
    TRANSACTION = "transaction"
    YOUNG = "young"
    TOPIC = "topic"
    UNCONSUMED = "unconsumed"
    DUE = "due"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What decides about the files of a log whose last byte is before `end`.

    A file that ends behind `removable` (see `removable_below`) stays. So does one that ends behind
    `delayed` or `transactions`, where the first message lies that waits, unless the disk is `full`.
    With `forced` it then goes. Otherwise it must be `reserved_ms` old, or `reserved_size` bytes
    (0: no limit) must follow it. After that it stays until it is `unconsumed_ms` old, if a group
    has not consumed all of it. For the messages of some topics other limits decide: `topics`.
    """

    file_size: int
    removable: int
    end: int
    now_ms: int
    reserved_ms: int
    reserved_size: int = 0
    unconsumed_ms: int = 0
    delayed: int = NOWHERE
    transactions: int = NOWHERE
    full: bool = False
    forced: bool = False
    topics: TopicsKeep = NOTHING_KEPT

    @classmethod
    def of(
        cls,
        settings: Settings,
        *,
        end: int,
        durable: int,
        now_ms: int,
        delayed: int,
        transactions: int,
        full: bool,
    ) -> Self:
        """The limits by the settings of a store. What lies below the log offset `durable` has
        durable queue entries.
        """
        size = settings.mapped_file_size_commit_log
        return cls(
            file_size=size,
            removable=removable_below(end, durable, size),
            end=end,
            now_ms=now_ms,
            reserved_ms=settings.file_reserved_time_h * HOUR_MS,
            reserved_size=settings.file_reserved_size,
            unconsumed_ms=settings.file_reserved_unconsumed_h * HOUR_MS,
            delayed=delayed,
            transactions=transactions,
            full=full,
            forced=full and settings.clean_file_forcibly_enable,
        )

    def by_size_only(self) -> Limits:
        """The limits outside the hours of `delete_when`: a log that is too large need not wait."""
        return replace(self, reserved_ms=_NEVER_MS, topics=replace(self.topics, released=0))

    def with_topics(self, topics: TopicsKeep) -> Limits:
        """The limits with what topics with own limits keep."""
        return replace(self, topics=topics)

    def may_go(self, file: LogFileAge) -> bool:
        """Whether no start needs the file."""
        return file.base + self.file_size <= self.removable

    @property
    def reserved_h(self) -> int:
        """`reserved_ms` in hours, the unit of the setting."""
        return self.reserved_ms // HOUR_MS

    @property
    def unconsumed_h(self) -> int:
        """`unconsumed_ms` in hours, the unit of the setting."""
        return self.unconsumed_ms // HOUR_MS

    def is_too_large(self, base: int) -> bool:
        """Whether enough of the log follows the file at `base`."""
        return 0 < self.reserved_size <= self.end - (base + self.file_size)


class Judgement(msgspec.Struct, frozen=True):
    """Why a file stays, and until when as far as that is known: None if it is not."""

    why: Why
    until_ms: int | None = None


#: Whether all groups have consumed everything below a log offset.
Consumed = Callable[[int], bool]


def judge(file: LogFileAge, limits: Limits, consumed: Consumed) -> Judgement:
    """Decides about one file, whatever becomes of those before it. Asks `consumed` only if nothing
    else decides.
    """
    end = file.base + limits.file_size
    if not limits.may_go(file):
        return Judgement(Why.END)
    if not limits.full:
        if end > limits.delayed:
            return Judgement(Why.DELAYED)
        if end > limits.transactions:
            return Judgement(Why.TRANSACTION)
    if limits.forced:
        return Judgement(Why.DUE)
    expires = file.modified_ms + limits.reserved_ms
    released = end <= limits.topics.released
    if not released and limits.now_ms < expires and not limits.is_too_large(file.base):
        soonest_h = limits.topics.soonest_h
        if soonest_h is not None:
            expires = min(expires, file.modified_ms + soonest_h * HOUR_MS)
        return Judgement(Why.YOUNG, expires)
    held = limits.topics.held
    if held is not None and not limits.full and end > held.log_offset:
        return Judgement(Why.TOPIC, kept_ms(file, held.kept.hours) if held.kept.hours else None)
    bound = file.modified_ms + limits.unconsumed_ms
    if not limits.full and limits.now_ms < bound and not consumed(end):
        return Judgement(Why.UNCONSUMED, bound)
    return Judgement(Why.DUE)


def due(files: Iterable[LogFileAge], limits: Limits, consumed: Consumed, *, most: int) -> list[int]:
    """The offsets of the files that are due for removal, oldest first: up to `most`, and none
    behind a file that must stay. `files` must ascend; they are read only as far as needed.
    """
    found: list[int] = []
    for file in files:
        if len(found) >= most or judge(file, limits, consumed).why is not Why.DUE:
            break
        found.append(file.base)
    return found


def next_hour(delete_when: str, from_ms: int) -> int:
    """The first time from `from_ms` on that lies in an hour of `delete_when`, in local time."""
    moment = from_ms  # whole numbers: 1001 ms as seconds and back are 1000
    while not is_hour_to_delete(delete_when, (local := time.localtime(moment // 1000)).tm_hour):
        moment = (moment // 1000 + _HOUR_S - local.tm_min * 60 - local.tm_sec) * 1000
    return moment
