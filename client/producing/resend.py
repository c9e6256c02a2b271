"""Which messages are sent again after the store refused them or left them unanswered.

- *Refused*: the store answered with an error status. The producer never sends such a message again.
  The caller gets IllegalMessage with the status, and decides (`refusals.py` has the reasons).
- *Late*: there was no answer within the caller's time-out. The caller gets SendTimeout. The frame
  stays in the ring, so that the message may still be stored.
- *Unanswered*: the store closed the session first. `may_resend` decides: with `on_restart="error"`
  the caller gets StoreClosed. With `"retry"`, `resend` puts the frames into a new session, in their
  order and with their UNIQ_KEYs. The store may have appended a frame without answering it, so a
  message that is sent again may be stored twice.

A message that a *consumer* could not process is sent back by `client/groups/retry.py`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from ...shm.ring import RingClosed
from ...store.errors import IllegalMessage, StoreError
from ...store.names import (
    REPLIES_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_END_TOPIC,
    TRANS_HALF_TOPIC,
)
from ...store.record.format import decode_record
from ...store.record.properties import REAL_TOPIC
from ...store.status import PutMessageStatus
from ..errors import SendTimeout, SessionLost, StoreClosed
from ..session import Connection
from ._future import fail
from ._message import Route
from ._ring import Pending, Ring
from .message_properties import Delayed

#: An unanswered frame: its records, their number, and the future of the caller, if any.
Frame: TypeAlias = tuple[bytes, int, Pending | None]
_RECONNECT_S = 0.05
RESTART_CHOICES = ("error", "retry")


def session_lost(store: str, why: int) -> StoreError:
    """The error for messages that a session left unanswered. `why` is the ring's RingClosed, 0 if
    the store died without setting it.
    """
    if why == RingClosed.BAD_FRAME:
        return SessionLost(
            "the store closed this session because of an invalid frame in its ring: is another "
            "program writing to this process's memory?"
        )
    return StoreClosed(f"the store at {store} stopped with messages of this producer unanswered")


def may_resend(on_restart: str, why: int) -> bool:
    """Whether the messages that a lost session left unanswered are sent again. Never after a bad
    frame: the cause of its damage may have damaged the other frames.
    """
    return on_restart == "retry" and why != RingClosed.BAD_FRAME


def connect_again(
    connect: Callable[[], Connection], deadline: float, wanted: Callable[[], bool]
) -> Connection | None:
    """Waits for the store and returns a new connection. Returns None after `deadline` (monotonic,
    s), or when `wanted` returns False.
    """
    while wanted():
        try:
            return connect()
        except StoreError:
            if time.monotonic() > deadline:
                return None
            time.sleep(_RECONNECT_S)
    return None


def resend(
    frames: deque[Frame],
    ring: Ring,
    open_topic: Callable[[str | Delayed], Route],
    is_open: Callable[[], bool],
    deadline: float,
) -> bool:
    """Publishes `frames` in their order, and removes each from `frames` then. Returns False when
    the session is lost meanwhile: the rest is still in `frames`.

    A frame that the store no longer accepts, for example because its topic was deleted, is dropped;
    its future fails with IllegalMessage. Raises SendTimeout when there is no space at `deadline`
    (monotonic, s), StoreClosed when the registry does not answer.
    """
    while frames:
        records, count, pending = frames[0]
        try:
            slot = _slot_of(records, open_topic)
            while not ring.put(records, count, slot, pending, wait=True):
                if not ring.fits(len(records)):
                    raise _too_long(len(records), ring.largest)
                if time.monotonic() > deadline:
                    raise SendTimeout("the store came back, but takes no messages")
                ring.look()
                if not ring.wait_room() and not is_open():
                    return False
        except IllegalMessage as error:
            fail([pending], error)
        except StoreClosed:
            if is_open():
                raise
            return False
        frames.popleft()
    return True


def _slot_of(records: bytes, open_topic: Callable[[str | Delayed], Route]) -> int:
    """The slot of the frame's queue in this session. Raises IllegalMessage if there is none."""
    record = decode_record(records, check_crc=False)
    topic: str | Delayed = record.topic
    if topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
        topic = Delayed(record.topic, record.properties[REAL_TOPIC])
    elif topic in (TRANS_HALF_TOPIC, TRANS_END_TOPIC, REPLIES_TOPIC):
        topic = Delayed(record.topic, record.properties.get(REAL_TOPIC, ""))
    slots = open_topic(topic).slots
    if record.queue_id >= len(slots):
        raise IllegalMessage(
            PutMessageStatus.MESSAGE_ILLEGAL,
            f"queue {record.queue_id} of topic {record.topic}: the store has {len(slots)} queues "
            "now, the message was not sent again",
        )
    return slots[record.queue_id]


def _too_long(length: int, largest: int) -> IllegalMessage:
    """The error for a frame that does not fit any more: a store may come back with smaller
    rings.
    """
    return IllegalMessage(
        PutMessageStatus.MESSAGE_ILLEGAL,
        f"the new ring takes {largest} bytes at once: a message (or batch) of {length} bytes was "
        "not sent again; open the producer with a larger ring_size",
    )
