"""A batch read of RocketMQ's own stores is what RocketMQ reads from them, field by field."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest
from support import golden_stores

from silomq.store.names import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module", params=golden_stores.NAMES)
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> golden_stores.Golden:
    return golden_stores.unpack(request.param, tmp_path_factory.mktemp("golden"))


def said(row: Any, path: str) -> dict[str, Any]:
    """A row in the words of the manifest."""
    assert row.store == path
    assert (row.keys or []) == row.properties.get("KEYS", "").split()
    assert row.messageId == row.properties.get("UNIQ_KEY")
    return {
        "commitLogOffset": row.physicalOffset,
        "topic": row.topic,
        "queueId": row.queueId,
        "queueOffset": row.queueOffset,
        "storeSize": row["size"],
        "bodyCRC": row.bodyCRC,
        "sysFlag": row.sysFlag,
        "flag": row.flag,
        "bornTimestamp": round(row.bornTimestamp.timestamp() * 1000),
        "storeTimestamp": round(row.storeTimestamp.timestamp() * 1000),
        "bornHost": row.bornHost,
        "storeHost": row.storeHost,
        "reconsumeTimes": row.reconsumeTimes,
        "tags": row.tags,
        "properties": row.properties,
        "bodyLen": len(row.body),
        "bodySha256": hashlib.sha256(row.body).hexdigest(),
    }


def expected(store: golden_stores.Golden) -> list[dict[str, Any]]:
    names = ("preparedTransactionOffset", "keys", "kind", "msgId", "recordSha256", "cq", "inCq")
    return [
        {k: v for k, v in line.items() if k not in (*names, "propertiesRawHex")}
        for line in store.of("msg")
        if line["inCq"]
    ]


def rows(frame: DataFrame, path: Path) -> list[dict[str, Any]]:
    found = [said(row, str(path)) for row in frame.collect()]
    return sorted(found, key=lambda row: int(row["commitLogOffset"]))


def test_all_of_a_store(spark: SparkSession, store: golden_stores.Golden) -> None:
    frame = (
        spark.read.format("silomq")
        .option("rawBodies", "true")
        .option("includeDelayed", "true")
        .load(str(store.path))
    )
    assert rows(frame, store.path) == expected(store)


def test_topics_and_queues(spark: SparkSession, store: golden_stores.Golden) -> None:
    read = spark.read.format("silomq").option("rawBodies", "true").option("verifyCrc", "true")
    some = expected(store)
    chosen = sorted({row["topic"] for row in some} - {SCHEDULE_TOPIC})[:2]
    frame = read.option("subscribe", ",".join(chosen)).load(str(store.path))
    # RocketMQ began some queues of `preblank` in their middle.
    begins = {(q["topic"], q["queueId"]): q["minOffset"] for q in store.of("queue")}
    if store.name != "crashed":  # whose queues are not asked
        some = [
            r for r in some if r["queueOffset"] >= begins.get((r["topic"], r["queueId"]), 1 << 62)
        ]
    assert rows(frame, store.path) == [row for row in some if row["topic"] in chosen]
    one = some[len(some) // 2]
    queue = f'{{"{one["topic"]}": [{one["queueId"]}]}}'
    frame = (
        spark.read.format("silomq")
        .option("rawBodies", "true")
        .option("assign", queue)
        .load(str(store.path))
    )
    assert rows(frame, store.path) == [
        row for row in some if (row["topic"], row["queueId"]) == (one["topic"], one["queueId"])
    ]


def test_filters_are_pushed_down_and_change_nothing(
    spark: SparkSession, store: golden_stores.Golden
) -> None:
    frame = (
        spark.read.format("silomq")
        .option("rawBodies", "true")
        .option("includeDelayed", "true")
        .load(str(store.path))
    )
    some = expected(store)
    one = some[len(some) // 3]
    time = f"timestamp_millis({one['storeTimestamp']})"
    tests: list[tuple[str, Any]] = [
        (f"topic = '{one['topic']}'", lambda row: row["topic"] == one["topic"]),
        (
            f"topic in ('{one['topic']}', 'x') and queueOffset >= {one['queueOffset']}",
            lambda row: row["topic"] == one["topic"] and row["queueOffset"] >= one["queueOffset"],
        ),
        (f"storeTimestamp < {time}", lambda r: r["storeTimestamp"] < one["storeTimestamp"]),
        (
            f"storeTimestamp >= {time} and topic = '{one['topic']}'",
            lambda r: r["storeTimestamp"] >= one["storeTimestamp"] and r["topic"] == one["topic"],
        ),
        (
            f"physicalOffset > {one['commitLogOffset']} and queueId = {one['queueId']}",
            lambda r: (
                r["commitLogOffset"] > one["commitLogOffset"] and r["queueId"] == one["queueId"]
            ),
        ),
    ]
    for text, test in tests:
        assert rows(frame.where(text), store.path) == list(filter(test, some)), text
