"""The locks of queues: an orderly consumer reads a queue only while it holds the queue's lock
(RocketMQ's RebalanceLockManager).
"""

from __future__ import annotations

import time
from typing import Final

Queue = tuple[str, int]  # topic, queue id

#: So many locks of all groups together are kept. Those that have ended are then forgotten first.
_MOST: Final = 100_000


class QueueLocks:
    """Who holds which queue of which group. A lock that is not renewed ends after `life_s`;
    RocketMQ's clients renew theirs every 20 s.
    """

    def __init__(self, life_s: float) -> None:
        self._life_s = life_s
        self._groups: dict[str, dict[Queue, tuple[str, float]]] = {}
        self._count = 0

    def lock(self, group: str, client_id: str, queues: list[Queue]) -> list[Queue]:
        """Locks queues for a client, or renews its locks. Returns those that it holds now."""
        now = time.monotonic()
        if self._count + len(queues) > _MOST:
            self._forget_ended()
        held = self._groups.get(group, {})
        got = []
        for queue in queues:
            lock = held.get(queue)
            if lock is None and self._count >= _MOST:
                continue
            if lock is None or lock[0] == client_id or now - lock[1] > self._life_s:
                self._count += lock is None
                held[queue] = client_id, now
                got.append(queue)
        if held:
            self._groups[group] = held
        return got

    def _forget_ended(self) -> None:
        limit = time.monotonic() - self._life_s
        for group, held in list(self._groups.items()):
            live = {queue: lock for queue, lock in held.items() if lock[1] >= limit}
            self._count -= len(held) - len(live)
            if live:
                self._groups[group] = live
            else:
                del self._groups[group]

    def unlock(self, group: str, client_id: str, queues: list[Queue]) -> None:
        """Releases those of the queues that the client holds."""
        held = self._groups.get(group, {})
        for queue in queues:
            if queue in held and held[queue][0] == client_id:
                del held[queue]
                self._count -= 1
        if not held:
            self._groups.pop(group, None)

    def is_held(self, group: str, queue: Queue) -> bool:
        """Whether a client holds a live lock of a queue."""
        lock = self._groups.get(group, {}).get(queue)
        return lock is not None and time.monotonic() - lock[1] <= self._life_s

    def any_held(self, group: str) -> bool:
        """Whether a member of the group holds a lock: it consumes in order."""
        limit = time.monotonic() - self._life_s
        return any(since > limit for _, since in self._groups.get(group, {}).values())
