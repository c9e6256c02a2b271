"""The locks of queues: an orderly consumer reads a queue only while it holds the queue's lock
(RocketMQ's RebalanceLockManager).
"""

from __future__ import annotations

import time

Queue = tuple[str, int]  # topic, queue id


class QueueLocks:
    """Who holds which queue of which group. A lock that is not renewed ends after `life_s`;
    RocketMQ's clients renew theirs every 20 s.
    """

    def __init__(self, life_s: float) -> None:
        self._life_s = life_s
        self._groups: dict[str, dict[Queue, tuple[str, float]]] = {}

    def lock(self, group: str, client_id: str, queues: list[Queue]) -> list[Queue]:
        """Locks queues for a client, or renews its locks. Returns those that it holds now."""
        now = time.monotonic()
        held = self._groups.setdefault(group, {})
        got = []
        for queue in queues:
            owner, since = held.get(queue, ("", 0.0))
            if owner in ("", client_id) or now - since > self._life_s:
                held[queue] = client_id, now
                got.append(queue)
        return got

    def unlock(self, group: str, client_id: str, queues: list[Queue]) -> None:
        """Releases those of the queues that the client holds."""
        held = self._groups.get(group, {})
        for queue in queues:
            if held.get(queue, ("", 0.0))[0] == client_id:
                del held[queue]
        if not held:
            self._groups.pop(group, None)

    def any_held(self, group: str) -> bool:
        """Whether a member of the group holds a lock: it consumes in order."""
        limit = time.monotonic() - self._life_s
        return any(since > limit for _, since in self._groups.get(group, {}).values())
