"""`Meters`: a counter for each topic, or for each topic and group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ._counters import Meter

#: RocketMQ's separator in the keys of statistics, between a topic and a group.
SEPARATOR: Final = "@"


class Meters:
    """Counters by key, `most` at the most. What has no place is counted together. `fresh(key)` is
    called with each new key.
    """

    def __init__(self, most: int, fresh: Callable[[str], None] = lambda _: None) -> None:
        self._most = most
        self._fresh = fresh
        self._meters: dict[str, Meter] = {}
        self._others = Meter()

    def of(self, key: str) -> Meter:
        """The counter of a key."""
        found = self._meters.get(key)
        if found is None:
            if len(self._meters) >= self._most:
                return self._others
            found = self._meters[key] = Meter()
            self._fresh(key)
        return found

    def forget(self, key: str) -> None:
        """Gives up the place of a key. Whoever still adds to its counter does so in vain."""
        self._meters.pop(key, None)

    def __iter__(self) -> Iterator[tuple[str, Meter]]:
        return iter(self._meters.items())

    def __len__(self) -> int:
        return len(self._meters)

    def sums(self) -> tuple[int, int, int]:
        """Times, messages and bytes of all counters that there are now."""
        all_of = [meter.totals() for meter in (*self._meters.values(), self._others)]
        times, messages, size = map(sum, zip(*all_of, strict=True))
        return times, messages, size
