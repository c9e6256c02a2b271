"""What becomes of messages that the store refused or left unanswered: which are sent again.

- *Refused*: the store answered with an error status. The producer never sends such a message again.
  The caller gets IllegalMessage with the status, and decides (`refusals.py` has the reasons).
- *Late*: there was no answer within the caller's time-out. The caller gets SendTimeout. The frame
  stays in the ring, so that the message may still be stored.
- *Unanswered*: the store closed the session first. `may_resend` decides: with `on_restart="error"`
  the caller gets StoreClosed; with `"retry"` the frames go into a new session, in their order and
  with their UNIQ_KEYs, by `resend`. The store may have appended a frame without answering it, so a
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
from ...store.names import SCHEDULE_TOPIC, TIMER_TOPIC
from ...store.record.format import decode_record
from ...store.record.properties import REAL_TOPIC
from ...store.status import PutMessageStatus
from ..errors import SendTimeout, SessionLost, StoreClosed
from ..session import Connection
from ._future import fail
from ._message import Route
from ._ring import Pending, Ring
from .message_properties import Delayed

#: An unanswered frame: its records, how many they are, and the future of the caller, if any.
Frame: TypeAlias = tuple[bytes, int, Pending | None]
_RECONNECT_S = 0.05
RESTART_CHOICES = ("error", "retry")


def session_lost(store: str, why: int) -> StoreError:
    """The error for what a session left unanswered. `why` is the ring's RingClosed, 0 if the store
    died without a word.
    """
    if why == RingClosed.BAD_FRAME:
        return SessionLost(
            "the store closed this session because its ring made no sense: is another program "
            "writing to this process's memory?"
        )
    return StoreClosed(f"the store at {store} stopped with messages of this producer unanswered")


def may_resend(on_restart: str, why: int) -> bool:
    """Whether what a lost session left unanswered is sent again. Never after a bad frame: what
    damaged it may have damaged the others.
    """
    return on_restart == "retry" and why != RingClosed.BAD_FRAME


def connect_again(
    connect: Callable[[], Connection], deadline: float, wanted: Callable[[], bool]
) -> Connection | None:
    """A connection to the store when it is back; None after `deadline` (monotonic, s), or as soon
    as it is no longer `wanted`.
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
    """Publishes `frames` in their order, and takes each out of `frames` then. False when the
    session is lost meanwhile: the rest is still in `frames`.

    A frame that the store does not take any more (its topic was deleted, for example) is left out;
    its future fails with IllegalMessage. Raises SendTimeout when there is no room at `deadline`
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
    """The slot of the frame's queue in this session."""
    record = decode_record(records, check_crc=False)
    topic: str | Delayed = record.topic
    if topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
        topic = Delayed(record.topic, record.properties[REAL_TOPIC])
    slots = open_topic(topic).slots
    if record.queue_id >= len(slots):
        raise IllegalMessage(
            PutMessageStatus.MESSAGE_ILLEGAL,
            f"queue {record.queue_id} of topic {record.topic}: the store has {len(slots)} queues "
            "now, the message was not sent again",
        )
    return slots[record.queue_id]


def _too_long(length: int, largest: int) -> IllegalMessage:
    """A store that came back with another configuration may have made a smaller ring."""
    return IllegalMessage(
        PutMessageStatus.MESSAGE_ILLEGAL,
        f"the new ring takes {largest} bytes at once: a message (or batch) of {length} bytes was "
        "not sent again; open the producer with a larger ring_size",
    )
