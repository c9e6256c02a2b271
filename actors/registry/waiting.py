"""Connections without a session: their number and their time are bounded.

A connection costs the registry a descriptor before its client has said hello. So a user has at most
a quarter of those that the registry keeps, and when they are too many the user's oldest one is
closed. A client that was only slow connects again (`client/session.py`).
"""

from __future__ import annotations

import time
from collections import Counter

_PATIENCE_S = 10.0
_LEAST_PER_USER = 4


class Waiting:
    """The connections that have no session yet, by descriptor, the oldest first. `most` bounds
    their number.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._per_user = max(_LEAST_PER_USER, most // 4)
        self._since: dict[int, tuple[int, float]] = {}

    def add(self, fd: int, uid: int) -> int | None:
        """Adds a connection of the user `uid`. Returns the one to close for it, if they are too
        many: the oldest one of this user, or of the user with the most.
        """
        self._since[fd] = (uid, time.monotonic())
        counts = Counter(user for user, _ in self._since.values())
        if counts[uid] > self._per_user:
            return self._oldest_of(uid)
        if len(self._since) > self._most:
            return self._oldest_of(counts.most_common(1)[0][0])
        return None

    def _oldest_of(self, uid: int) -> int:
        return next(fd for fd, (user, _) in self._since.items() if user == uid)

    def remove(self, fd: int) -> None:
        """Forgets a connection: it has a session now, or is closed."""
        self._since.pop(fd, None)

    def overdue(self) -> list[int]:
        """The connections that have waited for more than 10 s."""
        limit = time.monotonic() - _PATIENCE_S
        return [fd for fd, (_, since) in self._since.items() if since < limit]
