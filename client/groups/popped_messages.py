"""The messages that a member which pops has now, and what it says of them to the store."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...shm.protocol.pop_answers import PoppedLease
from ...shm.protocol.pops import Settling
from ...store.status import AckLevel, PutMessageStatus
from ..consuming.message_view import MessageView
from ..errors import NotHandedOut
from ..producing.send_result import SendResult

#: Seconds after which a message comes again that was sent back, by how often it was: RocketMQ's
#: popDelayLevel. The last one counts from then on.
LEVELS_S = (*(10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200),)
#: Topic, queue id, and the first offset and time of a lease.
LeaseName = tuple[str, int, int, int]
#: Topic, queue id, queue offset.
MessageKey = tuple[str, int, int]
_KEY_FORM = re.compile("[0-9A-F]{32}")
ACKNOWLEDGED = -1
#: At once, and this hand-out does not count.
UNSEEN = -2


class Rows(frozenset[int]):
    """Rows of a batch, each by where its record lies in the log (`physical_offset`)."""


@dataclass(frozen=True, slots=True)
class Popped:
    """A message that was popped, and its lease. Half of its time is over at `half`, all of it at
    `end` (monotonic, s); `times` is how often it was handed out.
    """

    message: MessageView
    lease: LeaseName
    half: float
    end: float
    times: int

    @property
    def bit(self) -> int:
        """The message's bit in the lease's mask."""
        return 1 << self.message.queue_offset - self.lease[2]


def key_of(message: MessageView) -> MessageKey:
    """What tells a message from all others."""
    return (*message.queue, message.queue_offset)


@dataclass(frozen=True, slots=True)
class PoppedPart:
    """Messages that one lease has brought, with the bits that they have in its mask."""

    messages: list[MessageView]
    lease: LeaseName
    mask: int
    half: float
    end: float
    times: int

    def singles(self) -> Iterator[Popped]:
        """Its messages one by one."""
        for message in self.messages:
            yield Popped(message, self.lease, self.half, self.end, self.times)


def popped(topic: str, lease: PoppedLease, messages: list[MessageView], now_ms: int) -> PoppedPart:
    """The messages of a lease. `now_ms` is when the store made it."""
    mask = lease.mask
    if len(messages) != mask.bit_count():
        mask = sum(1 << message.queue_offset - lease.first for message in messages)
    name = (topic, lease.queue_id, lease.first, lease.popped_ms)
    now, left_s = time.monotonic(), (lease.due_ms - now_ms) / 1000
    return PoppedPart(messages, name, mask, now + left_s / 2, now + left_s, lease.times)


def size_of(messages: Iterable[MessageView]) -> int:
    """Bytes of their records."""
    return sum(message.size for message in messages)


def after_ms(delay_level: int, times: int) -> int:
    """When a message comes again that was sent back with this level (0: by its `times`)."""
    step = delay_level - 1 if delay_level else times
    return int(LEVELS_S[min(step, len(LEVELS_S) - 1)] * 1000)


def place_of(message: MessageView, store_host: bytes) -> SendResult:
    """Where a message lies that is handed out again, as the result of sending it back."""
    key = message.message_id or ""
    if not _KEY_FORM.fullmatch(key):
        key = "0" * 32
    counter = (int(key[28:], 16) - 1) & 0xFFFF
    named = (key[:20].encode(), int(key[20:28], 16), counter, counter)
    return SendResult(
        PutMessageStatus.PUT_OK, *message.queue, message.queue_offset, message.physical_offset,
        message.store_timestamp, 1, named, None, store_host, AckLevel.APPENDED,
    )  # fmt: skip


def not_out(message: MessageView) -> NotHandedOut:
    """The error for a message that this consumer does not have."""
    topic, queue_id = message.queue
    return NotHandedOut(
        f"message {message.queue_offset} of queue {queue_id} of {topic} was not sent back: "
        "this consumer does not have it any more; it is acknowledged, or its time is over"
    )


class Settlings:
    """What is to be said of leases, message by message."""

    def __init__(self) -> None:
        self._masks: dict[tuple[LeaseName, int], int] = {}
        #: When the first of them was added (monotonic, s).
        self.since = 0.0

    def add(self, lease: LeaseName, mask: int, after_ms: int) -> None:
        """Adds messages: acknowledged, unseen, or to be handed out again after so long."""
        if not self._masks:
            self.since = time.monotonic()
        key = (lease, after_ms)
        self._masks[key] = self._masks.get(key, 0) | mask

    def __len__(self) -> int:
        return len(self._masks)

    def take(self, most: int) -> list[Settling]:
        """Up to `most` of them, which are no longer here."""
        keys = list(self._masks)[:most]
        return [Settling(*key[0], self._masks.pop(key), key[1]) for key in keys]


class HandedOut:
    """The messages that a caller has. What one poll has returned is kept as it came, since most of
    it is acknowledged together, and taken apart when a single message of it is asked for.
    """

    def __init__(self) -> None:
        self._parts: list[PoppedPart] = []
        self._singles: dict[MessageKey, Popped] = {}

    def add_parts(self, parts: Iterable[PoppedPart]) -> None:
        """Adds what a poll returns."""
        self._parts += parts

    def add(self, one: Popped) -> None:
        """Adds one message."""
        self._singles[key_of(one.message)] = one

    def _take_apart(self) -> None:
        for part in self._parts:
            self._singles.update((key_of(one.message), one) for one in part.singles())
        self._parts.clear()

    def __contains__(self, message: MessageView) -> bool:
        self._take_apart()
        return key_of(message) in self._singles

    def take(self, message: MessageView) -> Popped | None:
        """Removes a message, None if the caller does not have it."""
        self._take_apart()
        return self._singles.pop(key_of(message), None)

    def take_each(self, messages: Iterable[MessageView] | Rows) -> Iterator[Popped]:
        """Removes messages, those that the caller has."""
        if not isinstance(messages, Rows):
            yield from filter(None, map(self.take, messages))
            return
        self._take_apart()
        for key, one in list(self._singles.items()):
            if one.message.physical_offset in messages:
                yield self._singles.pop(key)

    def settle_all(self, settlings: Settlings, after_ms: int) -> None:
        """Removes everything, to be settled in one way."""
        for part in self._parts:
            settlings.add(part.lease, part.mask, after_ms)
        for one in self._singles.values():
            settlings.add(one.lease, one.bit, after_ms)
        self._parts.clear()
        self._singles.clear()
