"""The uncommon parts of an outgoing message: user properties, several keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..store.errors import IllegalMessage
from ..store.properties import encode_properties
from ..store.status import PutMessageStatus

# What the store and its clients set themselves.
RESERVED = frozenset(
    (
        "TAGS",
        "KEYS",
        "UNIQ_KEY",
        "WAIT",
        "DELAY",
        "REAL_TOPIC",
        "REAL_QID",
        "TRAN_MSG",
        "PGROUP",
        "__CRC32#",
        "INNER_NUM",
        "INNER_BASE",
        "INNER_MULTI_DISPATCH",
        "INNER_MULTI_QUEUE_OFFSET",
    )
)
# RocketMQ's timer wheel, which delivers at a time of the message's own.
TIMERS = frozenset(("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"))


def encode_extra(properties: Mapping[str, str], *, wait_store: bool) -> bytes:
    """User properties, and WAIT=false where no sync is wanted, as the property string has them.

    Raises IllegalMessage for a reserved name, RocketMQ's separators, or a timer.
    """
    taken = RESERVED.intersection(properties)
    if taken:
        raise IllegalMessage(
            PutMessageStatus.MESSAGE_ILLEGAL,
            f"property {min(taken)} is set by the store: use the argument of send, or another name",
        )
    timers = TIMERS.intersection(properties)
    if timers:
        raise IllegalMessage(
            PutMessageStatus.WHEEL_TIMER_NOT_ENABLE,
            f"property {min(timers)}: this store has no timer wheel, and would deliver at once",
        )
    return encode_properties({**properties, **({} if wait_store else {"WAIT": "false"})})


def join_keys(keys: Iterable[str]) -> str:
    """Several keys as the KEYS property has them. A key with a space would be two:
    IllegalMessage.
    """
    found = list(keys)
    for key in found:
        if not isinstance(key, str):
            raise TypeError(f"keys must be str, not {type(key).__name__}")
        if " " in key or not key:
            raise IllegalMessage(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"key {key!r}: a key is not empty and has no space in it",
            )
    return " ".join(found)
