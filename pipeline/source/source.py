"""The data source `silomq`: `spark.read.format("silomq").load("/var/lib/silomq")` (docs/spark.md).

Spark-free are the options (`options`), what a store holds (`snapshot`), which parts of it to read
(`plan`), reading them (`part_reader`) and Spark's columns (`columns`).
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
#: Only this worker of Spark's calls pushFilters; any other refuses a reader that has it.
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
    """A batch read."""

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
    """A batch read that leaves out what the query's filters rule out. All filters are applied once
    more by Spark.
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
    """What one of Spark's filters leaves of `pushed`; all of it for those not known here."""
    column = ".".join(getattr(found, "attribute", ()))
    values: list[Any]
    if isinstance(found, datasource.In):
        values = [value for value in found.value if value is not None]
    elif isinstance(found, datasource.EqualTo | datasource.EqualNullSafe):
        values = [] if found.value is None else [found.value]
    else:
        return _bounded(pushed, found, column)
    if not values:  # nothing equals null, and IS NULL is for Spark to look at
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
    """An offset, or a time in whole ms: times of records have no parts of them."""
    if isinstance(value, int):
        return value
    from datetime import UTC, datetime, timedelta

    assert isinstance(value, datetime)
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
