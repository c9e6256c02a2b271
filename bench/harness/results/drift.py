"""Slopes: whether something grows or falls while the load is steady."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from .amounts import amount

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .model import Run

#: A shorter run says nothing about an hour.
LEAST_S: Final = 60
_HOUR_S: Final = 3600.0
#: Name: title, unit, and the change over a run, as a share of the mean, from which it is a drift.
#: Percentiles of single seconds lie far apart by themselves; open files do not.
_KINDS: Final = {
    "publish_rate": ("rate", "msg/s", 0.05),
    "publish_p99": ("publish latency, p99", "us", 0.25),
    "memory": ("memory of the server's processes", "bytes", 0.05),
    "files": ("open files of the server", "", 0.02),
    "shared_memory": ("shared memory of the machine", "bytes", 0.05),
}
#: A slope is told from noise if it is so many times its own standard error.
_CLEAR: Final = 4.0


class Trend(NamedTuple):
    """How something went over the measured part: its mean, its slope an hour, and the change from
    begin to end along that slope, as a share of the mean.
    """

    title: str
    unit: str
    mean: float
    slope: float
    change: float
    is_drift: bool

    def said(self) -> tuple[str, str, str, str]:
        """Mean, slope, change and meaning, as people read them."""
        sign = "-" if self.slope < 0 else "+"
        return (
            amount(self.mean, self.unit),
            f"{sign}{amount(abs(self.slope), self.unit)} an hour",
            f"{self.change:+.1%}",
            "DRIFT" if self.is_drift else "no drift",
        )


def slope(values: Sequence[float | None]) -> float:
    """Growth of values that are a second apart, an hour: by least squares. None is left out."""
    return _fit(values)[1]


def _fit(values: Sequence[float | None]) -> tuple[float, float, float]:
    """(mean, slope an hour, standard error of the slope)."""
    points = [(float(at), value) for at, value in enumerate(values) if value is not None]
    if len(points) < 2:
        return (points[0][1] if points else 0.0), 0.0, 0.0
    x0 = sum(x for x, _ in points) / len(points)
    y0 = sum(y for _, y in points) / len(points)
    across = sum((x - x0) ** 2 for x, _ in points)
    steep = sum((x - x0) * (y - y0) for x, y in points) / across
    left = sum((y - y0 - steep * (x - x0)) ** 2 for x, y in points)
    error = math.sqrt(left / max(1, len(points) - 2) / across)
    return y0, steep * _HOUR_S, error * _HOUR_S


def drift(columns: Mapping[str, Sequence[float | None]], warm_up: int) -> dict[str, float]:
    """Slopes an hour of the measured part: rate (messages/s), p99 (us), memory and shared memory
    (bytes), open files; nothing for a short run.
    """
    return {name: slope(values) for name, values in _measured(columns, warm_up).items()}


def trends(run: Run) -> list[Trend]:
    """What `drift` has, with its meaning."""
    found = []
    for name, values in _measured(run.series.columns, int(run.warm_up_s)).items():
        mean, steep, error = _fit(values)
        title, unit, most = _KINDS[name]
        change = steep * len(values) / _HOUR_S / mean if mean else 0.0
        is_drift = abs(change) > most and abs(steep) > _CLEAR * error
        found.append(Trend(title, unit, mean, steep, change, is_drift))
    return found


def _measured(
    columns: Mapping[str, Sequence[float | None]], warm_up: int
) -> dict[str, Sequence[float | None]]:
    """The values of each kind by second, without the warm-up; nothing for a short run."""
    if len(columns.get("publish_rate", ())) - warm_up < LEAST_S:
        return {}
    # The last second is not whole.
    found = {name: columns[name][warm_up:-1] for name in _KINDS if name in columns}
    for name in ("memory", "files"):
        each = [values for key, values in columns.items() if key.startswith(f"{name}.")]
        if each:
            found[name] = [_total(row) for row in list(zip(*each, strict=True))[warm_up:-1]]
    return found


def _total(row: Sequence[float | None]) -> float | None:
    """The sum; None while a value is missing, as that of a process that is being replaced."""
    known = [value for value in row if value is not None]
    return sum(known) if known and len(known) == len(row) else None
