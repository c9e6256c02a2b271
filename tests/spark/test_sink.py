"""DataFrames become messages: through a real Spark, into a real store."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from spark.publishing import bodies_in, exactly
from spark.sinks import dispatched, rows_of, staged
from support.harness import StoreProcess, eventually

from silomq import Consumer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    folder = tmp_path_factory.mktemp("sink")
    with StoreProcess(folder / "store", flush_commit_log_thorough_interval_ms=500) as found:
        yield found


def write(frame: DataFrame, store: StoreProcess, **options: Any) -> None:
    frame.write.format("silomq").mode("append").options(**options).save(str(store.path))


def test_a_batch_write(spark: SparkSession, store: StoreProcess) -> None:
    born = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, dt.UTC)
    rows = [
        ("batch", b"\xff\0all", "t", ["k", "l"], {"x": "y"}, 1, born, 7),
        (None, b"", None, None, None, None, None, None),
    ]
    schema = (
        "topic string, body binary, tags string, keys array<string>, "
        "properties map<string,string>, queueId int, bornTimestamp timestamp, flag int"
    )
    frame = spark.createDataFrame(rows, schema)
    write(frame, store, topic="plain", acknowledge="durable")
    assert store.control.load("flushed") == store.control.load("wrote"), "durable was asked for"
    assert dispatched(store, "plain") == [b""]
    with Consumer(store.path, "batch") as consumer:
        (message,) = consumer.poll()
        assert (message.body, message.tags, message.keys) == (b"\xff\0all", "t", ["k", "l"])
        assert (message.queue_id, message.flag) == (1, 7)
        assert message.properties["x"] == "y"
        assert message.born_timestamp == int(born.timestamp() * 1000)
    sinks = store.path / "silomq" / "sinks"
    assert [p.name for p in sinks.rglob("*")] == ["staged"], "a write leaves nothing behind"


def test_a_named_write_is_done_once(spark: SparkSession, store: StoreProcess) -> None:
    frame = spark.range(0, 25_000, numPartitions=3).selectExpr("cast(id as string) as body")
    for _ in range(2):
        write(frame, store, topic="once", sinkId="load-2026")
    exactly(dispatched(store, "once"), [b"%d" % i for i in range(25_000)])
    assert staged(store) == []


def test_delay_by_level_and_by_time(spark: SparkSession, store: StoreProcess) -> None:
    began = time.time()
    write(spark.sql("select 'level' as body, 1 as delay"), store, topic="late")
    due = "cast(current_timestamp() + interval 2 seconds as timestamp)"
    write(spark.sql(f"select 'time' as body, {due} as delay"), store, topic="late")
    eventually(lambda: len(bodies_in(store.path, "late")) == 2, "both are delivered")
    assert time.time() - began > 1
    assert set(bodies_in(store.path, "late")) == {b"level", b"time"}


BAD: list[tuple[str, dict[str, str | None], str]] = [
    ("select 'x' as body, id as offset from range(3)", {}, "unknown columns offset"),
    ("select id as body from range(3)", {}, "column body is bigint, not binary or string"),
    ("select 'x' as body", {"topic": None}, "no option topic in its place"),
    ("select if(id = 7, null, 'x') as body from range(9)", {}, "body None is null"),
    ("select repeat('x', 300000) as body", {}, "300000 is too large, of 262144"),
    ("select 'x' as body, if(id = 7, 'a/b', 'b') as topic from range(9)", {}, "'a/b' is no topic"),
    ("select 'x' as body, 99 as queueId", {}, "queueId 99: topic bad has queues 0 to"),
    ("select 'x' as body", {"batchsize": "no"}, "option batchSize='no': a number"),
    ("select 'x' as body", {"startingOffsets": "latest"}, "unknown options startingoffsets"),
    ("select 'x' as body", {"acknowledge": "yes"}, "acknowledge='yes': store or durable"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "options", "what"), BAD)
def test_bad_rows_stop_a_write_before_anything_is_sent(
    spark: SparkSession, store: StoreProcess, query: str, options: dict[str, str | None], what: str
) -> None:
    before = store.control.load("records")
    given = {k: v for k, v in {"topic": "bad", **options}.items() if v is not None}
    with pytest.raises(Exception, match=what):
        write(spark.sql(query).repartition(2), store, **given)
    assert store.control.load("records") == before
    assert staged(store) == []
    locks = {path.name for path in (store.path / "silomq" / "sinks").glob("*.lock")}
    assert locks <= {"load-2026.lock"}, "only that of a write with a name stays"


def test_a_task_that_is_late_leaves_nothing(spark: SparkSession, store: StoreProcess) -> None:
    """Spark gives the write up at the first bad row, while the other task has yet to begin."""

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.column(0)[0].is_valid:
                time.sleep(1.5)
            yield batch

    rows = spark.range(0, 2, numPartitions=2).selectExpr("if(id = 0, null, 'x') as body")
    with pytest.raises(Exception, match="body None is null"):
        write(rows.mapInArrow(slow, "body string"), store, topic="bad")
    end = time.monotonic() + 3
    while time.monotonic() < end:
        assert staged(store) == []
        time.sleep(0.05)


def test_an_overwrite_and_a_stopped_store_are_refused(
    spark: SparkSession, store: StoreProcess, tmp_path: Path
) -> None:
    frame = spark.sql("select 'x' as body")
    with pytest.raises(Exception, match="a log is only appended to"):
        frame.write.format("silomq").mode("overwrite").option("topic", "t").save(str(store.path))
    with pytest.raises(Exception, match="no store runs there"):
        frame.write.format("silomq").mode("append").option("topic", "t").save(str(tmp_path))


def test_a_failed_micro_batch_leaves_nothing(
    spark: SparkSession, store: StoreProcess, tmp_path: Path
) -> None:
    """A bad row in the second batch: the first is there, of the second nothing."""
    good = rows_of(tmp_path / "in", 1, 100)
    (tmp_path / "in" / "9999.json").write_text('{"body": "fine"}\n{"keys": ["k"]}\n')
    query = (
        spark.readStream.schema("body string, keys array<string>")
        .option("maxFilesPerTrigger", 1)
        .json(str(tmp_path / "in"))
        .writeStream.format("silomq")
        .option("topic", "micro")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(store.path))
    )
    with pytest.raises(Exception, match="row 2 of partition 0: body None is null"):
        query.awaitTermination(60)
    exactly(dispatched(store, "micro"), good)
    assert staged(store) == []
