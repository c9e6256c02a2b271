"""Kinds of settings: they turn the text of a file, a variable or an option into a checked value.

A kind is the annotation of a field of `Settings`. It holds the setting's unit, range, reason and
RocketMQ's names for it, and parses values.
"""

from __future__ import annotations

import enum
import re
import socket
from pathlib import Path
from typing import Any, Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

_SIZES: Final = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": 1024 * GIB}
_DURATIONS_US: Final = {
    "us": 1,
    "ms": 1000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_DELAY_UNITS_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DELAY: Final = re.compile(r"([0-9]{1,9})([smhd])")
#: The most delay levels that a store can have, and the longest of them.
MAX_DELAY_LEVELS: Final = 48
_LONGEST_DELAY_MS: Final = 3650 * 86_400_000
_NUMBER: Final = re.compile(r"(-?[0-9][0-9_]*) *([A-Za-z]*)")
_TRUE: Final = frozenset(("true", "yes", "on", "1"))
_FALSE: Final = frozenset(("false", "no", "off", "0"))


class SettingError(ValueError):
    """A setting that is refused: `key` and `value` as they were given, and `allowed` in words.

    `origin` names the source of the value (a file, a variable, --set), "" when it is not known.
    """

    def __init__(self, key: str, value: object, allowed: str, origin: str = "") -> None:
        super().__init__(key, value, allowed, origin)
        self.key = key
        self.value = value
        self.allowed = allowed
        self.origin = origin

    def __str__(self) -> str:
        source = f" (from {self.origin})" if self.origin else ""
        return f"{self.key} = {shown(self.value)}{source} is not allowed: {self.allowed}"


def shown(value: object) -> str:
    """`value` as the TOML file writes it. Escapes characters that could control a terminal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str | Path):
        text = ascii(str(value))[1:-1].replace("\\'", "'").replace('"', '\\"')
        return f'"{text}"'
    return ascii(value)


class Kind:
    """The base class of all kinds. `rocketmq` lists RocketMQ's names, the usual one first."""

    def __init__(self, unit: str, reason: str, *rocketmq: str) -> None:
        self.unit = unit
        self.reason = reason
        self.rocketmq = rocketmq

    @property
    def range(self) -> str:
        """The allowed values in words, for the annotated file and for error messages."""
        raise NotImplementedError

    def parse(self, raw: object) -> Any:
        """The value that `raw`, text or a value of TOML, stands for. Raises ValueError."""
        raise NotImplementedError

    def show(self, value: Any) -> str:
        """`value` as the TOML file writes it."""
        return shown(value)


class Number(Kind):
    """A whole number of `unit`s from `low` to `high`, a multiple of `multiple`."""

    def __init__(
        self, unit: str, low: int, high: int, reason: str, *rocketmq: str, multiple: int = 1
    ) -> None:
        super().__init__(unit, reason, *rocketmq)
        self.low = low
        self.high = high
        self.multiple = multiple

    @property
    def range(self) -> str:
        multiple = f", a multiple of {self.show(self.multiple)}" if self.multiple > 1 else ""
        return f"{self.show(self.low)} to {self.show(self.high)}{multiple}{self.forms()}"

    def parse(self, raw: object) -> int:
        value = self.number(raw)
        if not self.low <= value <= self.high or value % self.multiple:
            raise ValueError
        return value

    def number(self, raw: object) -> int:
        """`raw` as a number in the setting's unit. Does not check the range. Raises ValueError."""
        if isinstance(raw, int) and not isinstance(raw, bool):
            return raw
        match = _NUMBER.fullmatch(raw.strip()) if isinstance(raw, str) else None
        if not match:
            raise ValueError
        amount, suffix = int(match[1]), match[2]
        return self.scaled(amount, suffix) if suffix else amount

    def scaled(self, amount: int, suffix: str) -> int:
        """`amount` of the unit `suffix`, in the setting's unit. Raises ValueError for an unknown
        suffix; a plain number knows none.
        """
        raise ValueError

    def forms(self) -> str:
        """Other ways to write the number, in words."""
        return ""


class Size(Number):
    """Bytes: a number, or text like "64MiB"."""

    def __init__(self, low: int, high: int, reason: str, *rocketmq: str, multiple: int = 1) -> None:
        super().__init__("bytes", low, high, reason, *rocketmq, multiple=multiple)

    def scaled(self, amount: int, suffix: str) -> int:
        if suffix not in _SIZES:
            raise ValueError
        return amount * _SIZES[suffix]

    def forms(self) -> str:
        return '; also as text: "64KiB", "1GiB"'

    def show(self, value: Any) -> str:
        for suffix in ("GiB", "MiB", "KiB"):
            if value and value % _SIZES[suffix] == 0:
                return f'"{value // _SIZES[suffix]}{suffix}"'
        return shown(value)


class Duration(Number):
    """A time in the unit that ends the setting's name, or text like "500ms", "10s"."""

    def scaled(self, amount: int, suffix: str) -> int:
        if suffix not in _DURATIONS_US:
            raise ValueError
        value, rest = divmod(amount * _DURATIONS_US[suffix], _DURATIONS_US[self.unit])
        if rest:
            raise ValueError
        return value

    def forms(self) -> str:
        return '; also as text: "20us", "500ms", "10s", "5min", "2h", "3d"'


class Switch(Kind):
    """true or false."""

    @property
    def range(self) -> str:
        return "true or false"

    def __init__(self, reason: str, *rocketmq: str) -> None:
        super().__init__("switch", reason, *rocketmq)

    def parse(self, raw: object) -> bool:
        if isinstance(raw, bool):
            return raw
        word = raw.strip().lower() if isinstance(raw, str) else ""
        if word not in _TRUE | _FALSE:
            raise ValueError
        return word in _TRUE


class Choice(Kind):
    """One value of an enumeration, written as the text of the value."""

    def __init__(self, values: type[enum.StrEnum], reason: str, *rocketmq: str) -> None:
        super().__init__("choice", reason, *rocketmq)
        self.values = values

    @property
    def range(self) -> str:
        return " or ".join(f'"{value.value}"' for value in self.values)

    def parse(self, raw: object) -> enum.StrEnum:
        if not isinstance(raw, str):
            raise ValueError  # noqa: TRY004  # all kinds refuse with a ValueError
        return self.values(raw)


class Text(Kind):
    """Text that matches the regular expression `pattern`; `allowed` describes it in words."""

    def __init__(self, pattern: str, allowed: str, reason: str, *rocketmq: str) -> None:
        super().__init__("text", reason, *rocketmq)
        self.pattern = pattern
        self.allowed = allowed

    @property
    def range(self) -> str:
        return self.allowed

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str) or not re.fullmatch(self.pattern, raw):
            raise ValueError
        return raw


