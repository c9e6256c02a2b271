"""Slopes: whether something grows or falls while the load is steady."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: A shorter run says nothing about an hour.
_LEAST_S = 60
_HOUR_S = 3600.0


def slope(values: Sequence[float | None]) -> float:
    """Growth of values that are a second apart, an hour: by least squares. None is left out."""
    points = [(float(at), value) for at, value in enumerate(values) if value is not None]
    if len(points) < 2:
        return 0.0
    x0 = sum(x for x, _ in points) / len(points)
    y0 = sum(y for _, y in points) / len(points)
    across = sum((x - x0) ** 2 for x, _ in points)
    return sum((x - x0) * (y - y0) for x, y in points) / across * _HOUR_S


def drift(columns: Mapping[str, Sequence[float | None]], warm_up: int) -> dict[str, float]:
    """Slopes an hour of the measured part: rate (messages/s), p99 (us), memory and shared memory
    (bytes), open files; nothing for a short run.
    """
    length = len(columns.get("publish_rate", ())) - warm_up
    if length < _LEAST_S:
        return {}
    # The last second is not whole.
    found = {
        name: slope(columns[column][warm_up:-1])
        for name, column in (
            ("publish_rate", "publish_rate"),
            ("publish_p99", "publish_p99"),
            ("shared_memory", "shared_memory"),
        )
        if column in columns
    }
    for name in ("memory", "files"):
        each = [values for key, values in columns.items() if key.startswith(f"{name}.")]
        found[name] = slope([_total(row) for row in list(zip(*each, strict=True))[warm_up:-1]])
    return found


def _total(row: Sequence[float | None]) -> float | None:
    """The sum; None while a value is missing, as that of a process that is being replaced."""
    known = [value for value in row if value is not None]
    return sum(known) if known and len(known) == len(row) else None
