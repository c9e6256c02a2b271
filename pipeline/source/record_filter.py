"""Which records become rows when the log itself is read instead of queues.

The rows of a topic must be the same either way. So records that are in no queue (prepared and
rolled back transactions) and records of deleted topics are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...store.record.format import SYS_TRANSACTION, TRANSACTION_COMMIT, TRANSACTION_NONE


@dataclass(frozen=True, slots=True)
class Kept:
    """Keeps records of the queues that `wants` selects (None: all), stored from `since_ms` to
    `until_ms` (epoch ms, both included). Drops records of topics in `deleted` below the log offset
    given there.
    """

    wants: Callable[[str, int | None], bool] | None = None
    by_queue: bool = False
    since_ms: int | None = None
    until_ms: int | None = None
    deleted: Mapping[str, int] = field(default_factory=dict)

    def with_needed(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """`columns`, and the columns that the tests need."""
        needed = ["sys_flag"]
        if self.wants is not None or self.deleted:
            needed.append("topic")
        if self.by_queue:
            needed.append("queue_id")
        if self.since_ms is not None or self.until_ms is not None:
            needed.append("store_timestamp")
        if self.deleted:
            needed.append("physical_offset")
        return (*columns, *(name for name in needed if name not in columns))

    def of(self, batch: Any, columns: tuple[str, ...]) -> Any:
        """The rows of `batch` that are kept, with only the columns `columns`."""
        import pyarrow.compute as pc

        mask = None
        for test in self._tests(batch):
            if not pc.all(test).as_py():
                mask = test if mask is None else pc.and_(mask, test)
        found = batch if mask is None else batch.filter(mask)
        return found if found.schema.names == list(columns) else found.select(list(columns))

    def _tests(self, batch: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        bits = pc.bit_wise_and(batch.column("sys_flag"), pa.scalar(SYS_TRANSACTION, pa.int32()))
        queued = pa.array([TRANSACTION_NONE, TRANSACTION_COMMIT], pa.int32())
        yield pc.is_in(bits, queued)
        if self.wants is not None:
            yield self._wanted(batch, self.wants)
        times = pa.timestamp("ms", "UTC")
        if self.since_ms is not None:
            low = pa.scalar(self.since_ms, times)
            yield pc.greater_equal(batch.column("store_timestamp"), low)
        if self.until_ms is not None:
            high = pa.scalar(self.until_ms, times)
            yield pc.less_equal(batch.column("store_timestamp"), high)
        for topic, below in self.deleted.items():
            others = pc.not_equal(batch.column("topic"), topic)
            yield pc.or_(others, pc.greater_equal(batch.column("physical_offset"), below))

    def _wanted(self, batch: Any, wants: Callable[[str, int | None], bool]) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        topics = batch.column("topic")
        names = pc.unique(topics).to_pylist()
        good = pa.array([name for name in names if wants(name, None)], pa.string())
        found = pc.is_in(topics, good)
        if self.by_queue:
            for name in good.to_pylist():
                ids = pc.unique(batch.column("queue_id").filter(pc.equal(topics, name)))
                bad = pa.array([i for i in ids.to_pylist() if not wants(name, i)], pa.int32())
                wrong = pc.and_(pc.equal(topics, name), pc.is_in(batch.column("queue_id"), bad))
                found = pc.and_(found, pc.invert(wrong))
        return found
