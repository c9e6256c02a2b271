"""The rule when a dead actor is started again. `main.py` starts it."""

from __future__ import annotations

import msgspec

_SHORT_LIFE_S = 1.0
_FREE_SHORT_LIVES = 5
_FIRST_DELAY_S = 0.01
#: A wait doubles so often at most, far beyond any bound: 2**1100 is no float.
_MOST_DOUBLINGS = 40


class RestartPolicy(msgspec.Struct):
    """The deaths of one actor so far, and the delay before its next start.

    An actor that was ready is started again at once. After more than five lives in a row that were
    shorter than a second, each start waits twice as long as the one before. An actor that dies
    before it is ready gets one start at once, then waits in the same way. After `max_boot_failures`
    such deaths in a row it is given up. `max_delay_s` bounds the wait.
    """

    max_delay_s: float
    max_boot_failures: int
    short_lives: int = 0
    boot_failures: int = 0
    #: Whether the last lives were so short that the next start has to wait.
    loops: bool = False

    def died(self, *, was_ready: bool, lived_s: float) -> float | None:
        """Notes a death. Returns the seconds to wait before the next start, None to give up."""
        if was_ready:
            self.boot_failures = 0
            self.short_lives = self.short_lives + 1 if lived_s < _SHORT_LIFE_S else 0
        else:
            self.boot_failures += 1
            self.short_lives += 1
            if self.boot_failures >= self.max_boot_failures:
                return None
        over = self.short_lives - (_FREE_SHORT_LIVES if was_ready else 1)
        self.loops = over > 0
        if over <= 0:
            return 0.0
        return min(_FIRST_DELAY_S * 2.0 ** min(over, _MOST_DOUBLINGS), self.max_delay_s)
