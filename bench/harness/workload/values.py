"""Values of a workload in the forms in which people write them: "10s", "4KiB", "50%"."""

from __future__ import annotations

import math
import re
from typing import Any

_TIMES = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z%]*)", re.ASCII)
MOST_SECONDS = 30 * 86400.0
MOST_BYTES = 1 << 46
MOST_RATE = 1e9


class Seconds(float):
    """A time: a number of seconds, or text such as "500ms", "10s", "5min", "1h"."""


class Bytes(int):
    """A size: a number of bytes, or text such as "4KiB", "1GiB"."""


class Rate(str):
    """Messages a second of all producers: a number, "max", or a share of the maximum: "50%"."""

    __slots__ = ()

    @property
    def fixed(self) -> float | None:
        """The rate, if it is a number."""
        return None if self == "max" or self.endswith("%") else float(self)

    @property
    def share(self) -> float | None:
        """The share of the maximum, if it is one."""
        return float(self[:-1]) / 100 if self.endswith("%") else None


def convert(kind: type, given: Any) -> Any:
    """A value of one of the classes above. Raises ValueError with what is allowed."""
    if kind is Seconds:
        return Seconds(_amount(given, _TIMES, "s", MOST_SECONDS, 'as "500ms", "10s", "5min", "1h"'))
    if kind is Bytes:
        allowed = 'as "512B", "4KiB", "1MiB", "1GiB"'
        found = _amount(given, _SIZES, "B", MOST_BYTES, allowed)
        if found != int(found):
            raise ValueError(f"{given!a} is no whole number of bytes")
        return Bytes(found)
    if kind is Rate:
        return _rate(given)
    raise NotImplementedError(kind)


def _amount(given: Any, units: dict[str, Any], plain: str, most: float, allowed: str) -> float:
    """A number in the unit `plain`. Raises ValueError."""
    found = None
    if isinstance(given, int | float) and not isinstance(given, bool):
        found = float(given)
    elif isinstance(given, str) and (parts := _NUMBER.fullmatch(given.strip())):
        factor = units.get(parts[2] or plain)
        found = float(parts[1]) * factor if factor else None
    if found is None or not 0 <= found <= most or not math.isfinite(found):
        raise ValueError(f"{given!a} is not allowed: a number from 0 to {most:.0f}, or {allowed}")
    return found


def _rate(given: Any) -> Rate:
    allowed = f'a number above 0 up to {MOST_RATE:.0f}, "max", or a share of it as "50%" (1 to 100)'
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 < given <= MOST_RATE:
        return Rate(f"{given:.17g}")
    if isinstance(given, str):
        if given == "max":
            return Rate(given)
        parts = _NUMBER.fullmatch(given.strip())
        if parts and parts[2] == "%" and 1 <= float(parts[1]) <= 100:
            return Rate(f"{parts[1]}%")
        if parts and not parts[2] and 0 < float(parts[1]) <= MOST_RATE:
            return Rate(parts[1])
    raise ValueError(f"{given!a} is not allowed: {allowed}")
