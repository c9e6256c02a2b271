"""An audit finds nothing in sound stores, and everything that is broken on purpose."""

from __future__ import annotations

import json
import shutil
import struct
from typing import TYPE_CHECKING

import pytest
from spark import job_stores
from support import offline_stores as golden_stores

from silomq import GroupConsumer
from silomq.pipeline.jobs.audit import SCHEMA, Audit, audit, write_parquet
from silomq.pipeline.jobs.reading import messages
from silomq.tools.verify.verify import verify

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from silomq.conf.settings import Settings


def run(spark: SparkSession, settings: Settings, *stores: Path) -> Audit:
    paths = [str(path) for path in stores]
    df = messages(spark, paths, SCHEMA, onCorrupt="skip", includeDelayed=True)
    return audit(spark, df, dict.fromkeys(paths, settings))


def patch(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


@pytest.mark.parametrize("name", ["normal", "preblank"])
def test_a_golden_store_is_as_sound_as_verify_says(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """Same findings, same counts: only the lost queue offsets that RocketMQ leaves are ours."""
    store = golden_stores.unpack(name, tmp_path)
    said = verify(store.path, golden_stores.settings())
    found = run(spark, golden_stores.settings(), store.path)
    files = [row for row in found.findings if row["check"] in {"files", "log", "queue", "index"}]
    assert [(r["file"], r["offset"], r["what"]) for r in files] == [
        (f.path, f.offset, f.what) for f in said.findings
    ]
    assert found.counts == said.counts
    assert found.notes == said.notes


def test_a_sound_store(spark: SparkSession, tmp_path: Path) -> None:
    store = job_stores.filled(tmp_path / "store", 1000)
    with (
        store,
        GroupConsumer(
            store.path, "readers", {"topic-1": "*"}, start="earliest", auto_ack=False
        ) as consumer,
    ):
        seen = 0
        while seen < 200:
            batch = consumer.poll(50, timeout=30)
            assert batch
            seen += len(batch)
            consumer.ack(batch)
    found = run(spark, job_stores.settings_of(store), store.path)
    assert found.findings == []
    assert found.counts["records"] == found.counts["queue entries"] == 1000
    assert sum(row["messages"] for row in found.queues) == 1000
    group = [row for row in found.progress if row["group"] == "readers"]
    assert {(row["topic"], row["lag"], row["missed"]) for row in group if row["offset"]} == {
        ("topic-1", 0, 0)
    }
    write_parquet(spark, found, str(tmp_path / "out"))
    assert spark.read.parquet(str(tmp_path / "out" / "queues")).count() == len(found.queues)


def test_everything_that_is_broken_is_found(spark: SparkSession, tmp_path: Path) -> None:
    store = job_stores.filled(tmp_path / "store", 1000)
    settings = job_stores.settings_of(store)
    rows = messages(spark, [str(store.path)]).orderBy("physicalOffset").collect()
    log = store.path / "commitlog" / ("0" * 20)
    # A body that fails its CRC; the queue offset of another record; an id that is there already.
    bad, moved, copy = rows[10], rows[20], rows[30]
    patch(log, bad.physicalOffset + 90, b"\xff\xfe")
    patch(log, moved.physicalOffset + 20, struct.pack(">q", moved.queueOffset + 1000))
    data = log.read_bytes()
    at = data.index(copy.messageId.encode())
    twin = next(r for r in rows[31:] if r.topic == copy.topic)
    patch(log, data.index(twin.messageId.encode()), copy.messageId.encode())
    assert at > copy.physicalOffset
    # A queue entry that points elsewhere; a group that is ahead.
    queue = store.path / "consumequeue" / rows[40].topic / str(rows[40].queueId) / ("0" * 20)
    patch(queue, rows[40].queueOffset * 20, struct.pack(">q", rows[41].physicalOffset))
    (store.path / "config" / "consumerOffset.json").write_text(
        json.dumps({"offsetTable": {"topic-1@readers": {"0": 99_999}}})
    )
    found = run(spark, settings, store.path)

    def of(check: str) -> list[tuple[str, int, str]]:
        picked = [row for row in found.findings if row["check"] == check]
        assert {row["store"] for row in picked} <= {str(store.path)}
        return [(row["file"], row["offset"], row["what"]) for row in picked]

    crcs = {(file, offset) for file, offset, what in of("log") if "CRC" in what}
    assert (str(log), bad.physicalOffset) in crcs
    gaps = {(file, what.partition(" behind")[0]) for file, _, what in of("queue offsets")}
    name = f"{moved.topic}/{moved.queueId} has message"
    assert (str(log), f"{name} {moved.queueOffset + 1}") in gaps
    assert (str(log), f"{name} {moved.queueOffset + 1000}") in gaps
    assert [(file, offset) for file, offset, _ in of("duplicates")] == [
        (str(log), twin.physicalOffset)
    ]
    assert copy.messageId in of("duplicates")[0][2]
    assert (str(queue), rows[40].queueOffset * 20) in {(f, o) for f, o, _ in of("queue")}
    ((file, _, what),) = of("progress")
    assert file.endswith("config/consumerOffset.json")
    assert "group readers has offset 99999 in topic-1/0" in what


def test_an_id_in_two_stores_is_found(spark: SparkSession, tmp_path: Path) -> None:
    store = job_stores.filled(tmp_path / "a", 20)
    shutil.copytree(store.path, tmp_path / "b", ignore=shutil.ignore_patterns("silomq.sock"))
    found = run(spark, job_stores.settings_of(store), tmp_path / "a", tmp_path / "b")
    twice = [row for row in found.findings if row["check"] == "duplicates"]
    assert len(twice) == 20
    assert {row["store"] for row in twice} == {str(tmp_path / "b")}
    assert all(f"of {tmp_path / 'a'}" in row["what"] for row in twice)
    assert len(found.findings) == 20
