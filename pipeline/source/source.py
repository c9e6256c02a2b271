"""The data source `silomq`: `spark.read.format("silomq").load("/var/lib/silomq")` (docs/spark.md).

These modules do not import Spark: `options`, `snapshot` (what a store holds), `plan` (which parts
to read), `part_reader` (reading them) and `columns` (Spark's columns).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ..worker import settle
from . import snapshot
from .columns import schema_text
from .options import Options, parse
from .plan import ANYTHING, LEAST, MOST, Pushed, plan
from .shape import Parts, Shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from pyspark.sql.types import StructType

NAME: Final = "silomq"
#: Only this worker module of Spark's calls pushFilters; all others refuse a reader that has it.
_PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class SiloSource(DataSource):
    """SiloMQ's and RocketMQ's stores as tables."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        on_corrupt = str(self.options.get("onCorrupt", "fail")).lower()
        return schema_text(with_corrupt=on_corrupt == "row")

    def reader(self, schema: StructType) -> DataSourceReader:
        kind = PushingReader if _PUSHING in sys.modules else SiloReader
        return kind(parse(dict(self.options), streaming=False), schema)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802  Spark's name
        from .stream import SiloStreamReader

        return SiloStreamReader(parse(dict(self.options), streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:  # noqa: FBT001  Spark's call
        from ..sink.sink import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802, FBT001
        from ..sink.sink import stream_writer

        return stream_writer(self.options, schema, overwrite=overwrite)


class SiloReader(DataSourceReader):
    """Reads a batch."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.shape = Shape.of(schema, options)
        self.pushed = ANYTHING

    def partitions(self) -> list[InputPartition]:
        settle()
        tasks = []
        for path in self.options.stores():
            tasks += plan(snapshot.take(path), self.options, self.pushed)
        return [Parts(parts) for parts in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Spark calls this also when there is no partition.
        parts = partition.parts if isinstance(partition, Parts) else ()
        return self.shape.batches(parts)


class PushingReader(SiloReader):
    """Reads a batch without the parts that the query's filters exclude. Spark applies all filters
    again.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802  Spark's name
        for found in filters:
            self.pushed = narrowed(self.pushed, found)
        return filters


_AMONG: Final = {"store": "stores", "topic": "topics", "queueId": "queue_ids"}
_BETWEEN: Final = {
    "queueOffset": "offsets",
    "physicalOffset": "places",
    "storeTimestamp": "times",
}


def narrowed(pushed: Pushed, found: Any) -> Pushed:
    """Narrows `pushed` by one of Spark's filters; an unknown filter changes nothing."""
    column = ".".join(getattr(found, "attribute", ()))
    values: list[Any]
    if isinstance(found, datasource.In):
        values = [value for value in found.value if value is not None]
    elif isinstance(found, datasource.EqualTo | datasource.EqualNullSafe):
        values = [] if found.value is None else [found.value]
    else:
        return _bounded(pushed, found, column)
    if not values:  # nothing equals null, and Spark itself checks IS NULL
        return pushed
    if column in _AMONG:
        return pushed.among(_AMONG[column], frozenset(values))
    if column in _BETWEEN:
        numbers = [_number(value) for value in values]
        return pushed.between(_BETWEEN[column], min(numbers), max(numbers))
    return pushed


def _bounded(pushed: Pushed, found: Any, column: str) -> Pushed:
    if column not in _BETWEEN:
        return pushed
    if isinstance(found, datasource.GreaterThan | datasource.GreaterThanOrEqual):
        return pushed.between(_BETWEEN[column], _number(found.value), MOST)
    if isinstance(found, datasource.LessThan | datasource.LessThanOrEqual):
        return pushed.between(_BETWEEN[column], LEAST, _number(found.value))
    return pushed


def _number(value: int | datetime) -> int:
    """An offset, or a time in whole ms, the unit of records' times."""
    if isinstance(value, int):
        return value
    from datetime import UTC, datetime, timedelta

    assert isinstance(value, datetime)
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
