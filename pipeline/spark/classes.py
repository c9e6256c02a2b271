"""A class archive: Spark's JVM starts a third sooner when it maps its classes from a file.

`python -m silomq.pipeline.spark.classes` makes the archive, of about 150 MB, below this Python's
environment, for the installed Spark and the Java that would run it. Sessions use it if it exists.
The JVM checks that it fits, and ignores the archive of another Java or Spark.
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
    """Makes the archive, replacing an existing one. Returns its path.

    Raises RuntimeError if the JVM made no archive, OSError if it cannot be written, ImportError
    without pyspark, `java.NoJava` without a Java.
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
    """Runs a few small jobs, so that the classes that jobs need are loaded."""
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
