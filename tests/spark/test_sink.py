"""DataFrames become messages: through a real Spark, into a real store."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

pytest.importorskip("pyspark")

from e2e.harness import LONG, StoreProcess, eventually
from spark.publishing import TOPIC, bodies_in, column_in, exactly

from silomq import Consumer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

DRIVER = Path(__file__).parent / "sink_driver.py"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    folder = tmp_path_factory.mktemp("sink")
    with StoreProcess(folder / "store", flush_commit_log_thorough_interval_ms=500) as found:
        yield found


def dispatched(store: StoreProcess, topic: str) -> list[bytes]:
    eventually(lambda: store.control.load("dispatched") == store.control.load("wrote"), "dispatch")
    return bodies_in(store.path, topic)


def write(frame: DataFrame, store: StoreProcess, **options: Any) -> None:
    frame.write.format("silomq").mode("append").options(**options).save(str(store.path))


def staged(store: StoreProcess) -> list[Path]:
    return list((store.path / "silomq" / "sinks").rglob("*.arrow"))


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


def test_an_overwrite_and_a_stopped_store_are_refused(
    spark: SparkSession, store: StoreProcess, tmp_path: Path
) -> None:
    frame = spark.sql("select 'x' as body")
    with pytest.raises(Exception, match="a log is only appended to"):
        frame.write.format("silomq").mode("overwrite").option("topic", "t").save(str(store.path))
    with pytest.raises(Exception, match="no store runs there"):
        frame.write.format("silomq").mode("append").option("topic", "t").save(str(tmp_path))


def rows_of(folder: Path, files: int, each: int) -> list[bytes]:
    """JSON files for a stream, the oldest first: the bodies in them."""
    bodies = []
    folder.mkdir()
    for number in range(files):
        lines = [f"file {number} row {row}" for row in range(each)]
        text = "".join(
            json.dumps({"body": line, "keys": [line.split()[3]]}) + "\n" for line in lines
        )
        path = folder / f"{number:04d}.json"
        path.write_text(text)
        os.utime(path, (1_700_000_000 + number,) * 2)
        bodies += [line.encode() for line in lines]
    return bodies


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


def kill_driver(process: subprocess.Popen[bytes], *, workers: bool) -> None:
    """SIGKILL for the driver and its JVM; with `workers` for all their Python processes, too.

    Without, the one that publishes does not notice before it has ended. Returns when all are gone.
    """
    family = [psutil.Process(process.pid)]
    family += family[0].children(recursive=True)
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            if workers or member.pid == process.pid or member.name() == "java":
                member.kill()
    process.wait()
    _, alive = psutil.wait_procs(family, 30)
    assert not alive


def run_with_kills(folder: Path, kills: int, files: int, each: int) -> None:
    """Kills drivers in the middle of publishing; the last one runs to its end."""
    wanted = rows_of(folder / "in", files, each)
    rng = random.Random(3)
    with StoreProcess(folder / "store", mapped_file_size_commit_log=16 << 20) as store:

        def records() -> int:
            return store.control.load("records")

        command = [sys.executable, "-P", str(DRIVER), str(store.path)]
        command += [str(folder / "in"), str(folder / "checkpoint")]
        died = 0
        while True:
            with (folder / "driver.log").open("wb") as log:
                process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                part = records() + rng.randrange(1, each // 2)
                while died < kills and process.poll() is None and records() < part:
                    time.sleep(0.0005)
                if died < kills:
                    kill_driver(process, workers=died % 3 < 2)
                    died += records() % each != 0 or died % 3 == 2
                elif process.wait(150) == 0:
                    break
                killed = process.returncode == -signal.SIGKILL
                assert killed, (folder / "driver.log").read_text()[-3000:]
            finally:
                if process.poll() is None:
                    kill_driver(process, workers=True)
        exactly(dispatched(store, TOPIC), wanted)
        assert staged(store) == []
        keys = column_in(store.path, "message_id")
        assert len(set(keys)) == len(wanted)


@pytest.mark.timeout(600)
def test_a_killed_driver(tmp_path: Path) -> None:
    run_with_kills(tmp_path, 1, 2, 30_000)


@pytest.mark.parametrize("long", [pytest.param(True, marks=LONG)])
@pytest.mark.timeout(1800)
def test_killed_drivers(tmp_path: Path, long: bool) -> None:
    run_with_kills(tmp_path, 20, 30, 30_000)
