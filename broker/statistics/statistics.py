"""`Statistics`: the rates of topics and groups, and of the whole broker (BrokerStatsManager)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from .latencies import PutLatencies
from .meters import SEPARATOR, Meters
from .rates import BYTES, LOOK_S, MESSAGES, Rate, Rates, Window
from .store_figures import Counted, StoreFigures

#: So many topics have figures of their own, and so many pairs of a topic and a group.
_MOST: Final = 4096
#: A counter that has not changed for so many looks, a day and an hour, gives up its place.
_IDLE_LOOKS: Final = 25 * 360


class Found(NamedTuple):
    """A statistic: its rates in the last minute, hour and day."""

    minute: Rate
    hour: Rate
    day: Rate


class _Kind:
    """The counters of one kind, and their rates."""

    def __init__(self) -> None:
        self._rates: dict[str, Rates] = {}
        self.meters = Meters(_MOST, self._fresh)

    def _fresh(self, key: str) -> None:
        rates = self._rates[key] = Rates()
        rates.look(time.monotonic(), (0, 0, 0))

    def look(self, now: float) -> bool:
        """Takes a look at each counter, and gives up those that nobody uses: whether there were
        any.
        """
        for key, meter in self.meters:
            self._rates[key].look(now, meter.totals())
        idle = [key for key, rates in self._rates.items() if rates.idle > _IDLE_LOOKS]
        for key in idle:
            del self._rates[key]
            self.meters.forget(key)
        return bool(idle)

    def find(self, key: str) -> Rates | None:
        return self._rates.get(key)


class Statistics:
    """All figures of a broker. `cluster` is the key of those of the whole broker. To be called once
    a second: `tick`.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._puts, self._gets, self._backs = _Kind(), _Kind(), _Kind()
        self._all_puts, self._all_gets = Rates(), Rates()
        self._look_at = 0.0
        self.latencies = PutLatencies()
        self.store = StoreFigures()
        #: Pulls that have found messages, and that have not, of those that come by here.
        self.found = self.missed = 0
        #: Called when counters were given up: whoever has one must ask for it again.
        self.forgotten: list[Callable[[], None]] = []
        #: What tells the same as `found` and `missed` of compiled paths.
        self.reads: list[Callable[[], tuple[int, int]]] = []
        #: What knows how far groups have pulled: of a group, a topic and a queue id; else -1.
        self.reached: list[Callable[[str, str, int], int]] = []
        #: Messages put, by topic; given to consumers, and sent back by them, by topic and group.
        self.puts, self.gets, self.backs = self._puts.meters, self._gets.meters, self._backs.meters

    def sent(self, topic: str, count: int, size: int, took_s: float) -> None:
        """Counts messages that a producer has put, and how long that took."""
        self.puts.of(topic).add(count, size)
        self.latencies.all.add(int(took_s * 1000))

    def pulled(self, topic: str, group: str, count: int, size: int) -> None:
        """Counts messages that a group was given."""
        self.found += 1
        self.gets.of(group_key(topic, group)).add(count, size)

    def sent_back(self, topic: str, group: str) -> None:
        """Counts a message that a group has sent back."""
        self.backs.of(group_key(topic, group)).add(1, 0)

    def counted_reads(self) -> tuple[int, int]:
        """Pulls that have found messages, and pulls that have not."""
        all_of = [(self.found, self.missed), *(reads() for reads in self.reads)]
        return sum(found for found, _ in all_of), sum(missed for _, missed in all_of)

    def pulled_to(self, group: str, topic: str, queue_id: int) -> int:
        """The offset behind the last message that a group has pulled, -1 if it is not known."""
        return max((tell(group, topic, queue_id) for tell in self.reached), default=-1)

    def tick(self, counted: Counted) -> None:
        """Takes the looks that are due."""
        now = time.monotonic()
        self.latencies.tick(now)
        self.store.look(now, time.time(), counted)
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        gone = [kind.look(now) for kind in (self._puts, self._gets, self._backs)]
        if any(gone):
            for call in self.forgotten:
                call()
        self._all_puts.look(now, self.puts.sums())
        self._all_gets.look(now, self.gets.sums())

    def find(self, name: str, key: str) -> Found | None:
        """A statistic by RocketMQ's name, None for an unknown one."""
        found: Rates | None
        match name:
            case "TOPIC_PUT_NUMS" | "TOPIC_PUT_SIZE":
                found = self._puts.find(key)
            case "GROUP_GET_NUMS" | "GROUP_GET_SIZE":
                found = self._gets.find(key)
            case "SNDBCK_PUT_NUMS":
                found = self._backs.find(key)
            case "BROKER_PUT_NUMS":
                found = self._all_puts if key == self._cluster else None
            case "BROKER_GET_NUMS":
                found = self._all_gets if key == self._cluster else None
            case _:
                found = None
        if found is None:
            return None
        column = BYTES if name.endswith("SIZE") else MESSAGES
        return Found(*(found.rate(window, column) for window in ("minute", "hour", "day")))

    def put_tps(self, topic: str) -> float:
        """Messages a second that were put into a topic, in the last minute."""
        return _per_second(self._puts.find(topic))

    def get_tps(self, topic: str, group: str) -> float:
        """Messages a second that a group was given of a topic, in the last minute."""
        return _per_second(self._gets.find(group_key(topic, group)))


def group_key(topic: str, group: str) -> str:
    """The key of a group's figures in a topic."""
    return f"{topic}{SEPARATOR}{group}"


def _per_second(rates: Rates | None, window: Window = "minute") -> float:
    return 0.0 if rates is None else rates.rate(window, MESSAGES).per_second
