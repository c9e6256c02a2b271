"""`make bench-spark`: the data source against Spark's own Parquet of the same rows, in one run."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from ...client.producing.producer import Producer
from ..rows import BATCH, Plan, Row
from ..run import bench_console, report
from ..store import BenchStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

_LOG = 1 << 30
_TOPICS = 10
_POOL = 1 << 24  # far more than the window in which Parquet finds repetitions
_NARROW = (
    "topic string, queueId int, queueOffset bigint, physicalOffset bigint, size int, "
    "storeTimestamp timestamp"
)
_GROUPED = "topic string, size int, storeTimestamp timestamp"
_EVERY_TRIGGER = "spark.sql.streaming.noDataProgressEventInterval"
_IDLE_EVERY = "100 milliseconds"
_IDLE_WAIT_S = 300.0
_WORD = "seconds, Parquet"
_READY = "seconds, batches ready"
_CORES = os.cpu_count() or 1
_ROUND_S = 0.002
_TASKS = 33 * _CORES


@dataclass
class Filled:
    """A store with a log of `log_bytes` bytes and `rows` messages in _TOPICS topics, and the same
    rows as Parquet.
    """

    spark: SparkSession
    store: Path
    parquet: Path
    rows: int
    log_bytes: int

    def of_store(self, schema: str | None = None, **options: object) -> DataFrame:
        """A read of the store; with a narrow schema only of its columns."""
        reader = self.spark.read.format("silomq").options(**options)
        return (reader.schema(schema) if schema else reader).load(str(self.store))

    def of_parquet(self) -> DataFrame:
        return self.spark.read.parquet(str(self.parquet))


@contextmanager
def filled(spark: SparkSession, plan: Plan, size: int) -> Iterator[Filled]:
    """Fills a store with bodies of `size` bytes until its log has 1 GiB (less in the short
    form).
    """
    with BenchStore(plan.folder, f"mapped_file_size_commit_log={plan.file_size}") as store:
        sent = fill(store, max(int(_LOG * plan.scale), 4 << 20), size)
        found = Filled(
            spark, store.folder, plan.folder / f"parquet-{size}", sent, store.control.load("wrote")
        )
        found.of_store().write.parquet(str(found.parquet))
        yield found


def fill(store: BenchStore, wanted: int, size: int) -> int:
    """Sends bodies of `size` bytes to _TOPICS topics until the log has `wanted` bytes. Returns how
    many.

    Each round through the topics is stored in another millisecond. Otherwise a tenth of a short
    log's messages has no time of its own: the store takes all of them within some milliseconds.

    A body's first half is random, so that Parquet compresses it about as well as real bodies. Of
    equal bodies it would keep only one.
    """
    half = size // 2
    pool, rest, sent = os.urandom(_POOL), b"x" * (size - half), 0
    batches = [
        [pool[at : at + half] + rest for at in range(first, first + BATCH * half, half)]
        for first in range(0, _POOL, BATCH * half)
    ]
    with Producer(store.folder, timeout=60) as producer:
        while store.control.load("wrote") < wanted:
            topic = f"topic-{sent // BATCH % _TOPICS}"
            producer.send_batch_oneway(topic, batches[sent // BATCH % len(batches)])
            sent += BATCH
            if sent // BATCH % _TOPICS == 0:
                producer.flush(60)
                time.sleep(_ROUND_S)
        producer.flush(60)
    store.wait_dispatched()
    return sent


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def noop(frame: DataFrame) -> None:
    """Computes all rows and discards them."""
    frame.write.format("noop").mode("overwrite").save()


def grouped(frame: DataFrame) -> None:
    """Computes count, bytes and newest time of each topic."""
    from pyspark.sql import functions as f

    found = frame.groupBy("topic").agg(f.count("*"), f.sum("size"), f.max("storeTimestamp"))
    assert len(found.collect()) == _TOPICS


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def batch_reads(data: Filled, plan: Plan, size: int) -> list[Row]:
    """Reads all columns, and narrow ones, and runs a groupBy. Beside each are the times of Parquet
    and of a source whose batches are ready. The runs take turns; a first run of each warms up the
    JIT.
    """
    from pyspark.sql.types import StructType

    from .ready import ready

    def at_hand(name: str, schema: StructType) -> DataFrame:
        return ready(data.spark, data.store, schema, data.rows, plan.folder / f"{name}-{size}")

    every = at_hand("every", data.of_store().schema)
    some = at_hand("some", StructType.fromDDL(_GROUPED))
    works: dict[str, Callable[[], object]] = {
        "all": lambda: noop(data.of_store()),
        "all parquet": lambda: noop(data.of_parquet()),
        "all ready": lambda: noop(every),
        "narrow": lambda: noop(data.of_store(_NARROW)),
        "group": lambda: grouped(data.of_store(_GROUPED)),
        "group parquet": lambda: grouped(data.of_parquet()),
        "group ready": lambda: grouped(some),
    }
    took: dict[str, list[float]] = {name: [] for name in works}
    for run in range(plan.warm_ups + plan.runs):
        for name, work in works.items():
            seconds = _seconds(work)
            if run >= plan.warm_ups:
                took[name].append(seconds)
    narrow = took["narrow"]
    by_bytes = [data.log_bytes / seconds / 1e9 for seconds in narrow]
    by_rows = [data.rows / seconds for seconds in narrow]
    large = size >= 1024
    return [
        Row(
            f"all columns to noop, {size} B", "s", took["all"], _WORD, took["all parquet"],
            _median(took["all parquet"]), higher_is_better=False, bar_text="Parquet",
        ),
        Row(
            f"  against any Python source, {size} B, all columns", "s", took["all"],
            _READY, took["all ready"],
        ),
        Row(f"narrow read, {size} B", "GB/s", by_bytes, bar=1.2 if large else 0.0),
        Row(f"narrow read, {size} B", "rows/s", by_rows, bar=0.0 if large else 3e6),
        Row(
            f"groupBy(topic), {size} B", "s", took["group"], _WORD, took["group parquet"],
            1.5 * _median(took["group parquet"]), higher_is_better=False,
            bar_text="1.5 x Parquet",
        ),
        Row(
            f"  against any Python source, {size} B, groupBy", "s", took["group"],
            _READY, took["group ready"],
        ),
    ]  # fmt: skip


def tasks(data: Filled, plan: Plan, file: Path) -> Row:
    """The CPU time that a task of one row costs, with ready batches: many tasks against few."""
    from pyspark.sql.types import StructType

    from .ready import of_file

    schema = StructType.fromDDL(_GROUPED)
    few, many = (of_file(data.spark, file, schema, rows=n, tasks=n) for n in (_CORES, _TASKS))
    cost = []
    for run in range(plan.warm_ups + plan.runs):
        least, most = _seconds(lambda: noop(few)), _seconds(lambda: noop(many))
        if run >= plan.warm_ups:
            cost.append(1e3 * (most - least) * _CORES / (_TASKS - _CORES))
    return Row("a task of one row, any Python source", "ms of a core", cost)


def window(data: Filled, size: int) -> Row:
    """One topic, from the time at which 45 % of its messages were stored to that of 55 %: bytes
    read, in percent of those of the whole log.

    A tenth of the seconds would not do. After a pause of the producer, all its messages may have
    been stored within a tenth.
    """
    from pyspark.sql import functions as f

    topic = "topic-3"
    times = data.of_store("topic string, storeTimestamp timestamp").where(f"topic = '{topic}'")
    middle = f.percentile_approx(f.unix_millis("storeTimestamp"), [0.45, 0.55])
    ((since, until),) = times.agg(middle).first()
    asked = {
        "subscribe": topic,
        "startingTimestamp": str(since),
        "endingTimestamp": str(until),
    }
    part, whole = _touched(data, asked), _touched(data, {})
    share = 100 * part[0] / whole[0]
    name = f"{100 * part[1] / whole[1]:.2f} % of the log by topic and time, {size} B"
    return Row(name, "% of its bytes", [share], bar=5.0, higher_is_better=False)


def _touched(data: Filled, asked: dict[str, str]) -> tuple[int, int]:
    """(bytes read, rows) of a read. It is done in this process, because Spark's workers do not
    report it.
    """
    from pyspark.sql.types import StructType

    from ...pipeline.source.part_reader import Work
    from ...pipeline.source.shape import Parts
    from ...pipeline.source.source import SiloSource

    source = SiloSource({"path": str(data.store), **asked})
    reader: Any = source.reader(StructType.fromDDL(_NARROW))
    work, rows = Work(), 0
    for task in reader.partitions():
        assert isinstance(task, Parts)
        for batch in reader.shape.batches(task.parts, work):
            rows += batch.num_rows
    return work.touched, rows


def streaming(data: Filled, plan: Plan, size: int) -> list[Row]:
    """The rate of AvailableNow from the beginning, and the time of a trigger without new
    messages.
    """
    checkpoints = [plan.folder / f"drain-{run}" for run in range(plan.runs)]
    rates = [data.rows / _seconds(partial(_drain, data, checkpoint)) for checkpoint in checkpoints]
    idle = _idle_ms(data, plan)
    return [
        Row(f"streaming, AvailableNow, {size} B", "rows/s", rates, bar=0.6e6),
        Row("idle trigger", "ms", idle, bar=20.0, higher_is_better=False),
    ]


def _stream(data: Filled, checkpoint: Path, **options: object) -> Any:
    frame = data.spark.readStream.format("silomq").options(**options).load(str(data.store))
    return frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))


def _drain(data: Filled, checkpoint: Path) -> None:
    query = _stream(data, checkpoint, startingOffsets="earliest").trigger(availableNow=True).start()
    query.awaitTermination()
    assert sum(progress["numInputRows"] for progress in query.recentProgress) == data.rows


def _idle_ms(data: Filled, plan: Plan) -> list[float]:
    """Times (ms) of triggers that found no messages, except the first.

    Raises what the query failed with, or RuntimeError if there are too few in _IDLE_WAIT_S.
    """
    data.spark.conf.set(_EVERY_TRIGGER, "0")
    query = (
        _stream(data, plan.folder / "idle", startingOffsets="latest")
        .trigger(processingTime=_IDLE_EVERY)
        .start()
    )
    wanted = 4 * plan.runs + 1
    deadline = time.monotonic() + _IDLE_WAIT_S
    found: dict[str, float] = {}
    try:
        while len(found) < wanted:
            if not query.isActive and (error := query.exception()) is not None:
                raise error
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(found)} of {wanted} triggers in {_IDLE_WAIT_S:g} s")
            for progress in query.recentProgress:
                if not progress["numInputRows"]:
                    spent = progress["durationMs"]["triggerExecution"]
                    found[progress["timestamp"]] = float(spent)
            time.sleep(0.1)
    finally:
        query.stop()
        data.spark.conf.unset(_EVERY_TRIGGER)
    return list(found.values())[1:]


def collect(spark: SparkSession, plan: Plan, console: Console, sizes: tuple[int, ...]) -> list[Row]:
    """All rows, for bodies of each of `sizes`."""
    found: list[Row] = []
    for size in sizes:
        began = time.monotonic()
        with filled(spark, plan, size) as data:
            found += [*batch_reads(data, plan, size), window(data, size)]
            if size == 128:
                found.append(tasks(data, plan, plan.folder / f"some-{size}"))
                found += streaming(data, plan, size)
        console.print(f"{size} B: {time.monotonic() - began:.0f} s", style="dim")
    return found


@click.command()
@click.option("--runs", default=5, show_default=True, help="runs of each figure")
@click.option("--short", is_flag=True, help="a short form that only shows that everything runs")
@click.option("--folder", type=click.Path(path_type=Path), help="where to put stores (a real disk)")
@click.option("--output", type=click.Path(path_type=Path), default=Path("build/bench-spark.json"))
def main(*, runs: int, short: bool, folder: Path | None, output: Path) -> None:
    """Measures Spark over a store against Spark over Parquet. Run it alone: it needs both cores."""
    from ...pipeline.spark.session import QUICK, session

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    console = bench_console()
    conf = {"spark.driver.memory": "2g"}
    if short:
        conf["spark.driver.defaultJavaOptions"] = QUICK
    spark = session("silomq bench", **conf)  # which ends with Python
    with tempfile.TemporaryDirectory(prefix="silomq-bench-", dir=folder or Path.cwd()) as inside:
        plan = Plan.of(Path(inside), runs, short=short)
        found = collect(spark, plan, console, (128,) if short else (1024, 128))
    report(found, plan, console, output)
