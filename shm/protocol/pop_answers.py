"""Answers to the requests of groups that pop (`pops.py`)."""

from __future__ import annotations

from msgspec import Struct

from .answer import Answer


class PoppedLease(Struct, frozen=True, array_like=True):
    """Messages that were leased until `due_ms` (epoch ms): bit n of `mask` stands for the one at
    queue offset `first` + n. They were handed out for the `times`th time, at `popped_ms`.
    """

    queue_id: int
    first: int
    popped_ms: int
    due_ms: int
    mask: int
    times: int


class SettledLease(Struct, frozen=True, array_like=True):
    """The messages of a lease that were settled: those of its mask that it had, 0 if it was none of
    the group's. If they have another time, their new lease has the name `first` and `popped_ms`.
    """

    mask: int
    first: int = 0
    popped_ms: int = 0
    due_ms: int = 0


class Popped(Answer, frozen=True, tag="popped"):
    """The leases that a pop has got. `left` messages of these queues were never handed out.

    `next_ms` is when the next lease of these queues ends, 0 if nothing is leased or something was
    found. `now_ms` is the store's time. A message that comes again more than `retry_max_times`
    times is for the dead letters.
    """

    leases: list[PoppedLease]
    left: int
    next_ms: int
    now_ms: int
    retry_max_times: int
    settled: list[SettledLease]


class Settled(Answer, frozen=True, tag="settled"):
    """What became of each lease that was named, in that order."""

    settled: list[SettledLease]


class LookedQueue(Struct, frozen=True, array_like=True):
    """A queue of a group: the messages from `next` up to, and without, `end` were never handed out,
    and those in `due` (`first`, mask) are to be handed out again.
    """

    queue_id: int
    next: int
    end: int
    due: list[tuple[int, int]]


class Looked(Answer, frozen=True, tag="looked"):
    """The queues of the request in which a pop would find messages. `next_ms` as in `Popped`."""

    queues: list[LookedQueue]
    next_ms: int


class Mode(Struct, frozen=True, array_like=True):
    """How a group reads a topic: PULL or POP, and RocketMQ's popShareQueueNum."""

    topic: str
    group: str
    mode: str
    share: int


class Modes(Answer, frozen=True, tag="modes"):
    """All modes that were set."""

    modes: list[Mode]
