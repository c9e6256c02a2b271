"""The memory of Spark's processes, as `make bench-spark` measures it over a large log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silomq.bench.rows import Plan
from silomq.bench.spark.memory import measure

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_workers_stay_small(spark: SparkSession, tmp_path: Path) -> None:
    rows = measure(spark, Plan(tmp_path, 1, file_size=32 << 20), 128 << 20)
    assert len(rows) == 9
    assert all(row.median > 0 for row in rows)
    assert [row.passed for row in rows if row.bar] == [True] * 3
