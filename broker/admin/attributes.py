"""Attributes of topics and groups in a request: `+name=value` sets one, `-name` drops it
(RocketMQ's AttributeParser, TopicAttributes, SubscriptionGroupAttributes).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ...store.retention import topic_limits
from ..processors.calls import Refused
from ..wire.codes import ResponseCode

_MESSAGE_TYPES: Final = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "LITE")
#: The values that an attribute of a topic may have; None: a number. Queues of other kinds, and
#: compaction, are not here.
_OF_TOPICS: Final[Mapping[str, tuple[str, ...] | None]] = {
    "message.type": _MESSAGE_TYPES,
    "queue.type": ("SimpleCQ",),
    "cleanup.policy": ("DELETE",),
    **dict.fromkeys(topic_limits.ATTRIBUTES),
}
_OF_GROUPS: Final[Mapping[str, tuple[str, ...] | None]] = {
    "priority.factor": None,
    "lite.bind.topic": None,
}

#: Attributes that are set, by name, and names of those that are dropped.
Change = tuple[dict[str, str], list[str]]


def in_text(text: str) -> dict[str, str]:
    """The attributes of a header, `+a=1,-b`. Raises Refused."""
    found: dict[str, str] = {}
    for one in filter(None, text.split(",")):
        name, equals, value = one.partition("=")
        if bool(equals) == name.startswith("-") or not name:
            raise _refused(f"kv string format wrong. {one[:100]}")
        found[name.strip()] = value.strip()
    return found


def of_topic(given: Mapping[str, str]) -> Change:
    """What a request changes of a topic's attributes. Raises Refused."""
    return _change(given, _OF_TOPICS)


def of_group(given: Mapping[str, str]) -> Change:
    """What a request changes of a group's attributes. Raises Refused."""
    return _change(given, _OF_GROUPS)


def _change(given: Mapping[str, str], known: Mapping[str, tuple[str, ...] | None]) -> Change:
    added: dict[str, str] = {}
    dropped: list[str] = []
    for text, value in given.items():
        sign, name = text[:1], text[1:]
        if sign not in ("+", "-"):
            raise _refused(f"attribute {text[:100]!a}: +name=value sets one, and -name drops it")
        if name not in known:
            raise _refused(f"unsupported key: {name[:100]}")
        if sign == "-":
            dropped.append(name)
            continue
        allowed = known[name]
        if allowed is None and not _is_long(value):
            raise _refused(f"attribute {name}: {value[:100]!a} is no number of 64 bits")
        if allowed is not None and value not in allowed:
            why = f"value is not in set of {', '.join(allowed)}: {value[:100]!a} ({name})"
            raise _refused(why)
        added[name] = value
    return added, dropped


def _is_long(text: str) -> bool:
    """Whether RocketMQ reads a text as a number: it does so at each start."""
    return re.fullmatch(r"-?[0-9]{1,19}", text) is not None and -(2**63) <= int(text) < 2**63


def _refused(why: str) -> Refused:
    return Refused(ResponseCode.SYSTEM_ERROR, why)
