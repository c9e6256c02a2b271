"""Parts of an outgoing message that few senders use: user properties, several keys, a delay."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...store.delay.levels import MAX_DELAY_LEVEL
from ...store.errors import IllegalMessage
from ...store.names import SCHEDULE_TOPIC, TIMER_TOPIC
from ...store.record.properties import encode_properties
from ...store.status import PutMessageStatus

# Properties that the store and its clients set themselves.
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
# Properties of RocketMQ's timer wheel, which delivers each message at its own time.
TIMERS = frozenset(("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS"))
# RocketMQ's timerMaxDelaySec and timerPrecisionMs.
MAX_DELAY_MS = 3 * 24 * 3_600_000
_PRECISION_MS = 1000


class Delayed(NamedTuple):
    """Stands for a topic in a route: messages for `topic` wait in the store's topic `system`."""

    system: str
    topic: str


class Delay(NamedTuple):
    """Where a delayed message waits, and the property pairs that say where and when it is
    delivered.
    """

    where: Delayed
    queue: int
    pairs: bytes


def plan_delay(
    topic: str,
    queue_id: int,
    delay_level: int,
    deliver_at: int | None,
    delay_ms: int | None,
) -> Delay | None:
    """Where a message for a queue of `topic` waits for its time, as in RocketMQ's broker
    (`HookUtils.handleScheduleMessage`); None if it is due already.

    A level above the highest becomes the highest. TIMER_DELIVER_MS is the time that was asked for.
    TIMER_OUT_MS is the last whole second before that time, as RocketMQ rounds it.

    Raises IllegalMessage (WHEEL_TIMER_MSG_ILLEGAL) for a time more than three days ahead,
    ValueError for a negative time or level, or for more than one of the three.
    """
    given = [bool(delay_level), deliver_at is not None, delay_ms is not None]
    if sum(given) > 1:
        raise ValueError("give one of delay_level, deliver_at and delay_ms")
    where = f"REAL_TOPIC\x01{topic}\x02"
    queue = f"REAL_QID\x01{queue_id}\x02"
    if delay_level:
        if delay_level < 0:
            raise ValueError(f"delay_level {delay_level}: 1 to {MAX_DELAY_LEVEL}, 0 for none")
        level = min(delay_level, MAX_DELAY_LEVEL)
        pairs = f"{where}DELAY\x01{level}\x02{queue}"
        return Delay(Delayed(SCHEDULE_TOPIC, topic), level - 1, pairs.encode())
    now = int(time.time() * 1000)
    if min(delay_ms or 0, deliver_at or 0) < 0:
        raise ValueError(f"delay_ms {delay_ms}, deliver_at {deliver_at}: not before the epoch")
    due = deliver_at if deliver_at is not None else now + (delay_ms or 0)
    if due <= now:
        return None
    if due - now > MAX_DELAY_MS:
        raise IllegalMessage(
            PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL,
            f"delivery in {due - now} ms: at most {MAX_DELAY_MS} (three days) are possible",
        )
    out = (due - 1) // _PRECISION_MS * _PRECISION_MS
    pairs = f"{where}TIMER_OUT_MS\x01{out}\x02TIMER_DELIVER_MS\x01{due}\x02{queue}"
    return Delay(Delayed(TIMER_TOPIC, topic), 0, pairs.encode())


def encode_extra(properties: Mapping[str, str], *, wait_store: bool) -> bytes:
    """Encodes user properties for the property string, and WAIT=false if no sync is wanted.

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
            PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL,
            f"property {min(timers)}: use the argument deliver_at or delay_ms of send",
        )
    return encode_properties({**properties, **({} if wait_store else {"WAIT": "false"})})


def join_keys(keys: Iterable[str]) -> str:
    """Several keys in the form of the KEYS property, with spaces between them. Raises
    IllegalMessage for an empty key, and for one with a space, which readers would take for two
    keys. Raises TypeError for a key that is no str.
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
