"""How long puts took: RocketMQ's distribution, and percentiles."""

from __future__ import annotations

import time
from typing import Final

from ...shm.protocol.broker_status import PUT_LIMITS_MS
from ._counters import LIMITS, Latencies

#: RocketMQ's ranges: the upper end (ms) of each, and its name.
_RANGES: Final = (
    *((0, "<=0ms"), (10, "0~10ms"), (50, "10~50ms"), (100, "50~100ms"), (200, "100~200ms")),
    *((500, "200~500ms"), (1000, "500ms~1s"), (2000, "1~2s"), (3000, "2~3s"), (4000, "3~4s")),
    *((5000, "4~5s"), (10_000, "5~10s")),
)
_LAST: Final = "10s~"
#: RocketMQ begins the distribution anew each minute (s).
_PERIOD_S: Final = 60.0

assert {*PUT_LIMITS_MS, *(end for end, _ in _RANGES)} <= set(LIMITS)


class PutLatencies:
    """The puts of the running minute, and the longest since the start."""

    def __init__(self) -> None:
        self.all: Final = Latencies()
        self._before = self.all.counts()
        self._until = time.monotonic() + _PERIOD_S

    def tick(self, now: float) -> None:
        """Begins a new minute when it is time."""
        if now >= self._until:
            self._until = now + _PERIOD_S
            self._before = self.all.counts()

    def _counts(self) -> list[int]:
        return [one - past for one, past in zip(self.all.counts(), self._before, strict=True)]

    def distribution(self) -> dict[str, int]:
        """How many puts fell in each of RocketMQ's ranges."""
        counts = self._counts()
        found, first = {}, 0
        for end, name in _RANGES:
            behind = LIMITS.index(end) + 1
            found[name] = sum(counts[first:behind])
            first = behind
        found[_LAST] = sum(counts[first:])
        return found

    def below(self) -> list[int]:
        """How many puts since the start took less than each of PUT_LIMITS_MS, and how many there
        were.
        """
        counts = self.all.counts()
        ends = [LIMITS.index(limit) + 1 for limit in PUT_LIMITS_MS]
        return [*(sum(counts[:end]) for end in ends), sum(counts)]

    def percentile(self, share: float) -> float:
        """So long (ms) took this share of the puts at most; 0.0 if there were none."""
        counts = self._counts()
        left = share * sum(counts)
        for limit, count in zip(LIMITS, counts, strict=False):
            left -= count
            if left <= 0:
                return float(limit)
        return float(self.all.longest_ms)
