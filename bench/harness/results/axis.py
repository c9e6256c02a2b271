"""Axes of plots: where a value lies, and which ticks are drawn."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ROUND: Final = (1, 2, 5, 10)
#: A shorter axis cannot be divided into steps: its values count as one.
_LEAST: Final = 1e-300
_TICKS: Final = 5


class Axis:
    """A scale from the least to the greatest of some values, linear or logarithmic.

    A logarithmic axis has no place for values that are not above 0: `place` is None for them.
    """

    def __init__(
        self,
        values: Sequence[float],
        label: Callable[[float], str],
        *,
        log: bool = False,
        from_zero: bool = False,
        room: float = 0.0,
    ) -> None:
        """`from_zero` has 0 on a linear axis; `room` is added, as a part of the length, at each end
        but at 0.
        """
        self.log = log
        self.label = label
        shown = [one for one in values if not log or one > 0] or [1.0]
        low, high = min(shown), max(shown)
        if log:
            low, high = math.log10(low), math.log10(high)
            if high - low < 0.1:
                low, high = low - 0.3, high + 0.3
        else:
            low = min(0.0, low) if from_zero else low
            if high - low < _LEAST:
                half = max(1.0, abs(low) / 10)
                low, high = low - half * (low != 0 or not from_zero), high + half
        more = room * (high - low)
        self._low = low if from_zero and low == 0 else low - more
        self._high = high + more

    def place(self, value: float) -> float | None:
        """0 at the beginning of the axis, 1 at its end."""
        if self.log:
            if value <= 0:
                return None
            value = math.log10(value)
        return (value - self._low) / (self._high - self._low)

    def ticks(self) -> list[tuple[float, str]]:
        """Places within the axis and their labels."""
        values = self._decades() if self.log else self._steps()
        found = []
        for value in values:
            at = self.place(value)
            if at is not None and -1e-9 <= at <= 1 + 1e-9:
                found.append((at, self.label(value)))
        return found

    def _decades(self) -> list[float]:
        most = min(math.ceil(self._high), sys.float_info.max_10_exp)
        decades = range(math.floor(self._low), most + 1)
        parts = (1,) if self._high - self._low > 3 else (1, 2, 5)
        step = max(1, round(len(decades) / 7))
        return [part * 10.0**power for power in decades[::step] for part in parts]

    def _steps(self) -> list[float]:
        wide = (self._high - self._low) / _TICKS
        size = 10.0 ** math.floor(math.log10(wide))
        step = next(one * size for one in _ROUND if one * size >= wide * 0.99)
        first = math.ceil(self._low / step)
        return [step * (first + n) for n in range(2 * _TICKS + 2)]


class PercentileAxis(Axis):
    """Values are 1 / (1 - quantile), on a logarithmic axis: each nine has the same width."""

    def __init__(self, values: Sequence[float]) -> None:
        super().__init__([1.0, *values, 100.0], _percentile, log=True)

    def _decades(self) -> list[float]:
        return [10.0**power for power in range(math.ceil(self._high) + 1)]


def _percentile(value: float) -> str:
    nines = round(math.log10(value))
    if nines < 2:
        return ("0 %", "90 %")[nines]
    return "99" + ("." + "9" * (nines - 2) if nines > 2 else "") + (" %" if nines < 4 else "")
