"""Numbers as people read them: 1.2 M, 850 us, 3.4 ms, 64 KiB."""

from __future__ import annotations

import math
from typing import Final

_TIMES: Final = ((1e-3, "ns"), (1.0, "us"), (1e3, "ms"), (1e6, "s"))
_DECIMAL: Final = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"))
_PREFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti")
_BINARY: Final = tuple((1024.0**n, f"{prefix}B") for n, prefix in enumerate(_PREFIXES))


def amount(value: float | None, unit: str) -> str:
    """A number of a unit in three digits or so. Units: us, s, x, bytes (KiB), B and bytes/s (kB),
    or others, which stand behind the number.
    """
    if value is None or math.isnan(value):
        return "–"
    if unit == "us":
        return _scaled(value, _TIMES)
    if unit == "bytes":
        return _scaled(value, _BINARY)
    if unit in ("B", "bytes/s"):
        text = _scaled(value, _DECIMAL)
        return text + " " * (text[-1].isdigit()) + ("B" if unit == "B" else "B/s")
    if unit == "x":
        return f"{digits(value)}×"
    if unit in ("", "s"):
        return digits(value) + (f" {unit}" if unit else "")
    return f"{_scaled(value, _DECIMAL)} {unit}"


def digits(value: float) -> str:
    """Three digits; more before the point."""
    if not value or math.isinf(value):
        return f"{value:g}"
    size = abs(value)
    if size >= 1e15 or size < 1e-4:
        return f"{value:.2e}"
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(size)))}f}".rstrip("0").rstrip(".")


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    factor, name = steps[0]
    for step, prefix in steps:
        if abs(value) >= step:
            factor, name = step, prefix
    if not value:
        name = dict(steps)[1.0]
    return f"{digits(value / factor)} {name}".rstrip()
