"""Pops that are held until there is something to pop (RocketMQ's PopLongPollingService)."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from ...shm._words import Word
from ..loop._connection import Connection
from ..loop._loop import Loop
from ..loop.tasks import Waiter
from .holds import Holds

#: A group and a topic.
Key = tuple[str, str]
#: A queue's slot, the word that says where it ends, and its end at the last look.
Place = tuple[int, Word, int]


class _Part(msgspec.Struct, eq=False):
    """A held pop in one of its queues."""

    pop: _HeldPop
    deadline: float
    connection: Connection

    def wake(self) -> None:
        self.pop.wake()


class _HeldPop(msgspec.Struct, eq=False):
    waiter: Waiter[None]
    parts: list[_Part] = []
    woken: bool = False

    def wake(self) -> None:
        if not self.woken:
            self.woken = True
            self.waiter.set(None)


class PopHolds:
    """All held pops. A queue that grows wakes those that wait for it. The end of a lease in a queue
    wakes one of those that wait for the same queues, this one among them; it says whether there may
    be more (`wake`). RocketMQ's proxy pops single queues: so one that waits for another queue must
    not be woken in its place.
    """

    #: So many pops of a group and topic are held at a time (popPollingSize), and of all
    #: (maxPopPollingSize).
    MOST = 1024
    MOST_OF_ALL = 100_000

    def __init__(self, loop: Loop, holds: Holds) -> None:
        self._loop = loop
        self._holds = holds
        self._by_key: dict[Key, dict[frozenset[int], dict[_HeldPop, None]]] = {}
        self._due: dict[tuple[Key, int | None], float] = {}
        self._count = 0

    def count(self, key: Key) -> int:
        """How many pops of a group and topic are held."""
        return sum(map(len, self._by_key.get(key, {}).values()))

    def is_full(self, key: Key) -> bool:
        """Whether no further one can be held."""
        most = self.MOST_OF_ALL
        full = self._count >= most or self._holds.count >= self._holds.MOST
        return full or self.count(key) >= self.MOST

    async def wait(
        self, key: Key, places: Sequence[Place], deadline: float, connection: Connection
    ) -> None:
        """Waits until a queue has grown, a lease has ended, or until `deadline` (monotonic, s)."""
        if not places or any(word.load() != end for _, word, end in places):
            return
        pop = _HeldPop(Waiter())
        slots = frozenset(slot for slot, _, _ in places)
        self._by_key.setdefault(key, {}).setdefault(slots, {})[pop] = None
        self._count += 1
        try:
            for slot, word, end in places:
                part = _Part(pop, deadline, connection)
                pop.parts.append(part)
                self._holds.add(slot, word, end, part)
            await pop.waiter
        finally:
            self._count -= 1
            for part in pop.parts:
                self._holds.drop(part)
            here = self._by_key[key]
            del here[slots][pop]
            if not here[slots]:
                del here[slots]
            if not here:
                del self._by_key[key]

    def expect(self, key: Key, slot: int | None, after_ms: int) -> None:
        """A lease of the group and topic ends after so long, in this queue or in any."""
        if key not in self._by_key:
            return
        now = time.monotonic()
        due = now + max(1, after_ms) / 1000
        if due < self._due.get((key, slot), due + 1):
            self._due[key, slot] = due
            self._loop.call_later(due - now, lambda: self._fire(key, slot, due))

    def _fire(self, key: Key, slot: int | None, due: float) -> None:
        if self._due.get((key, slot)) == due:
            del self._due[key, slot]
            self.wake(key, slot)

    def wake(self, key: Key, slot: int | None = None) -> None:
        """Of the pops of a group and topic that wait for this queue, or for any, wakes the one that
        waits longest. Of those that wait for other queues besides, one is woken too.
        """
        found = [
            next((pop for pop in pops if not pop.woken), None)
            for slots, pops in self._by_key.get(key, {}).items()
            if slot is None or slot in slots
        ]
        for pop in found:
            if pop is not None:  # one that is woken may leave, and wait again
                pop.wake()

    def wake_one_of_each(self) -> None:
        """Wakes a pop of each group and topic: a lease of some of them has ended."""
        for key in list(self._by_key):
            self.wake(key)
