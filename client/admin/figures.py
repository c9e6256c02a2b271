"""`Figures`: what a store has counted, its last hour, and what follows from both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...shm._memory import Mapping
from ...shm.history import History, Looker, Row
from ...shm.metrics import Metrics
from ...shm.protocol.figure_requests import AskMetrics
from ..connecting import check_version
from ..session import Connection

#: RocketMQ's rates are those of the last 10, 60 and 600 s.
WINDOWS_S: Final = (10, 60, 600)
#: RocketMQ's ranges of put times: the upper end (us) of each, and its name (StoreStatsService). The
#: first has what took less than a millisecond.
RANGES: Final = (
    *((1000, "<=0ms"), (10_000, "0~10ms"), (50_000, "10~50ms"), (100_000, "50~100ms")),
    *((200_000, "100~200ms"), (500_000, "200~500ms"), (1_000_000, "500ms~1s")),
    *((2_000_000, "1~2s"), (3_000_000, "2~3s"), (4_000_000, "3~4s"), (5_000_000, "4~5s")),
    (10_000_000, "5~10s"),
)
LAST_RANGE: Final = "10s~"


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a step is behind the end of the log. `messages` and `seconds` (the age of the oldest
    record that it has not done) are measured against rows of the history, a second apart, and
    interpolated between them.
    """

    bytes: int = 0
    messages: int = 0
    seconds: float = 0.0


class Figures:
    """The metrics page and the history of the store behind `link`, read-only. Raises as
    `Connection.ask`, also for a store of another version.
    """

    def __init__(self, link: Connection) -> None:
        _, fds = link.ask(AskMetrics())
        try:
            memory = Mapping(fds[0], 0, os.fstat(fds[0]).st_size, writable=False)
        finally:
            link.drop(fds)
        self.metrics = Metrics(memory)
        check_version(self.metrics, link.shown)
        self.history = History(memory)
        self._looker = Looker(link.control, self.metrics)

    def now(self) -> Row:
        """The row of this moment."""
        return self._looker.row()


def lag(rows: Sequence[Row], now: Row, offset: int) -> Lag:
    """The lag of a step that has come to log offset `offset`. `rows` are those before `now`."""
    if offset >= now.wrote:
        return Lag()
    known = [row for row in rows if row.clock_ns <= now.clock_ns]
    after = now
    before = None
    for row in reversed(known):
        if row.wrote <= offset:
            before = row
            break
        after = row
    if before is None:
        # Older than the history.
        seconds, messages = now.clock_ns - after.clock_ns, now.records - after.records
        return Lag(now.wrote - offset, messages, seconds / 1e9)
    share = (offset - before.wrote) / (after.wrote - before.wrote)
    clock_ns = before.clock_ns + share * (after.clock_ns - before.clock_ns)
    records = before.records + share * (after.records - before.records)
    messages = max(1, round(now.records - records))
    return Lag(now.wrote - offset, messages, max(0.0, (now.clock_ns - clock_ns) / 1e9))


def rate(rows: Sequence[Row], now: Row, field: str, seconds: float) -> float:
    """How fast a counter grew in about so many last seconds, a second. 0.0 without a row that is
    old enough to tell.
    """
    old = [row for row in rows if row.clock_ns < now.clock_ns]
    # The row that is `seconds` old, or the oldest; rows are up to a second older than they look.
    since = next((r for r in old if now.clock_ns - r.clock_ns <= (seconds + 0.5) * 1e9), None)
    if since is None:
        return 0.0
    grown: int = getattr(now, field) - getattr(since, field)
    return grown * 1e9 / (now.clock_ns - since.clock_ns)


def statistics(figures: Figures) -> dict[str, Any]:
    """RocketMQ's StoreStatsService in our words; `Admin.status` describes it."""
    now, rows, metrics = figures.now(), figures.history.rows(WINDOWS_S[-1] + 1), figures.metrics
    put = metrics.histogram("put_time")

    def rates(*fields: str) -> list[float]:
        return [round(sum(rate(rows, now, f, w) for f in fields), 1) for w in WINDOWS_S]

    distribution, below = {}, 0
    for end_us, name in RANGES:
        count = put.below_us(end_us)
        distribution[name] = count - below
        below = count
    distribution[LAST_RANGE] = put.count - below
    all_rows = figures.history.rows()
    lags = {
        name: lag(all_rows, now, offset)
        for name, offset in (("dispatch", now.dispatched), ("flush", now.flushed))
    }
    return {
        "put_messages": now.records,
        "put_refused": now.rejected,
        "put_bytes": now.put_bytes,
        "put_average_bytes": round(now.put_bytes / now.records, 1) if now.records else 0.0,
        "put_ms_99": round(put.percentile_ns(0.99) / 1e6, 3),
        "put_ms_999": round(put.percentile_ns(0.999) / 1e6, 3),
        "put_ms_longest": round(put.longest_ns / 1e6, 3),
        "put_distribution": distribution,
        "put_rates": rates("records"),
        "get_found": now.get_found,
        "get_missed": now.get_missed,
        "get_messages": now.get_messages,
        "get_found_rates": rates("get_found"),
        "get_missed_rates": rates("get_missed"),
        "get_total_rates": rates("get_found", "get_missed"),
        "get_messages_rates": rates("get_messages"),
        **{
            f"{name}_behind_{unit}": value
            for name, found in lags.items()
            for unit, value in (
                ("bytes", found.bytes),
                ("messages", found.messages),
                ("seconds", round(found.seconds, 3)),
            )
        },
        "sync_ms_99": round(metrics.histogram("sync_time").percentile_ns(0.99) / 1e6, 3),
        "sync_ms_longest": round(metrics.histogram("sync_time").longest_ns / 1e6, 3),
        "file_rolls": metrics.load("file_rolls"),
        "rings": metrics.load("rings"),
        "leases": metrics.load("leases"),
        "group_members": metrics.load("members"),
        "delayed_waiting": now.delayed_waiting,
        "open_transactions": now.trans_open,
    }
