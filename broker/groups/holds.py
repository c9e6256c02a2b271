"""Pulls that are held until their queue has a new message (RocketMQ's PullRequestHoldService)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from ...shm._words import Word
from ..link.store import StoreLink
from ..loop._connection import Connection
from ..loop._loop import Loop
from ..loop.tasks import Waiter

#: How exactly the end of a hold is kept (s).
_TICK_S: Final = 0.1


@dataclass(slots=True, eq=False)
class _Held:
    deadline: float
    connection: Connection
    waiter: Waiter[None]


@dataclass(slots=True)
class _Queue:
    """A queue for which pulls wait. `end` is its word, `seen` what it was when they came."""

    end: Word
    seen: int
    held: list[_Held]


class Holds:
    """All held pulls, by the slot of their queue."""

    #: So many pulls are held at a time; further ones are answered at once.
    MOST: Final = 100_000

    def __init__(self, loop: Loop, link: StoreLink) -> None:
        self._loop = loop
        self._link = link
        self._queues: dict[int, _Queue] = {}
        self._ticking = False
        self.count = 0
        link.ended.append(self._release_all)

    async def wait(
        self, topic: str, queue_id: int, end: int, deadline: float, connection: Connection
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
        queue = self._queues.get(slot)
        if queue is None:
            queue = self._queues[slot] = _Queue(word, end, [])
            self._link.bell.watch(slot)
        held = _Held(deadline, connection, Waiter())
        queue.held.append(held)
        self.count += 1
        if not self._ticking:
            self._ticking = True
            self._loop.call_later(_TICK_S, self._tick)
        await held.waiter

    def look(self) -> None:
        """Goes on with the pulls whose queues have grown."""
        for slot, queue in list(self._queues.items()):
            if queue.end.load() != queue.seen:
                self._release(slot)

    def _release(self, slot: int) -> None:
        queue = self._queues.pop(slot)
        if self._link.is_up:
            self._link.bell.unwatch(slot)
        self.count -= len(queue.held)
        for held in queue.held:
            held.waiter.set(None)

    def _release_all(self) -> None:
        for slot in list(self._queues):
            self._release(slot)

    def _tick(self) -> None:
        now = time.monotonic()
        for slot, queue in list(self._queues.items()):
            over: list[_Held] = []
            others: list[_Held] = []
            for one in queue.held:
                (over if one.deadline <= now or one.connection.closed else others).append(one)
            if not over:
                continue
            queue.held = others
            self.count -= len(over)
            if not queue.held:
                self._release(slot)
            for one in over:
                one.waiter.set(None)
        self._ticking = bool(self._queues)
        if self._ticking:
            self._loop.call_later(_TICK_S, self._tick)