class DelayLevels(Kind):
    """RocketMQ's delay levels, such as "1s 5s 1m 2h 1d". The value is their times in ms, that of
    level 1 first.
    """

    def __init__(self, reason: str, *rocketmq: str) -> None:
        super().__init__("times", reason, *rocketmq)

    @property
    def range(self) -> str:
        return (
            f'1 to {MAX_DELAY_LEVELS} times from "1s" to "3650d" with blanks between them; the '
            "units are s, m, h, d"
        )

    def parse(self, raw: object) -> tuple[int, ...]:
        levels = raw if isinstance(raw, tuple) else self._read(raw)
        if not 1 <= len(levels) <= MAX_DELAY_LEVELS:
            raise ValueError
        if not all(0 < ms <= _LONGEST_DELAY_MS and ms % 1000 == 0 for ms in levels):
            raise ValueError
        return levels

    def _read(self, raw: object) -> tuple[int, ...]:
        words = raw.split() if isinstance(raw, str) else []
        found = [match for word in words if (match := _DELAY.fullmatch(word))]
        if len(found) != len(words):
            raise ValueError
        return tuple(int(match[1]) * _DELAY_UNITS_MS[match[2]] for match in found)

    def show(self, value: Any) -> str:
        return shown(" ".join(map(_shown_delay, value)))


def _shown_delay(ms: int) -> str:
    """A time in the largest unit that holds it without a rest, as RocketMQ writes it."""
    unit = next(u for u in "dhms" if ms % _DELAY_UNITS_MS[u] == 0)
    return f"{ms // _DELAY_UNITS_MS[unit]}{unit}"


class Address(Kind):
    """A numeric IPv4 or IPv6 address. Host names are refused: records hold addresses, and the
    address of a name may be another one after the next start.
    """

    @property
    def range(self) -> str:
        return "a numeric IPv4 or IPv6 address, no host name"

    def __init__(self, reason: str, *rocketmq: str) -> None:
        super().__init__("address", reason, *rocketmq)

    def parse(self, raw: object) -> str:
        try:
            socket.inet_pton(socket.AF_INET6 if ":" in str(raw) else socket.AF_INET, str(raw))
        except OSError:
            raise ValueError from None
        return str(raw)


class Folder(Kind):
    """A folder of the file system, which need not exist yet."""

    @property
    def range(self) -> str:
        return "a path of at most 4,000 bytes; `~` is the home folder"

    def __init__(self, reason: str, *rocketmq: str) -> None:
        super().__init__("path", reason, *rocketmq)

    def parse(self, raw: object) -> Path:
        if not isinstance(raw, str | Path) or not str(raw).strip() or "\0" in str(raw):
            raise ValueError
        path = Path(raw).expanduser()
        if len(bytes(path)) > 4000:
            raise ValueError
        return path
