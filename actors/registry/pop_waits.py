"""Members that have found nothing to pop, and are told when a lease ends."""

from __future__ import annotations

import time
from collections.abc import Callable

from .popped_queues import Clock

#: Longest wait, if no lease ends before.
_NEVER = 1 << 62


class PopWaits:
    """Who waits, by group and topic. `wake` is called with number and index of each session that
    waited when a lease has ended. It wakes once for each time that a session has asked.
    """

    def __init__(self, clock: Clock, wake: Callable[[int, int], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._waiting: dict[tuple[str, str], set[tuple[int, int]]] = {}
        self._due: dict[tuple[str, str], int] = {}
        self._next_ms = _NEVER

    def add(self, group: str, topic: str, session: tuple[int, int], next_ms: int) -> None:
        """A session waits. `next_ms` is when the next lease ends, 0 if nothing is leased."""
        self._waiting.setdefault((group, topic), set()).add(session)
        if next_ms:
            self._expect((group, topic), next_ms)

    def leased(self, group: str, topic: str, due_ms: int) -> None:
        """Messages are leased until then."""
        if (group, topic) in self._waiting:
            self._expect((group, topic), due_ms)

    def _expect(self, key: tuple[str, str], due_ms: int) -> None:
        self._due[key] = min(due_ms, self._due.get(key, _NEVER))
        self._next_ms = min(self._next_ms, due_ms)

    def leave(self, session: int) -> None:
        """Forgets a session that has ended."""
        for key, sessions in list(self._waiting.items()):
            sessions -= {one for one in sessions if one[0] == session}
            if not sessions:
                del self._waiting[key]
                self._due.pop(key, None)

    def tick(self) -> None:
        """Tells those whose wait is over."""
        if self._next_ms == _NEVER or self._clock.now_ms() < self._next_ms:
            return
        now_ms = self._clock.now_ms()
        for key in [key for key, due_ms in self._due.items() if due_ms <= now_ms]:
            del self._due[key]
            for session in self._waiting.pop(key):
                self._wake(*session)
        self._next_ms = min(self._due.values(), default=_NEVER)

    def due_at(self) -> float:
        """When `tick` has something to do (monotonic, s)."""
        if self._next_ms == _NEVER:
            return float("inf")
        return time.monotonic() + max(0, self._next_ms - self._clock.now_ms()) / 1000
