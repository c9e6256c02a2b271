"""The data source `silomq`: `spark.read.format("silomq").load("/var/lib/silomq")` (docs/spark.md).

The parts are Spark-free: options (source_options), what a store holds (snapshot), which parts of it
to read (source_plan), reading them (source_read) into Spark's columns (source_columns).
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from . import snapshot
from .source_columns import (
    CORRUPT,
    check_types,
    corrupt_row,
    kernel_columns,
    schema_text,
    to_spark,
)
from .source_options import Options, parse
from .source_plan import ANYTHING, LEAST, MOST, Pushed, plan
from .source_read import Damage, Part, Rules, Work, read
from .worker import settle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from pyspark.sql.types import StructType

NAME: Final = "silomq"
#: Only this worker of Spark's calls pushFilters; any other refuses a reader that has it.
_PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"
_log = logging.getLogger(__name__)


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
        from .sink import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802, FBT001
        from .sink import stream_writer

        return stream_writer(self.options, schema, overwrite=overwrite)


class Parts(InputPartition):
    """What one task reads, one after the other."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        super().__init__(None)
        self.parts = parts


@dataclass(frozen=True, slots=True)
class Shape:
    """The rows that were asked for: their columns, as Spark's schema and as Arrow's, and how the
    files are read for them.
    """

    arrow: Any
    rules: Rules

    @classmethod
    def of(cls, schema: StructType, options: Options) -> Shape:
        """Raises ValueError for columns that there are not."""
        from pyspark.sql.pandas.types import to_arrow_schema

        names = check_types((f.name, f.dataType.simpleString()) for f in schema.fields)
        for field in schema.fields:
            if not field.nullable:
                raise ValueError(f"column {field.name} may be null: read it so")
        rules = Rules(
            kernel_columns(names),
            options.verify_crc,
            options.fail_on_data_loss,
            options.on_corrupt,
        )
        return cls(to_arrow_schema(schema, timezone="UTC"), rules)

    def batches(self, parts: Sequence[Part], work: Work | None = None) -> Iterator[Any]:
        """Arrow batches of the parts' rows, to Spark's letter."""
        settle()
        with_row = self.rules.on_corrupt == "row" and CORRUPT in self.arrow.names
        for part in parts:
            for found in read(part, self.rules, work):
                if not isinstance(found, Damage):
                    yield to_spark(found, self.arrow, part.store)
                elif with_row:
                    yield corrupt_row(self.arrow, part.store, found.start, found.why)
                else:
                    _log.warning("passed over damage: %s", found.why)


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
