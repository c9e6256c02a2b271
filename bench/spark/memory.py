"""`python -m silomq.bench.spark.memory`: the memory of Spark's processes that read a large log."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click
import psutil

from ..rows import Plan, Row
from ..run import bench_console, report
from ..store import BenchStore
from .tables import fill, grouped, noop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HEAP = "512m"
_WORKER_MIB = 300.0
_EVERY_S = 0.05


class Watch:
    """The greatest resident memory of any of Spark's Python workers, and of the JVM, while it
    watches, in MiB. `anonymous` is a worker's own memory. `mapped` is its pages of the log, which
    the kernel may take back.
    """

    def __init__(self) -> None:
        self.anonymous = self.mapped = self.jvm = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(_EVERY_S):
            for process in psutil.Process().children(recursive=True):
                try:
                    command = process.cmdline()
                    status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
                except (psutil.Error, OSError):
                    continue
                sizes = dict(_sizes(status))
                if command[:1] and command[0].endswith("java"):
                    self.jvm = max(self.jvm, sizes.get("VmRSS", 0.0))
                elif any("pyspark" in word for word in command):
                    self.anonymous = max(self.anonymous, sizes.get("RssAnon", 0.0))
                    self.mapped = max(self.mapped, sizes.get("RssFile", 0.0))


def _sizes(status: str) -> Iterator[tuple[str, float]]:
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if value.endswith(" kB"):
            yield name, int(value[:-3]) / 1024


@contextmanager
def _watched(rows: list[Row], what: str) -> Iterator[None]:
    with Watch() as watch:
        yield
    for whose, samples, bar in (
        ("largest worker, own", watch.anonymous, _WORKER_MIB),
        ("largest worker, mapped", watch.mapped, 0.0),
        (f"JVM with a heap of {_HEAP}", watch.jvm, 0.0),
    ):
        rows.append(Row(f"{what}: {whose}", "MiB", [samples], bar=bar, higher_is_better=False))


def measure(spark: SparkSession, plan: Plan, log_bytes: int) -> list[Row]:
    """Memory for a read of all columns, a groupBy and a stream, over a log of `log_bytes` bytes of
    1 KB messages.
    """
    rows: list[Row] = []
    with BenchStore(plan.folder, f"mapped_file_size_commit_log={plan.file_size}") as store:
        sent = fill(store, log_bytes, 1024)
        size = f"{store.control.load('wrote') / 2**30:.1f} GiB"
        read = spark.read.format("silomq")
        works: dict[str, Callable[[DataFrame], None]] = {"all columns": noop, "groupBy": grouped}
        for name, work in works.items():
            with _watched(rows, f"{size}, {name}"):
                work(read.load(str(store.folder)))
        with _watched(rows, f"{size}, streaming"):
            stream = spark.readStream.format("silomq").option("startingOffsets", "earliest")
            writer = stream.load(str(store.folder)).writeStream.format("noop")
            writer = writer.option("checkpointLocation", str(plan.folder / "checkpoint"))
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            assert sum(found["numInputRows"] for found in query.recentProgress) == sent
    return rows


@click.command()
@click.option("--gib", default=10.0, show_default=True, help="how large the log is")
@click.option("--folder", type=click.Path(path_type=Path), help="where to put the store")
@click.option("--output", type=click.Path(path_type=Path), default=Path("build/spark-memory.json"))
def main(*, gib: float, folder: Path | None, output: Path) -> None:
    """Measures the memory of Spark's processes over a log."""
    from ...pipeline.spark.session import session

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    console = bench_console()
    spark = session("silomq memory", **{"spark.driver.memory": _HEAP})
    try:
        with tempfile.TemporaryDirectory(prefix="silomq-bench-", dir=folder or Path.cwd()) as top:
            plan = Plan(Path(top), 1)
            found = measure(spark, plan, int(gib * 2**30))
    finally:
        spark.stop()
    report(found, plan, console, output)


if __name__ == "__main__":
    main()
