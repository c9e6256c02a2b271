"""Adds up what workers say: by second for the series, and over the measured part."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..load import latencies
from ..load._counts import Counts
from ..results import histograms

if TYPE_CHECKING:
    from ..load.protocol import Tick
    from ..results.model import Latency

#: Percentiles of each second in ascending order, and the kinds of latency that have them.
_SHARES = (
    ("p50", 50), ("p75", 75), ("p95", 95), ("p99", 99), ("p999", 99.9), ("p9999", 99.99),
    ("max", 100),
)  # fmt: skip
_BY_SECOND = ("publish", "end_to_end", "delay")
KINDS = ("publish", "durable", "delay", "end_to_end")


@dataclass
class Second:
    """What all workers did in one second since the start."""

    sent: int = 0
    sent_bytes: int = 0
    consumed: int = 0
    errors: int = 0
    #: By kind, as the workers sent them. They are decoded when they are needed, because a run must
    #: not wait for that.
    encoded: dict[str, list[str]] = field(default_factory=dict)

    def latencies(self, kind: str) -> Counts:
        """Those of all workers. Raises NoHistogram."""
        found = Counts()
        for text in self.encoded.get(kind, ()):
            latencies.add(found, text)
        return found


class Tally:
    """Seconds before `warm_up` are not measured, later ones are, also those behind the end: a
    message that was late is no message less.
    """

    def __init__(self, warm_up: int, seconds: int) -> None:
        self._warm_up = warm_up
        self._end = warm_up + seconds
        self.seconds: list[Second] = []
        self.sent = self.sent_bytes = self.consumed = self.errors = 0  # of the measured part
        self.all_sent = self.all_consumed = 0  # with the warm-up

    def add(self, role: str, tick: Tick, shift: int = 0) -> None:
        """Adds a tick of a worker whose second 0 is second `shift` here."""
        number = tick.second + shift
        while len(self.seconds) <= number:
            self.seconds.append(Second())
        second = self.seconds[number]
        is_measured = number >= self._warm_up
        second.errors += tick.errors
        if role == "produce":
            second.sent += tick.messages
            second.sent_bytes += tick.bytes
            self.all_sent += tick.messages
        else:
            second.consumed += tick.messages
            self.all_consumed += tick.messages
        for kind in KINDS:
            encoded: str = getattr(tick, kind)
            if encoded:
                second.encoded.setdefault(kind, []).append(encoded)
        if is_measured:
            self.errors += tick.errors
            if role == "produce":
                self.sent += tick.messages
                self.sent_bytes += tick.bytes
            else:
                self.consumed += tick.messages

    def rates(self) -> tuple[float, float]:
        """Messages sent and consumed a second in the measured part, without what came later."""
        within = self.seconds[self._warm_up : self._end]
        length = max(1, len(within))
        sent, consumed = (
            sum(getattr(one, name) for one in within) for name in ("sent", "consumed")
        )
        return sent / length, consumed / length

    def latency(self) -> dict[str, Latency]:
        """Those that were measured. Raises NoHistogram."""
        found = {}
        for kind in KINDS:
            whole = Counts()
            for second in self.seconds[self._warm_up :]:
                for text in second.encoded.get(kind, ()):
                    latencies.add(whole, text)
            if whole.total:
                found[kind] = histograms.latency(whole)
        return found

    def columns(self, groups: int) -> dict[str, list[float | None]]:
        """The columns of the series, a row for each second. `groups` read each message. Raises
        NoHistogram.
        """
        found: dict[str, list[float | None]] = {}
        backlog = 0
        for number, second in enumerate(self.seconds):
            backlog += second.sent * groups - second.consumed
            row: dict[str, float | None] = {
                "publish_rate": second.sent,
                "consume_rate": second.consumed,
                "publish_bytes": second.sent_bytes,
                "errors": second.errors,
                "backlog": max(0, backlog) if groups else None,
            }
            for kind in _BY_SECOND:
                one = second.latencies(kind)
                values = one.percentiles(share for _, share in _SHARES)
                for (name, _), us in zip(_SHARES, values, strict=True):
                    row[f"{kind}_{name}"] = float(us) if one.total else None
                row[f"{kind}_mean"] = one.mean() if one.total else None
            for name, value in row.items():
                found.setdefault(name, [None] * number).append(value)
        return found
