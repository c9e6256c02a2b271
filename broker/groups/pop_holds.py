"""Pops that are held until there is something to pop (RocketMQ's PopLongPollingService)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...shm._words import Word
from ..loop._connection import Connection
from ..loop._loop import Loop
from ..loop.tasks import Waiter
from .holds import Holds

#: A group and a topic.
Key = tuple[str, str]
#: A queue's slot, the word that says where it ends, and its end at the last look.
Place = tuple[int, Word, int]


@dataclass(slots=True, eq=False)
class _Part:
    """A held pop in one of its queues."""

    pop: _HeldPop
    deadline: float
    connection: Connection

    def wake(self) -> None:
        self.pop.wake()


@dataclass(slots=True, eq=False)
class _HeldPop:
    waiter: Waiter[None]
    parts: list[_Part] = field(default_factory=list)
    woken: bool = False

    def wake(self) -> None:
        if not self.woken:
            self.woken = True
            self.waiter.set(None)


class PopHolds:
    """All held pops. A queue that grows wakes those that wait for it. The end of a lease wakes one
    pop of its group and topic; that one says whether there may be more (`wake`).
    """

    #: So many pops of a group and topic are held at a time (popPollingSize), and of all
    #: (maxPopPollingSize).
    MOST = 1024
    MOST_OF_ALL = 100_000

    def __init__(self, loop: Loop, holds: Holds) -> None:
        self._loop = loop
        self._holds = holds
        self._by_key: dict[Key, dict[_HeldPop, None]] = {}
        self._due: dict[Key, float] = {}
        self._count = 0

    def count(self, key: Key) -> int:
        """How many pops of a group and topic are held."""
        return len(self._by_key.get(key, ()))

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
        self._by_key.setdefault(key, {})[pop] = None
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
            del here[pop]
            if not here:
                del self._by_key[key]
                self._due.pop(key, None)

    def expect(self, key: Key, after_ms: int) -> None:
        """A lease of the group and topic ends after so long."""
        if key not in self._by_key:
            return
        due = time.monotonic() + max(1, after_ms) / 1000
        if due < self._due.get(key, due + 1):
            self._due[key] = due
            self._loop.call_later(due - time.monotonic(), lambda: self._fire(key, due))

    def _fire(self, key: Key, due: float) -> None:
        if self._due.get(key) == due:
            del self._due[key]
            self.wake(key)

    def wake(self, key: Key) -> None:
        """Wakes the pop of a group and topic that waits longest."""
        for pop in self._by_key.get(key, ()):
            if not pop.woken:
                pop.wake()
                return

    def wake_one_of_each(self) -> None:
        """Wakes a pop of each group and topic: a lease of some of them has ended."""
        for key in list(self._by_key):
            self.wake(key)
