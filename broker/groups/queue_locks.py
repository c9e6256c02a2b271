"""The locks of queues: an orderly consumer reads a queue only while it holds the queue's lock
(RocketMQ's RebalanceLockManager).
"""

from __future__ import annotations

import time
from typing import Final

#: RocketMQ's rocketmq.broker.rebalance.lockMaxLiveTime (s). Clients renew a lock every 20 s.
LIFE_S: Final = 60.0

Queue = tuple[str, int]  # topic, queue id


class QueueLocks:
    """Who holds which queue of which group."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Queue, tuple[str, float]]] = {}

    def lock(self, group: str, client_id: str, queues: list[Queue]) -> list[Queue]:
        """Locks queues for a client, or renews its locks. Returns those that it holds now."""
        now = time.monotonic()
        held = self._groups.setdefault(group, {})
        got = []
        for queue in queues:
            owner, since = held.get(queue, ("", 0.0))
            if owner in ("", client_id) or now - since > LIFE_S:
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
        limit = time.monotonic() - LIFE_S
        return any(since > limit for _, since in self._groups.get(group, {}).values())
