"""`Refused`: says in the log, once a second at most, what was refused and why."""

from __future__ import annotations

import time
from typing import Any

_EVERY_S = 1.0


class Refused:
    """Counts refusals by reason. Only the first of each reason is told in full."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._said_at = -_EVERY_S
        self._counts: dict[str, int] = {}
        self._first: dict[str, str] = {}

    def note(self, reason: str, where: str, count: int = 1) -> None:
        """Notes `count` refusals. `reason` is one of a few, `where` may hold what others wrote."""
        self._counts[reason] = self._counts.get(reason, 0) + count
        self._first.setdefault(reason, where)

    def say(self) -> None:
        """Writes what was noted, unless the last lines are too recent."""
        if not self._counts or time.monotonic() < self._said_at + _EVERY_S:
            return
        self._said_at = time.monotonic()
        for reason, count in self._counts.items():
            self._logger.warning(
                "halves or decisions of transactions were refused",
                reason=reason, count=count, first=self._first[reason],
            )  # fmt: skip
        self._counts.clear()
        self._first.clear()
