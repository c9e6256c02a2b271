"""A class archive: Spark's JVM starts a third sooner when its classes come ready from a file.

`python -m silomq.pipeline.spark.classes` makes it, about 150 MB below this Python's environment,
for the Spark that is installed there and the Java that would run it. Sessions use it if it is
there. The JVM itself checks that it fits; it ignores the archive of another Java or Spark.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING, Final

from .class_archive import CONF, FOLDER, name_of
from .session import session, stop

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_DUMP_S: Final = 300.0


def make() -> Path:
    """Makes the archive, in the place of one that is there: where it is.

    Raises RuntimeError if the JVM made none, OSError if it cannot be put there, ImportError
    without pyspark, `java.NoJava`.
    """
    CONF.mkdir(parents=True, exist_ok=True)
    made = FOLDER / "new.jsa"
    for old in FOLDER.glob("*.jsa"):
        old.unlink()
    before = os.environ.get("SPARK_SUBMIT_OPTS", "")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{before} -Xlog:disable -XX:ArchiveClassesAtExit={made}"
    try:
        spark = session(
            "silomq classes",
            master="local[2]",
            **{"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"},
        )
    finally:
        os.environ["SPARK_SUBMIT_OPTS"] = before
    _use(spark)
    stop(_DUMP_S)
    if not made.exists():
        raise RuntimeError("this Java made no class archive")
    return made.replace(FOLDER / name_of(made.stat().st_size))


def _use(spark: SparkSession) -> None:
    """Does a little of what jobs do, so that its classes are loaded."""
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/table"
        rows = spark.range(100).selectExpr("id", "id % 3 as kind", "cast(id as string) as body")
        rows.write.partitionBy("kind").parquet(table)
        found = spark.read.parquet(table)
        found.groupBy("kind").agg({"id": "sum"}).orderBy("kind").collect()
        found.mapInArrow(lambda batches: batches, found.schema).toPandas()
        stream = spark.readStream.schema(found.schema).parquet(table).writeStream.format("noop")
        stream = stream.option("checkpointLocation", f"{folder}/checkpoint")
        stream.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    place = make()
    sys.stdout.write(f"{place}: {place.stat().st_size >> 20} MiB\n")
