"""`Waiting`: decisions to commit that could not be obeyed, because a topic is missing or the store
takes no messages. They are tried again, and hold up no others.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final, NamedTuple

from .goals import PAUSE_MS

_FEW: Final = 1024


class Decided(NamedTuple):
    """A decision to obey: its place in the queue of decisions, the transaction's identity, and how
    often the store has refused the message.
    """

    place: int
    identity: bytes
    commit: bool = True
    refusals: int = 0


class Waiting:
    """At most one decision for each transaction, so no more than there are open transactions.
    `decided` has them by identity.
    """

    def __init__(self) -> None:
        self.decided: dict[bytes, Decided] = {}
        self._order: deque[tuple[int, bytes]] = deque()
        self._places: list[tuple[int, bytes]] = []

    def add(self, decided: Decided, when_ms: int) -> None:
        """Keeps a decision until `when_ms` (epoch ms)."""
        self.decided[decided.identity] = decided
        self._order.append((when_ms, decided.identity))
        heapq.heappush(self._places, (decided.place, decided.identity))
        if len(self._places) > 2 * len(self.decided) + _FEW:
            self._places = [(one.place, one.identity) for one in self.decided.values()]
            heapq.heapify(self._places)

    def take(self, now_ms: int, most: int) -> list[Decided]:
        """Takes up to `most` decisions that are to be tried now."""
        found: list[Decided] = []
        while self._order and len(found) < most:
            when, identity = self._order[0]
            if now_ms < when <= now_ms + PAUSE_MS:
                break
            self._order.popleft()
            decided = self.decided.pop(identity, None)
            if decided is not None:
                found.append(decided)
        return found

    @property
    def next_ms(self) -> float:
        """When to try again, epoch ms."""
        return self._order[0][0] if self._order else float("inf")

    def first(self, following: int) -> int:
        """The place of the first decision that is not obeyed. `following` is the next to read."""
        while self._places:
            place, identity = self._places[0]
            decided = self.decided.get(identity)
            if decided is not None and decided.place == place:
                return min(place, following)
            heapq.heappop(self._places)
        return following
