"""A session survives Python processes that a busy machine holds up, as far as Spark lets it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from support.harness import LONG

pytest.importorskip("pyspark")

from silomq.pipeline.spark.session import with_attempts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("master", "wanted"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2]", "local[2,4]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_local_master_tries_tasks_again(master: str, wanted: str) -> None:
    assert with_attempts(master) == wanted


def test_a_worker_that_dies_costs_a_task_not_the_job(spark: SparkSession, tmp_path: Path) -> None:
    """The first attempt ends without an answer."""
    mark = str(tmp_path / "died")

    def die_once(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                yield batch
            else:
                os.kill(os.getpid(), signal.SIGKILL)

    rows = spark.range(10, numPartitions=1).mapInArrow(die_once, "id long").collect()
    assert sorted(row.id for row in rows) == list(range(10))
    assert os.path.exists(mark)


def test_workers_wait_long_for_the_jvm(spark: SparkSession) -> None:
    def environment(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for _ in batches:
            found = os.environ["SPARK_AUTH_SOCKET_TIMEOUT"]
            yield pa.record_batch({"seconds": pa.array([found])})

    (row,) = spark.range(1).mapInArrow(environment, "seconds string").collect()
    assert int(row.seconds) == 120


def pyspark_daemons() -> list[psutil.Process]:
    """The living ones of Spark's Python processes: the daemon, and the workers it has forked."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # a worker that ended, perhaps not reaped
            words = process.cmdline()
            if any("pyspark" in word and "daemon" in word for word in words):
                found.append(process)
    return found


@pytest.mark.parametrize("frozen_s", [pytest.param(2, id="short"), pytest.param(15, marks=LONG)])
def test_a_frozen_daemon_holds_a_job_up_and_no_more(spark: SparkSession, frozen_s: float) -> None:
    """All of Spark's Python processes stand still, as on a machine that has no time for them."""
    spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()  # the daemon is there
    daemons = pyspark_daemons()
    assert daemons

    def thaw() -> None:
        time.sleep(frozen_s)
        for process in daemons:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    for process in daemons:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
    thread = threading.Thread(target=thaw)
    thread.start()
    began = time.monotonic()
    rows = spark.range(100, numPartitions=4).mapInArrow(lambda b: b, "id long").collect()
    thread.join()
    assert len(rows) == 100
    assert time.monotonic() - began > frozen_s * 0.9
