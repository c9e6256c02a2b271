"""Pulls that are held until their queue has a new message (RocketMQ's PullRequestHoldService)."""

from __future__ import annotations

import time
from typing import Any, Final, Protocol

import msgspec

from ...shm._words import Word
from ..link.store import StoreLink
from ..loop._connection import Connection
from ..loop._loop import Loop
from ..loop.tasks import Waiter
from ._arrivals import Arrivals

#: How exactly the end of a hold is kept (s).
_TICK_S: Final = 0.1


class Held(Protocol):
    """A pull that waits until `deadline` (monotonic, s)."""

    @property
    def deadline(self) -> float: ...
    @property
    def connection(self) -> Connection | None:
        """The peer that waits; None if the broker itself does."""

    def wake(self) -> None:
        """Goes on: the queue has grown, the time is over, or the connection has ended."""


class _Waiting(msgspec.Struct, eq=False):
    deadline: float
    connection: Connection | None
    waiter: Waiter[None]

    def wake(self) -> None:
        self.waiter.set(None)


class Holds:
    """All held pulls: by the slot of their queue, by connection, and by the tick in which they
    end. So an arrival, a peer that goes, and the time cost only for those whom they concern.
    """

    #: So many pulls are held at a time; further ones are answered at once.
    MOST: Final = 100_000

    def __init__(self, loop: Loop, link: StoreLink) -> None:
        self._loop = loop
        self._link = link
        self._arrivals = Arrivals()
        self._held: dict[Held, tuple[int, int]] = {}  # to slot and tick
        self._by_slot: dict[int, set[Held]] = {}
        self._by_connection: dict[Connection | None, set[Held]] = {}
        self._by_tick: dict[int, set[Held]] = {}
        self._ticked = 0
        self._ticking = False
        self._deletions = 0  # of topics, when pulls were last looked through for them
        link.ended.append(self._release_all)

    @property
    def count(self) -> int:
        """How many pulls are held."""
        return len(self._held)

    async def wait(
        self, topic: str, queue_id: int, end: int, deadline: float, connection: Connection | None
    ) -> None:
        """Waits until the queue's end is no longer `end`, or until `deadline` (monotonic, s)."""
        table = self._link.connection.table
        found = table.find(topic)
        if found is None or queue_id >= len(found.slots):
            return
        slot = found.slots[queue_id]
        word = table.queue_word(slot, "max_offset")
        if word.load() != end:
            return
        held = _Waiting(deadline, connection, Waiter())
        self.add(slot, word, end, held)
        await held.waiter

    def add(self, slot: int, word: Word, end: int, held: Held) -> None:
        """Holds a pull until its queue's end, which `word` says, is no longer `end`. Raises
        StoreGone.
        """
        here = self._by_slot.get(slot)
        if here is None:
            self._link.bell.watch(slot)
            self._arrivals.add(slot, word, end)
            here = self._by_slot[slot] = set()
        if not self._ticking:
            self._ticking = True
            self._ticked = int(time.monotonic() / _TICK_S)
            self._loop.call_later(_TICK_S, self._tick)
        tick = max(int(held.deadline / _TICK_S), self._ticked)
        here.add(held)
        self._held[held] = slot, tick
        self._by_connection.setdefault(held.connection, set()).add(held)
        self._by_tick.setdefault(tick, set()).add(held)

    def drop(self, held: Held) -> None:
        """Holds a pull no longer, and does not wake it. It may have been woken already."""
        if held in self._held:
            self._forget(held)

    def look(self) -> None:
        """Goes on with the pulls whose queues have grown, or have gone with their topic."""
        for slot in self._arrivals.grown():
            self._release(slot)
        table = self._link.connection.table
        deletions = table.deletions
        if deletions != self._deletions:
            self._deletions = deletions
            for slot in [slot for slot in self._by_slot if table.is_deleted(slot)]:
                self._release(slot)

    def disconnected(self, connection: Connection) -> None:
        """Ends the pulls of a peer that has gone."""
        self._wake(self._by_connection.get(connection))

    def _release(self, slot: int) -> None:
        self._wake(self._by_slot.get(slot))

    def _wake(self, some: set[Held] | None) -> None:
        found = list(some or ())
        for held in found:  # all of them first: a pull may come back
            self._forget(held)
        for held in found:
            held.wake()

    def _release_all(self) -> None:
        for slot in list(self._by_slot):
            self._release(slot)

    def _forget(self, held: Held) -> None:
        slot, tick = self._held.pop(held)
        here = self._by_slot[slot]
        here.discard(held)
        if not here:
            del self._by_slot[slot]
            self._arrivals.remove(slot)
            if self._link.is_up:
                self._link.bell.unwatch(slot)
        _drop(self._by_connection, held.connection, held)
        _drop(self._by_tick, tick, held)

    def _tick(self) -> None:
        now = int(time.monotonic() / _TICK_S)
        for tick in range(self._ticked, now):
            self._wake(self._by_tick.get(tick))
        self._ticked = now
        self._ticking = bool(self._held)
        if self._ticking:
            self._loop.call_later(_TICK_S, self._tick)


def _drop(sets: dict[Any, set[Held]], key: object, held: Held) -> None:
    """Removes a pull from a set, and the set if it is empty then."""
    found = sets[key]
    found.discard(held)
    if not found:
        del sets[key]
