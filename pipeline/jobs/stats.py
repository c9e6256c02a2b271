"""Statistics of messages: how many, how large, how fast and how late, by topic, tag and time.

One pass over topic, tags, times and size gives four tables, a second one over the keys the fifth:

=========  ======================  ================================================================
table      one row for             columns beside the measures
=========  ======================  ================================================================
topics     each topic              messagesPerS, bytesPerS: over the time from first to last
tags       each topic and tag      the same
buckets    topic, time bucket      bucket (its beginning); messagesPerS, bytesPerS: over the bucket
cells      topic, tag, bucket      the same
keys       the keys used most      topic, key, messages: at most `top` of each topic
=========  ======================  ================================================================

Measures: messages, bytes, first and last (store time), sizeP50, sizeP95, sizeP99, sizeMax (bytes),
delayP50, delayP95, delayP99, delayMax (ms from birth at the producer to the store; below zero where
the producer's clock was ahead). Percentiles are approximate (to a ten-thousandth of the rows).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as fn

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

#: The columns that statistics need; a source that reads only these does less work.
SCHEMA: Final = (
    "topic string, tags string, keys array<string>, storeTimestamp timestamp, "
    "bornTimestamp timestamp, size int"
)
TABLES: Final = ("topics", "tags", "buckets", "cells", "keys")
_PERCENTILES: Final = {"P50": 0.5, "P95": 0.95, "P99": 0.99, "Max": 1.0}
#: Which of (topic, tags, bucket) a table aggregates over, as bits of grouping_id.
_LEVELS: Final = {"topics": 0b011, "tags": 0b001, "buckets": 0b010, "cells": 0b000}
_OF: Final = {"topics": (), "tags": ("tags",), "buckets": ("bucket",), "cells": ("tags", "bucket")}


def stats(df: DataFrame, *, bucket: str = "1 hour", top: int = 20) -> dict[str, DataFrame]:
    """The tables of TABLES over messages with the columns of SCHEMA.

    `bucket` is an interval in Spark's notation ("10 minutes"). The first four tables come from one
    pass, whose result is cached; `topics.unpersist()` frees it.
    """
    born, stored = fn.unix_millis("bornTimestamp"), fn.unix_millis("storeTimestamp")
    rows = df.select(
        "topic",
        "tags",
        fn.window("storeTimestamp", bucket).alias("window"),
        "storeTimestamp",
        fn.col("size").cast("long").alias("size"),
        (stored - born).alias("delay"),
    ).withColumn("bucket", fn.col("window.start"))
    sets = [["topic", *_OF[name]] for name in _LEVELS]
    length = fn.max(fn.unix_millis("window.end") - fn.unix_millis("window.start"))
    found = (
        rows.groupingSets(sets, "topic", "tags", "bucket")
        .agg(fn.grouping_id().alias("level"), length.alias("length"), *_measures())
        .persist()
    )
    return {name: _table(found, name) if name in _LEVELS else _top_keys(df, top) for name in TABLES}


def _measures() -> list[Column]:
    shares = list(_PERCENTILES.values())
    return [
        fn.count("*").alias("messages"),
        fn.sum("size").alias("bytes"),
        fn.min("storeTimestamp").alias("first"),
        fn.max("storeTimestamp").alias("last"),
        fn.percentile_approx("size", shares, 10_000).alias("size"),
        fn.percentile_approx("delay", shares, 10_000).alias("delay"),
    ]


def _table(found: DataFrame, name: str) -> DataFrame:
    """Selects one of the four tables from the result of the common pass."""
    spread = [
        fn.col(what)[i].alias(f"{what}{share}")
        for what in ("size", "delay")
        for i, share in enumerate(_PERCENTILES)
    ]
    span_ms = fn.unix_millis("last") - fn.unix_millis("first")
    over = fn.col("length") if "bucket" in _OF[name] else span_ms
    seconds = fn.when(over > 0, over / 1000)
    return (
        found.where(fn.col("level") == _LEVELS[name])
        .select(
            "topic",
            *_OF[name],
            *("messages", "bytes", "first", "last"),
            (fn.col("messages") / seconds).alias("messagesPerS"),
            (fn.col("bytes") / seconds).alias("bytesPerS"),
            *spread,
        )
        .orderBy("topic", *_OF[name])
    )


def _top_keys(df: DataFrame, top: int) -> DataFrame:
    counted = (
        df.select("topic", fn.explode("keys").alias("key"))
        .groupBy("topic", "key")
        .agg(fn.count("*").alias("messages"))
    )
    place = fn.row_number().over(
        Window.partitionBy("topic").orderBy(fn.desc("messages"), fn.asc("key"))
    )
    ranked = counted.withColumn("place", place).where(fn.col("place") <= top)
    return ranked.orderBy("topic", "place").drop("place")


def collect(tables: dict[str, DataFrame]) -> dict[str, list[dict[str, Any]]]:
    """The tables' rows, on the driver."""
    return {name: [row.asDict() for row in table.collect()] for name, table in tables.items()}


def write_parquet(tables: dict[str, DataFrame], folder: Path | str) -> None:
    """Writes each table to a folder of its name below `folder`, replacing existing ones."""
    for name, table in tables.items():
        table.coalesce(1).write.mode("overwrite").parquet(f"{folder}/{name}")
