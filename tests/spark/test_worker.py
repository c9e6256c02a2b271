"""Spark's Python processes: garbage collection after each task does not look at what is loaded."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from support.harness import PYTHON

pytest.importorskip("pyspark")


from silomq.pipeline import worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

SETTLE = """
import gc
from silomq.pipeline.worker import settle
settle()
first = gc.get_freeze_count()
settle()
print(first, gc.get_freeze_count())
"""


@pytest.mark.parametrize("reused", [True, False])
def test_only_processes_of_spark_are_settled(reused: bool) -> None:
    environ = {name: value for name, value in os.environ.items() if name != worker._REUSED}
    if reused:
        environ[worker._REUSED] = "1"
    said = subprocess.check_output([*PYTHON, "-c", SETTLE], env=environ, text=True)
    first, second = map(int, said.split())
    assert first == second
    assert (first > 1000) == reused


def test_spark_says_what_it_uses_again(spark: SparkSession) -> None:
    def environment(batches: Iterator[Any]) -> Iterator[Any]:
        import os

        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch({"name": pa.array(list(os.environ))})

    names = spark.range(1).mapInArrow(environment, "name string").collect()
    assert worker._REUSED in {row.name for row in names}
