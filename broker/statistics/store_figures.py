"""`StoreFigures`: rates and totals of the whole store, as RocketMQ's StoreStatsService has them."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TypeAlias

#: RocketMQ's rates are those of the last 10, 60 and 600 s.
_WINDOWS: Final = (10, 60, 600)


class Counted(NamedTuple):
    """What has been counted up to now. `records`, `size` and `failed` are of the store, `session`
    is another number when those begin anew. Reads are those of this broker.
    """

    session: int
    records: int
    size: int
    failed: int
    found: int
    missed: int
    transferred: int


class _Sums(NamedTuple):
    """Totals since the broker's start."""

    puts: int = 0
    size: int = 0
    failed: int = 0
    found: int = 0
    missed: int = 0
    transferred: int = 0


Name: TypeAlias = Literal["puts", "found", "missed", "reads", "transferred"]


class Mornings(NamedTuple):
    """A total at the beginning of yesterday and of today, and now."""

    yesterday: int
    today: int
    now: int


class StoreFigures:
    """To be called once a second: `look`."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, _Sums]] = deque(maxlen=_WINDOWS[-1] + 1)
        self._last: Counted | None = None
        self._day = 0
        self._today = self._yesterday = self.sums = _Sums()

    def look(self, now: float, clock_s: float, counted: Counted) -> None:
        """Takes a look, at this monotonic time (s) and this time of the day (epoch s)."""
        before = self.sums
        self.update(counted)
        self._looks.append((now, self.sums))
        day = datetime.fromtimestamp(clock_s, UTC).astimezone().toordinal()
        if day != self._day:
            self._yesterday, self._today = self._today, before
            self._day = day

    def update(self, counted: Counted) -> None:
        """Adds what was counted since the last time to the sums."""
        last = self._last
        self._last = counted
        began = last is None or last.session != counted.session
        if last is None or began:
            base = (counted.records, counted.size, counted.failed)
        else:
            base = (last.records, last.size, last.failed)
        sums = self.sums
        self.sums = _Sums(
            sums.puts + max(0, counted.records - base[0]),
            sums.size + max(0, counted.size - base[1]),
            sums.failed + max(0, counted.failed - base[2]),
            counted.found,
            counted.missed,
            counted.transferred,
        )

    def rates(self, name: Name) -> tuple[float, ...]:
        """Growth a second in the last 10, 60 and 600 s."""
        return tuple(self._rate(name, seconds) for seconds in _WINDOWS)

    def _rate(self, name: Name, seconds: int) -> float:
        if len(self._looks) < 2:
            return 0.0
        began, before = self._looks[max(0, len(self._looks) - 1 - seconds)]
        now, sums = self._looks[-1]
        return (_value(sums, name) - _value(before, name)) / (now - began) if now > began else 0.0

    def put_total(self) -> Mornings:
        """Messages that were put."""
        return Mornings(self._yesterday.puts, self._today.puts, self.sums.puts)

    def get_total(self) -> Mornings:
        """Messages that were given to consumers."""
        return Mornings(self._yesterday.transferred, self._today.transferred, self.sums.transferred)


def _value(sums: _Sums, name: Name) -> int:
    return sums.found + sums.missed if name == "reads" else int(getattr(sums, name))
