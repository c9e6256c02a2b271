"""How far runs lie apart, and whether a difference of two results is more than that."""

from __future__ import annotations

import random
import statistics
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Fewer runs do not tell how large the noise is.
ENOUGH: Final = 5
_RESAMPLES: Final = 1000
_LEFT_OUT: Final = 0.025  # at each end: an interval of 95 %


class Spread(NamedTuple):
    """The median of some runs, and the least and the greatest."""

    runs: int
    least: float
    median: float
    most: float


def spread(values: Sequence[float]) -> Spread | None:
    """None without values."""
    if not values:
        return None
    return Spread(len(values), min(values), statistics.median(values), max(values))


class Ratio(NamedTuple):
    """The ratio of two medians, and its interval of 95 % if both have enough runs."""

    value: float
    interval: tuple[float, float] | None

    @property
    def verdict(self) -> str:
        """What the runs say about the difference."""
        if self.interval is None:
            return "noise unknown"
        return "within the noise" if self.interval[0] <= 1 <= self.interval[1] else "differs"


def ratio(values: Sequence[float], base: Sequence[float]) -> Ratio | None:
    """The ratio of the median of `values` to that of `base`; None if there is none.

    The interval is a bootstrap: medians of runs drawn again with replacement (Efron 1979). A
    resample whose base is 0 makes the ratio as great as it can be.
    """
    if not values or not base:
        return None
    below = statistics.median(base)
    if below <= 0:
        return None
    value = statistics.median(values) / below
    if min(len(values), len(base)) < ENOUGH:
        return Ratio(value, None)
    draw = random.Random(1)  # noqa: S311 - the same files give the same page
    found = []
    for _ in range(_RESAMPLES):
        over = statistics.median(draw.choices(values, k=len(values)))
        under = statistics.median(draw.choices(base, k=len(base)))
        found.append(over / under if under > 0 else float("inf"))
    found.sort()
    out = int(_LEFT_OUT * _RESAMPLES)
    return Ratio(value, (found[out], found[-1 - out]))
