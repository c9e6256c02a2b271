"""Streaming reads of the data source: offsets per queue, kept in Spark's checkpoint alone.

One reader lives in its own process for as long as the query runs, and asks the stores for their
ends. Tasks get a copy of it that only reads. Two offsets determine the rows of a micro-batch, so a
batch that is repeated after a crash is the same, and nothing is lost or doubled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from .plan import ANYTHING, queue_parts, queue_slices
from .shape import Parts, Shape
from .snapshot import Snapshot, Watch
from .stream_offsets import (
    Offsets,
    Waiting,
    cut_to_bytes,
    cut_to_rows,
    ends_of,
    from_json,
    slices,
    to_json,
    waiting,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import StructType

    from .options import Options


class SiloStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.shape = Shape.of(schema, options)
        self._watches: dict[str, Watch] = {}
        #: The offsets at which Trigger.AvailableNow ends; None with other triggers.
        self._last: Offsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Tasks only read files, so they need no connections.
        return self.__dict__ | {"_watches": {}}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name
        """Where a new query begins. Spark asks once in a query's life."""
        return to_json({path: self._starts(found) for path, found in self._look().items()})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        if self.options.max_offsets is not None:
            return ReadMaxRows(self.options.max_offsets)
        if self.options.max_bytes is not None:
            return ReadMaxBytes(self.options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        self._last = {path: _ends(found) for path, found in self._look().items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The offsets up to which the next micro-batch reads."""
        found = self._look()
        seen = from_json(start)
        wait = [one for each in found.values() for one in self._waiting(each, seen)]
        if not isinstance(limit, ReadAllAvailable):
            rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            wait = wait if rows is None else cut_to_rows(wait, rows)
            most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self.options.max_bytes
            wait = wait if most is None else cut_to_bytes(wait, most, found)
        return to_json(ends_of(wait, seen))

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name
        """The present ends of the stores, for the query's progress."""
        return to_json({path: self._wanted_ends(found) for path, found in self._look().items()})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        seen, until = from_json(start), from_json(end)
        tasks: list[InputPartition] = []
        for path, queues in until.items():
            if seen.get(path) == queues:
                continue
            found = self._watch(path).take()
            pieces = slices(found, seen, queues, self.options)
            tasks += map(Parts, queue_parts(found, pieces, self.options.min_partitions))
        return tasks

    def read(self, partition: InputPartition) -> Iterator[Any]:
        parts = partition.parts if isinstance(partition, Parts) else ()
        return self.shape.batches(parts)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: the query's checkpoint alone keeps its progress."""

    def stop(self) -> None:
        while self._watches:
            self._watches.popitem()[1].close()

    def _watch(self, path: str) -> Watch:
        if path not in self._watches:
            self._watches[path] = Watch(path)
        return self._watches[path]

    def _look(self) -> dict[str, Snapshot]:
        """A snapshot of every store, including stores that are new since the last call."""
        return {path: self._watch(path).take() for path in self.options.stores()}

    def _wanted_ends(self, found: Snapshot) -> dict[tuple[str, int], int]:
        return {queue: end for queue, end in _ends(found).items() if self.options.wants(*queue)}

    def _starts(self, found: Snapshot) -> dict[tuple[str, int], int]:
        """Where a new query begins in the present queues."""
        options = self.options
        if options.starting is None and options.since_ms is None:
            return self._wanted_ends(found)
        firsts = self._wanted_ends(found)
        for piece in queue_slices(found, options, ANYTHING):
            firsts[piece.topic, piece.queue_id] = piece.first
        return firsts

    def _waiting(self, found: Snapshot, seen: Offsets) -> list[Waiting]:
        wait = waiting(found, seen, self.options)
        if self._last is None:
            return wait
        last = self._last.get(found.path, {})
        return [
            Waiting(
                one.path, one.queue, one.first, max(one.first, min(one.end, last.get(one.queue, 0)))
            )
            for one in wait
        ]


def _ends(found: Snapshot) -> dict[tuple[str, int], int]:
    return {queue: end for queue, (_, end) in found.queues.items()}
