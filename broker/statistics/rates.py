"""`Rates`: what a growing counter has grown by in the last minute, hour and day, as RocketMQ's
StatsItem tells it.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Literal, NamedTuple, TypeAlias

Window: TypeAlias = Literal["minute", "hour", "day"]
#: What a counter counts (`Meter.totals`): times, messages, bytes.
Totals: TypeAlias = tuple[int, int, int]
MESSAGES: Final = 1
BYTES: Final = 2
#: How often looks are taken (s). Other windows have every 60th and every 360th of them.
LOOK_S: Final = 10.0
#: Each window's looks: one of so many is kept, and so many of them.
_KEPT: Final[dict[Window, tuple[int, int]]] = {"minute": (1, 7), "hour": (60, 7), "day": (360, 25)}


class Rate(NamedTuple):
    """Growth in a window: in all, for each second, and for each time that something was counted."""

    total: int = 0
    per_second: float = 0.0
    per_time: float = 0.0


class Rates:
    """Windows over one counter."""

    __slots__ = ("_count", "_looks", "idle")

    def __init__(self) -> None:
        self._looks: dict[Window, deque[tuple[float, Totals]]] = {
            name: deque(maxlen=most) for name, (_, most) in _KEPT.items()
        }
        self._count = 0
        #: So many of the last looks have found the counter unchanged.
        self.idle = 0

    def look(self, now: float, totals: Totals) -> None:
        """Takes a look at the counter, at this monotonic time (s). To be called every 10 s."""
        looks = self._looks["minute"]
        self.idle = self.idle + 1 if looks and looks[-1][1] == totals else 0
        for name, (each, _) in _KEPT.items():
            if self._count % each == 0:
                self._looks[name].append((now, totals))
        self._count += 1

    def rate(self, window: Window, column: int) -> Rate:
        """The growth of one of the counter's numbers in a window."""
        looks = self._looks[window]
        if len(looks) < 2:
            return Rate()
        (began, before), (now, after) = looks[0], looks[-1]
        grown, often, seconds = after[column] - before[column], after[0] - before[0], now - began
        return Rate(
            grown,
            grown / seconds if seconds > 0 else 0.0,
            grown / often if often else 0.0,
        )
