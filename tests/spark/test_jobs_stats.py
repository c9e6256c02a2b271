"""Statistics equal those that plain Python works out of the same messages."""

from __future__ import annotations

import datetime as dt
import html
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from spark import job_stores
from support import offline_stores as golden_stores
from support.harness import StoreProcess

from silomq.pipeline.jobs import report, stats
from silomq.pipeline.jobs.reading import messages
from silomq.tools.raw.files import StoreFiles
from silomq.tools.raw.walk import Kind, walk_log
from silomq.tools.rocketmq.view import is_queued

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def records(path: Path, settings: Any) -> list[Any]:
    """What of the log is a message: no half messages, no rollbacks."""
    found = walk_log(StoreFiles(path, settings))
    whole = (piece.record for piece in found if piece.kind is Kind.RECORD)
    return [record for record in whole if record and is_queued(record)]


def when(timestamp: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(timestamp / 1000, dt.UTC).replace(tzinfo=None)


def test_equals_plain_python(spark: SparkSession, tmp_path: Path) -> None:
    store = golden_stores.unpack("normal", tmp_path)
    df = messages(spark, [str(store.path)], stats.SCHEMA, includeDelayed=True)
    tables = stats.collect(stats.stats(df, bucket="1 second", top=3))
    mine = records(store.path, golden_stores.settings())
    assert mine
    by_topic = defaultdict(list)
    by_tag: Counter[tuple[str, str | None]] = Counter()
    by_second: Counter[tuple[str, dt.datetime]] = Counter()
    keys: dict[str, Counter[str]] = defaultdict(Counter)
    for record in mine:
        by_topic[record.topic].append(record)
        by_tag[record.topic, record.properties.get("TAGS")] += 1
        second = when(record.store_timestamp - record.store_timestamp % 1000)
        by_second[record.topic, second] += 1
        keys[record.topic].update(filter(None, record.properties.get("KEYS", "").split(" ")))
    assert {row["topic"] for row in tables["topics"]} == set(by_topic)
    for row in tables["topics"]:
        held = by_topic[row["topic"]]
        sizes = sorted(record.total_size for record in held)
        delays = [record.store_timestamp - record.born_timestamp for record in held]
        assert row["messages"] == len(held)
        assert row["bytes"] == sum(sizes)
        assert row["sizeMax"] == sizes[-1]
        assert row["sizeP50"] == sizes[(len(sizes) + 1) // 2 - 1]
        assert row["delayMax"] == max(delays)
        first, last = (f(r.store_timestamp for r in held) for f in (min, max))
        assert (row["first"], row["last"]) == (when(first), when(last))
        if last > first:
            assert row["messagesPerS"] == pytest.approx(len(held) * 1000 / (last - first))
    assert {(row["topic"], row["tags"]): row["messages"] for row in tables["tags"]} == by_tag
    found = {(row["topic"], row["bucket"]): row["messages"] for row in tables["buckets"]}
    assert found == by_second
    assert all(row["messagesPerS"] == row["messages"] for row in tables["buckets"])
    assert sum(row["messages"] for row in tables["cells"]) == len(mine)
    for topic, counted in keys.items():
        best = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
        assert [(r["key"], r["messages"]) for r in tables["keys"] if r["topic"] == topic] == best


def test_the_report_needs_nothing_else_and_escapes(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>$x^$"
    bucket = {"bucket": when(1_700_000_000_000), "messagesPerS": 2.0, "delayP95": -5}
    row = {"topic": hostile, "messages": 2, "bytes": 300, "first": when(0), "last": when(10)}
    tables: dict[str, list[dict[str, Any]]] = {
        "topics": [row],
        "tags": [{"topic": hostile, "tags": None, "messages": 2}] * 500,
        "buckets": [{**row, **bucket}],
        "keys": [{"topic": hostile, "key": "_&", "messages": 1}],
    }
    page = report.render(tables, "a & b")
    assert "<script" not in page
    assert html.escape(hostile) in page
    assert page.count("<svg") == 3
    assert "The first 200 of 500 rows." in page
    assert not re.findall(r"(?:src|href)=\"(?!#)", page)
    assert "No messages." in report.render({name: [] for name in tables}, "empty")


def test_parquet_holds_the_tables(spark: SparkSession, tmp_path: Path) -> None:
    store = golden_stores.unpack("preblank", tmp_path)
    df = messages(spark, [str(store.path)], stats.SCHEMA)
    tables = stats.stats(df)
    stats.write_parquet(tables, tmp_path / "out")
    for name in stats.TABLES:
        assert spark.read.parquet(str(tmp_path / "out" / name)).count() == tables[name].count()


def test_nothing_of_an_empty_table(spark: SparkSession) -> None:
    empty = spark.createDataFrame([], stats.SCHEMA)
    assert not any(stats.collect(stats.stats(empty)).values())


def test_a_store_that_runs(spark: SparkSession, tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        job_stores.fill(store.path, 100)
        df = messages(spark, [str(store.path)], stats.SCHEMA)
        topics = stats.collect(stats.stats(df))["topics"]
    assert sum(row["messages"] for row in topics) == 100
