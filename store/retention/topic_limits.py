"""Limits of single topics: what a topic's attributes say, and what follows for the log's files.

A topic's messages expire file by file, as all messages do, but by the topic's own limits. Readers
then no longer see them: the begins of the topic's queues move behind the file. The file goes when
the messages of all topics in it have expired, so a topic with a longer limit keeps it.

The limits are attributes in `config/topics.json`, which RocketMQ keeps as they are:

============================  =====  ============================  =================================
attribute                     unit   in place of the setting       meaning of 0
============================  =====  ============================  =================================
`reserve.time`                hours  `file_reserved_time_h`        the setting holds
`silomq.reserve.size`         bytes  `file_reserved_size`          no such limit for this topic
`silomq.reserve.unconsumed`   hours  `file_reserved_unconsumed_h`  groups do not count in this topic
============================  =====  ============================  =================================

The first is RocketMQ's (TopicAttributes, used by its tiered store). A number below 0, or a text
that is no number, stands for the setting. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from ...conf.digits import number
from .rules import HOUR_MS, LogFileAge

TIME: Final = "reserve.time"
SIZE: Final = "silomq.reserve.size"
UNCONSUMED: Final = "silomq.reserve.unconsumed"
ATTRIBUTES: Final = (TIME, SIZE, UNCONSUMED)
MOST_HOURS: Final = 876_000
MOST_SIZE: Final = 1 << 50
#: A log offset behind everything: nothing waits.
NOWHERE: Final = 2**64 - 1
_LONGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """A topic's own limits: hours, bytes, hours. None: the store's setting holds."""

    time_h: int | None = None
    size: int | None = None
    unconsumed_h: int | None = None

    def __bool__(self) -> bool:
        return not self.time_h is self.size is self.unconsumed_h is None


NO_LIMITS: Final = TopicLimits()


def limits_of(attributes: Mapping[str, str]) -> TopicLimits:
    """The limits in a topic's attributes. Larger ones than a setting allows are cut to that."""
    time_h = _given(attributes, TIME, MOST_HOURS)
    size = _given(attributes, SIZE, MOST_SIZE)
    return TopicLimits(time_h or None, size, _given(attributes, UNCONSUMED, MOST_HOURS))


def bad_attribute(attributes: Mapping[str, str]) -> str:
    """Why one of the attributes can be no limit; "" if all can. -1 stands for the setting."""
    for name in ATTRIBUTES:
        value = attributes.get(name, "-1")
        if value != "-1" and number(value, _LONGEST) is None:
            unit = "bytes" if name == SIZE else "hours"
            return f"attribute {name}: {value[:40]!a}: {unit} from 0 on, or -1"
    return ""


def _given(attributes: Mapping[str, str], name: str, most: int) -> int | None:
    found = number(attributes.get(name, ""), _LONGEST)
    return None if found is None else min(found, most)


class Kept(msgspec.Struct, frozen=True):
    """Why a file's messages of one topic have not expired: they are kept for `hours` after the last
    write to the file, since a group has not consumed them (`unconsumed`) or in any case. 0 hours:
    by their size, or by the store's limits.
    """

    hours: int = 0
    unconsumed: bool = False


class Held(msgspec.Struct, frozen=True):
    """The first message, by its log offset, that a topic's own limits keep."""

    log_offset: int
    topic: str
    kept: Kept


class TopicsKeep(msgspec.Struct, frozen=True):
    """What the topics with own limits keep of a log.

    `begins` has for each of them the log offset below which its messages have expired. All files
    from the message `held` on stay. Files that end at or below `released` have only expired
    messages of such topics. No file is released within `soonest_h` hours after its last write; None
    if the store's time is over before.
    """

    begins: Mapping[str, int] = {}
    held: Held | None = None
    released: int = 0
    soonest_h: int | None = None


#: No topic has limits of its own.
NOTHING_KEPT: Final = TopicsKeep()


def begin_of(
    files: Iterable[tuple[LogFileAge, Kept | None]], begin: int, file_size: int
) -> tuple[int, Kept]:
    """The log offset below which a topic's messages have expired, and why the next file's have not.
    `files` ascend from the log's `begin` on.
    """
    for file, kept in files:
        if kept is not None:
            return begin, kept
        begin = file.base + file_size
    return begin, Kept()


def kept_ms(file: LogFileAge, hours: int) -> int:
    """Until when a file is kept that stays for some hours after the last write to it, epoch ms."""
    return file.modified_ms + hours * HOUR_MS
