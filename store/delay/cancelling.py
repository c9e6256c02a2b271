"""Which waiting timers are cancelled by records of the timer topic.

A record with TIMER_DEL_UNIQKEY cancels a message of the same time (TIMER_OUT_MS) that was stored
before it. The property is the message's topic, "+" and its UNIQ_KEY. RocketMQ 5.0 wrote only the
UNIQ_KEY. A record with TIMER_ROLL_TIMES is RocketMQ's copy of a message that waits for days, and
takes the place of the earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from ..record.format import Record
from ..record.properties import REAL_TOPIC, UNIQ_KEY
from .delays import TIMER_OUT_MS
from .timers import MINUTE_MS, Timers, Waiting

DELETE_KEY: Final = "TIMER_DEL_UNIQKEY"
ROLLED: Final = "TIMER_ROLL_TIMES"
_SECOND_MS: Final = 1000


class Cancel(NamedTuple):
    """Cancels the messages with this topic, UNIQ_KEY and TIMER_OUT_MS before `queue_offset`."""

    topic: str
    key: str
    out_ms: int
    queue_offset: int


def cancel_of(record: Record, queue_offset: int) -> Cancel | None:
    """What a record of the timer topic cancels; None if nothing. Text that makes no sense cancels
    nothing.
    """
    found = record.properties
    topic = found.get(REAL_TOPIC, "")
    out = found.get(TIMER_OUT_MS, "")
    if not (out.isascii() and out.isdigit() and len(out) < 19):
        return None
    if DELETE_KEY in found:
        before, plus, key = found[DELETE_KEY].rpartition("+")
        return Cancel(before if plus else topic, key, int(out), queue_offset)
    if ROLLED in found and UNIQ_KEY in found:
        return Cancel(topic, found[UNIQ_KEY], int(out), queue_offset)
    return None


def find_cancelled(
    timers: Timers, cancels: Collection[Cancel], decode: Callable[[int, int], Record | None]
) -> list[Waiting]:
    """The waiting entries that are cancelled. `decode` gives the record at a log offset, or None.
    Raises OSError.

    It reads each minute's entries once for all cancels, and only the records that may have one of
    the keys.
    """
    by_minute: dict[int, list[Cancel]] = {}
    for cancel in cancels:
        by_minute.setdefault(cancel.out_ms // MINUTE_MS, []).append(cancel)
    found = []
    for wanted in by_minute.values():
        keys = {cancel.key for cancel in wanted}
        first, last = min(c.out_ms for c in wanted), max(c.out_ms for c in wanted)
        for waiting in timers.waiting_between(first, last + _SECOND_MS, keys):
            timers.beat()
            if _is_cancelled(decode(waiting.offset, waiting.size), waiting, wanted):
                found.append(waiting)
    return found


def _is_cancelled(record: Record | None, waiting: Waiting, wanted: list[Cancel]) -> bool:
    if record is None:
        return False
    found = record.properties
    said = (found.get(REAL_TOPIC), found.get(UNIQ_KEY), found.get(TIMER_OUT_MS))
    return any(
        said == (cancel.topic, cancel.key, str(cancel.out_ms))
        and waiting.queue_offset < cancel.queue_offset
        for cancel in wanted
    )
