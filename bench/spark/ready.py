"""The limit of any Python data source: a source whose batches are ready, so that all time is
Spark's.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ...pipeline.source.source import SiloSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

_BATCHES = 12


class Ready(DataSource):
    """Gives `rows` rows in `tasks` tasks, by repeating the batches of the Arrow file `file`."""

    @classmethod
    def name(cls) -> str:
        return "silomq-ready"

    def reader(self, schema: StructType) -> DataSourceReader:
        numbers = (int(self.options[name]) for name in ("rows", "tasks"))
        return _Reader(Path(self.options["file"]), *numbers)


class _Reader(DataSourceReader):
    def __init__(self, file: Path, rows: int, tasks: int) -> None:
        self.file = file
        self.rows = rows
        self.tasks = tasks

    def partitions(self) -> list[InputPartition]:
        edges = [self.rows * i // self.tasks for i in range(self.tasks + 1)]
        return [InputPartition(end - first) for first, end in itertools.pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        left = partition.value
        with pa.memory_map(str(self.file)) as mapped, pa.ipc.open_file(mapped) as file:
            batches = [file.get_batch(i) for i in range(file.num_record_batches)]
            while left:
                for batch in batches:
                    part = batch.slice(0, left)
                    left -= part.num_rows
                    if part.num_rows:
                        yield part


def ready(spark: SparkSession, store: Path, schema: StructType, rows: int, file: Path) -> DataFrame:
    """A frame with as many rows and tasks as a read of the store, with the columns `schema`. It
    repeats a few of the read's batches, which are written to `file`.
    """
    reader: Any = SiloSource({"path": str(store)}).reader(schema)
    tasks = reader.partitions()
    every = (batch for task in tasks for batch in reader.shape.batches(task.parts))
    batches = list(itertools.islice(every, _BATCHES))
    with pa.OSFile(str(file), "wb") as out, pa.ipc.new_file(out, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return of_file(spark, file, schema, rows=rows, tasks=len(tasks))


def of_file(
    spark: SparkSession, file: Path, schema: StructType, *, rows: int, tasks: int
) -> DataFrame:
    """A frame of `rows` rows in `tasks` tasks, with the columns `schema`, from a file that `ready`
    has made.
    """
    spark.dataSource.register(Ready)
    options = {"file": str(file), "rows": str(rows), "tasks": str(tasks)}
    return spark.read.format(Ready.name()).schema(schema).options(**options).load()
