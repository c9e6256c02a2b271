"""`Reasons`: why connections were closed, or requests refused, for the log at a bounded rate."""

from __future__ import annotations

import re
import time
from typing import Any, Final

from ...conf.logging import KIND

#: Reasons are logged this often (s), each with how many connections or requests it has ended.
EVERY_S: Final = 1.0
_MOST: Final = 20
_OTHERS: Final = "other reasons"
_NUMBER: Final = re.compile(r"[0-9]+")


class Reasons:
    """Counts reasons for `what` until they are told to the logger."""

    def __init__(self, logger: Any, what: str = "connections closed") -> None:
        self._logger = logger
        self._what = what
        self._counts: dict[str, int] = {}
        self._told_at = 0.0
        #: All that were counted, by reason without its numbers, which a peer may choose.
        self.total: dict[str, int] = {}

    def add(self, why: str, peer: str) -> None:
        """Counts a reason, and tells the log of it unless it was told just before."""
        kind = _NUMBER.sub("N", why)
        if kind not in self.total and len(self.total) >= _MOST:
            kind = _OTHERS
        self.total[kind] = self.total.get(kind, 0) + 1
        if why not in self._counts and len(self._counts) >= _MOST:
            why = _OTHERS
        self._counts[why] = self._counts.get(why, 0) + 1
        self.tell(peer)

    def tell(self, peer: str = "") -> None:
        """Logs what was counted since the last time."""
        now = time.monotonic()
        if not self._counts or now - self._told_at < EVERY_S:
            return
        self._told_at = now
        for why, count in self._counts.items():
            kind = _NUMBER.sub("N", why)
            more = {KIND: kind if kind in self.total else _OTHERS}
            self._logger.warning(self._what, why=why, count=count, last_peer=peer, **more)
        self._counts.clear()
