"""The streaming read: its offsets, without Spark; and a query whose driver is killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cleaned_stores import await_cleaned, await_durable, fill
from support.harness import LONG, StoreProcess, eventually
from support.load.messages import body_of
from support.small_settings import BY_HAND

from silomq import Admin, Producer
from silomq.pipeline.source.snapshot import DataLoss
from silomq.pipeline.source.stream_offsets import from_json, share, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from silomq.pipeline.source.stream import SiloStreamReader

DRIVER = Path(__file__).with_name("stream_driver.py")
KILLS = 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path / "store", **BY_HAND) as found:
        yield found


def reader(store: StoreProcess, **options: object) -> SiloStreamReader:
    from pyspark.sql.types import LongType, StructField, StructType

    from silomq.pipeline.source.options import parse
    from silomq.pipeline.source.stream import SiloStreamReader

    texts = {"path": str(store.path), **{k: str(v) for k, v in options.items()}}
    schema = StructType([StructField(n, LongType()) for n in ("queueOffset", "physicalOffset")])
    return SiloStreamReader(parse(texts, streaming=True), schema)


def count(offset: dict[str, Any]) -> int:
    return sum(sum(queues.values()) for queues in from_json(offset).values())


def step(source: SiloStreamReader, start: dict[str, Any]) -> tuple[dict[str, Any], int, int]:
    """One micro-batch: the offset behind it, its rows and their bytes."""
    end = source.latestOffset(start, source.getDefaultReadLimit())
    touched, places = 0, []
    from silomq.pipeline.source.part_reader import Work

    for part in source.partitions(start, end):
        work = Work()
        for batch in source.shape.batches(part.parts, work):
            places += batch.column("physicalOffset").to_pylist()
        touched += work.touched
    assert len(set(places)) == len(places) == count(end) - count(start)
    return end, len(places), touched


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=20), st.integers(1, 3000), st.integers(0)
)
def test_a_limit_is_shared(counts: list[int], limit: int, turn: int) -> None:
    found = share(counts, limit, turn)
    assert sum(found) == min(limit, sum(counts))
    assert all(0 <= part <= most for part, most in zip(found, counts, strict=True))
    if limit < sum(counts):
        fair = [limit * most // sum(counts) for most in counts]
        assert all(part >= least for part, least in zip(found, fair, strict=True))


def test_offsets_survive_json() -> None:
    offsets = {"/a": {("t", 0): 5, ("t", 11): 7}, "/b": {}}
    assert from_json(to_json(offsets)) == offsets
    with pytest.raises(ValueError, match="checkpointLocation"):
        from_json({"x": 1})


def test_batches_keep_to_their_limit_and_miss_nothing(store: StoreProcess) -> None:
    fill(store, 0, 1000)
    source = reader(store, startingOffsets="earliest", maxOffsetsPerTrigger=64)
    at = source.initialOffset()
    sizes = []
    while count(at) < 1000:
        at, rows, _ = step(source, at)
        sizes.append(rows)
    assert sizes == [64] * 15 + [40]
    assert source.reportLatestOffset() == at
    assert step(source, at)[1] == 0
    source.stop()
    by_bytes = reader(store, startingOffsets="earliest", maxBytesPerTrigger=20_000)
    at, total = by_bytes.initialOffset(), 0
    while count(at) < 1000:
        at, rows, touched = step(by_bytes, at)
        assert rows
        assert touched - 20 * rows <= 20_000
        total += 1
    assert total < 40
    tiny = reader(store, startingOffsets="earliest", maxBytesPerTrigger=1)
    assert step(tiny, tiny.initialOffset())[1] == 1
    tiny.stop()
    by_bytes.stop()


def test_new_topics_and_a_store_that_stops(store: StoreProcess) -> None:
    fill(store, 0, 30)
    source = reader(store)
    at = source.initialOffset()
    assert step(source, at)[1] == 0, "a stream begins at the end unless told otherwise"
    fill(store, 0, 20, "beta")
    at, rows, _ = step(source, at)
    assert rows == 20
    source.prepareForTriggerAvailableNow()
    fill(store, 30, 10)
    assert step(source, at)[1] == 0, "what comes after AvailableNow began is for the next run"
    source.stop()
    source = reader(store)
    store.stop()
    at, rows, _ = step(source, at)
    assert rows == 10
    store.start()
    fill(store, 40, 7)
    assert step(source, at)[1] == 7
    source.stop()


def test_what_the_cleaner_took_is_said(store: StoreProcess) -> None:
    fill(store, 0, 50)
    strict = reader(store, startingOffsets="earliest")
    lenient = reader(store, startingOffsets="earliest", failOnDataLoss="false")
    start = strict.initialOffset()
    at, _, _ = step(strict, start)
    fill(store, 50, 3000)
    await_durable(store)
    with Admin(store.path) as admin:
        admin.clean()
    await_cleaned(store)
    limit = strict.getDefaultReadLimit()
    with pytest.raises(DataLoss, match="were removed before they were read"):
        strict.latestOffset(at, limit)
    end = lenient.latestOffset(at, limit)
    parts = [piece for task in lenient.partitions(at, end) for piece in task.parts]
    read = sum(piece.end - piece.first for part in parts for piece in part.slices)
    assert 0 < read < 3000
    strict.stop()
    lenient.stop()


def run_driver(store: Path, out: Path, how: str) -> subprocess.Popen[bytes]:
    log = out.with_suffix(".log").open("ab")
    where = (str(store), str(out), str(out.with_suffix(".checkpoint")), how)
    with log:
        return subprocess.Popen(
            [sys.executable, "-P", str(DRIVER), *where],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(out.parent)},
        )


# The short form, into a store, is in test_killed_drivers.py: a start of Spark takes long.
@pytest.mark.parametrize("_long", [pytest.param(True, marks=LONG)])
@pytest.mark.timeout(1800)
def test_each_message_once_over_kills_of_the_driver(
    spark: SparkSession, store: StoreProcess, tmp_path: Path, _long: bool
) -> None:
    out = tmp_path / "out"
    offsets = out.with_suffix(".checkpoint") / "offsets"
    chance = random.Random(5)
    stop, sent = threading.Event(), [0]

    def produce() -> None:
        with Producer(store.path) as producer:
            while not stop.is_set():
                producer.send("alpha", body_of(0, sent[0]), queue=sent[0] % 3)
                sent[0] += 1
                time.sleep(0.01)

    def batches() -> int:
        names = os.listdir(offsets) if offsets.is_dir() else []
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def has_run(number: int) -> bool:
        return batches() > number

    fill(store, 0, 900)
    sent[0] = 900
    load = threading.Thread(target=produce)
    load.start()
    try:
        for _ in range(KILLS):
            before = batches()
            driver = run_driver(store.path, out, "always")
            eventually(partial(has_run, before + 1), "micro-batches run", 150)
            time.sleep(chance.random() * 0.5)
            driver.kill()
            driver.wait()
    finally:
        stop.set()
        load.join()
    assert run_driver(store.path, out, "once").wait(240) == 0, out.with_suffix(".log").read_text()
    rows = spark.read.parquet(str(out)).collect()
    assert len(rows) == sent[0]
    assert {bytes(row.body) for row in rows} == {body_of(0, i) for i in range(sent[0])}
    left = [p.name for p in tmp_path.iterdir() if p.name.startswith("silomq-spark-")]
    assert not left, "the next session removes what a killed one left"
