"""A driver to be killed: a streaming query into a store's topic.

`python sink_driver.py STORE INPUT CHECKPOINT` runs until all that INPUT has is in the store. INPUT
is a folder of JSON files, one for each micro-batch, or another store, of whose topic of the same
name a micro-batch takes BATCH messages.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from silomq.pipeline.spark.session import QUICK, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH = 30_000
TOPIC = "published"


def rows(spark: SparkSession, source: str) -> DataFrame:
    """Bodies and keys, as they come."""
    reader = spark.readStream.schema("body string, keys array<string>")
    if not (Path(source) / "commitlog").is_dir():
        return reader.option("maxFilesPerTrigger", 1).json(source)
    options = {"subscribe": TOPIC, "startingOffsets": "earliest", "maxOffsetsPerTrigger": BATCH}
    reader = spark.readStream.schema("body binary, keys array<string>").format("silomq")
    return reader.options(**options).load(source)


def copy(spark: SparkSession, store: str, source: str, checkpoint: str) -> None:
    """Puts all that `source` has into the store, and goes on where another driver was killed."""
    query = (
        rows(spark, source)
        .writeStream.format("silomq")
        .option("topic", TOPIC)
        .option("checkpointLocation", checkpoint)
        .option("path", store)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main() -> None:
    spark = session(
        "silomq sink",
        master="local[2]",
        **{
            "spark.driver.memory": "512m",
            "spark.driver.defaultJavaOptions": QUICK,
        },
    )
    copy(spark, *sys.argv[1:])


if __name__ == "__main__":
    main()
