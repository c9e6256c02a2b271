"""`Reasons`: for what reasons connections were closed, told to the log at a bounded rate."""

from __future__ import annotations

import time
from typing import Any, Final

#: Reasons are logged this often (s), each with how many connections it has ended.
EVERY_S: Final = 1.0
_MOST: Final = 20


class Reasons:
    """Counts reasons until they are told to the logger."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._counts: dict[str, int] = {}
        self._told_at = 0.0
        #: All that were counted, by reason: for the status.
        self.total: dict[str, int] = {}

    def add(self, why: str, peer: str) -> None:
        """Counts a reason, and tells the log of it unless it was told just before."""
        if why not in self._counts and len(self._counts) >= _MOST:
            why = "other reasons"
        self._counts[why] = self._counts.get(why, 0) + 1
        if why in self.total or len(self.total) < _MOST:
            self.total[why] = self.total.get(why, 0) + 1
        self.tell(peer)

    def tell(self, peer: str = "") -> None:
        """Logs what was counted since the last time."""
        now = time.monotonic()
        if not self._counts or now - self._told_at < EVERY_S:
            return
        self._told_at = now
        for why, count in self._counts.items():
            self._logger.warning("connections closed", why=why, count=count, last_peer=peer)
        self._counts.clear()
