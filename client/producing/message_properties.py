"""Parts of an outgoing message that few senders use: user properties, several keys, a delay."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ...store.errors import IllegalArgument, IllegalMessage, IllegalType
from ...store.names import SCHEDULE_TOPIC, TIMER_TOPIC
from ...store.record.properties import (
    MAX_PROPERTIES_BYTES,
    MULTI_DISPATCH,
    encode_light_offsets,
    encode_properties,
    parse_light_queues,
)
from ...store.status import PutMessageStatus
from .. import arguments

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
        "TRANSACTION_CHECK_TIMES",
        "CHECK_IMMUNITY_TIME_IN_SECONDS",
        "TRAN_PREPARED_QUEUE_OFFSET",
        "TRAN_FIRST_HALF",
        "__CRC32#",
        "INNER_NUM",
        "INNER_BASE",
        "INNER_MULTI_DISPATCH",
        "INNER_MULTI_QUEUE_OFFSET",
    )
)
# Properties of RocketMQ's timer wheel, which delivers each message at its own time.
TIMERS = frozenset(
    (
        "TIMER_DELAY_SEC",
        "TIMER_DELAY_MS",
        "TIMER_DELIVER_MS",
        "TIMER_OUT_MS",
        "TIMER_DEL_UNIQKEY",
        "TIMER_ROLL_TIMES",
    )
)
# RocketMQ's timerMaxDelaySec and timerPrecisionMs.
MAX_DELAY_MS = 3 * 24 * 3_600_000
_PRECISION_MS = 1000
#: More keys or properties than this cannot fit into a record.
MOST_PROPERTIES: Final = MAX_PROPERTIES_BYTES


class Delayed(NamedTuple):
    """Stands for a topic in a route: messages for `topic` wait in the store's topic `system`. A
    decision about a transaction, or a reply, is for no topic.
    """

    system: str
    topic: str


class Delay(NamedTuple):
    """Where a delayed message waits, and the property pairs that say where and when it is
    delivered. `due_ms` is the time (epoch ms) of one that does not wait for a level.
    """

    where: Delayed
    queue: int
    pairs: bytes
    due_ms: int | None = None


def plan_delay(
    topic: str,
    queue_id: int,
    delay_level: int,
    deliver_at: int | None,
    delay_ms: int | None,
    *,
    levels: int,
) -> Delay | None:
    """Where a message for a queue of `topic` waits for its time, as in RocketMQ's broker
    (`HookUtils.handleScheduleMessage`); None if it is due already.

    A level above the highest, `levels`, becomes the highest. TIMER_DELIVER_MS is the time that was
    asked for. TIMER_OUT_MS is the last whole second before that time, as RocketMQ rounds it.

    Raises IllegalMessage (WHEEL_TIMER_MSG_ILLEGAL) for a time more than three days ahead. Raises
    IllegalType, and IllegalArgument for a negative time or level, or for more than one of the
    three.
    """
    delay_level = arguments.whole("delay_level", delay_level)
    if deliver_at is not None:
        deliver_at = arguments.whole("deliver_at", deliver_at)
    if delay_ms is not None:
        delay_ms = arguments.whole("delay_ms", delay_ms)
    if sum([delay_level > 0, deliver_at is not None, delay_ms is not None]) > 1:
        raise IllegalArgument("delay_level, deliver_at and delay_ms: give one of them")
    where = f"REAL_TOPIC\x01{topic}\x02"
    queue = f"REAL_QID\x01{queue_id}\x02"
    if delay_level:
        level = min(delay_level, levels)
        pairs = f"{where}DELAY\x01{level}\x02{queue}"
        return Delay(Delayed(SCHEDULE_TOPIC, topic), level - 1, pairs.encode())
    now = int(time.time() * 1000)
    due = deliver_at if deliver_at is not None else now + (delay_ms or 0)
    if due <= now:
        return None
    if due - now > MAX_DELAY_MS:
        raise IllegalMessage(
            PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL,
            f"delivery in {due - now} ms: at most {MAX_DELAY_MS} (three days) are possible",
        )
    out = timer_out_ms(due)
    pairs = f"{where}TIMER_OUT_MS\x01{out}\x02TIMER_DELIVER_MS\x01{due}\x02{queue}"
    return Delay(Delayed(TIMER_TOPIC, topic), 0, pairs.encode(), due)


def timer_out_ms(due_ms: int) -> int:
    """TIMER_OUT_MS of a message that is due at `due_ms`: RocketMQ's slot for it."""
    return (due_ms - 1) // _PRECISION_MS * _PRECISION_MS


class LightQueues(NamedTuple):
    """The light queues that a message is to lie in, and the property pair with room for its offsets
    there.
    """

    names: tuple[str, ...]
    pair: bytes


def plan_light_queues(properties: Mapping[str, str]) -> LightQueues | None:
    """The light queues in INNER_MULTI_DISPATCH, a list with commas; None without that property.
    Raises IllegalMessage as `parse_light_queues` does.
    """
    text = properties.get(MULTI_DISPATCH)
    if text is None:
        return None
    names = parse_light_queues(text)
    return LightQueues(names, encode_light_offsets(len(names)))


def encode_extra(properties: Mapping[str, str], *, wait_store: bool, light: bool = False) -> bytes:
    """Encodes user properties for the property string, and WAIT=false if no sync is wanted. With
    `light` they may have INNER_MULTI_DISPATCH, which the caller has checked.

    Raises IllegalMessage for a reserved name, RocketMQ's separators, or a timer. Raises
    IllegalType for names or values that are no str.
    """
    properties = {
        arguments.text("a property's name", name): arguments.text("a property's value", value)
        for name, value in arguments.mapping("properties", properties, MOST_PROPERTIES).items()
    }
    taken = RESERVED.intersection(properties) - ({MULTI_DISPATCH} if light else set())
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
    keys. Raises IllegalType for a key that is no str, IllegalArgument for too many.
    """
    found = arguments.several("keys", keys, MOST_PROPERTIES)
    for key in found:
        if not isinstance(key, str):
            raise IllegalType(f"keys must be str, not {type(key).__name__}")
    plain = [str.__str__(key) for key in found]
    for key in plain:
        if " " in key or not key:
            raise IllegalMessage(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"key {arguments.shown(key)}: a key is not empty and has no space in it",
            )
    return " ".join(plain)
