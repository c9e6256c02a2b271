"""Messages leave a store and come into another one as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from spark import job_stores
from support.harness import StoreProcess

from silomq import Consumer, Producer
from silomq.client.producing._sender import session_of
from silomq.pipeline.jobs import transfer
from silomq.pipeline.jobs.reading import messages

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

KEPT = (
    "topic", "queueId", "bornTimestamp", "tags", "keys", "properties", "body", "sysFlag", "flag",
    "bornHost", "reconsumeTimes", "messageId",
)  # fmt: skip


def everything(spark: SparkSession, store: Path) -> list[dict[str, Any]]:
    """All messages in the order of their queues."""
    rows = messages(spark, [str(store)]).orderBy("topic", "queueId", "queueOffset").collect()
    return [row.asDict() for row in rows]


def kept(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What an import keeps; a record's checksum is over its new places."""
    found = []
    for row in rows:
        properties = {k: v for k, v in row["properties"].items() if k != "__CRC32#"}
        found.append({**{name: row[name] for name in KEPT}, "properties": properties})
    return found


def test_out_and_in_again(spark: SparkSession, tmp_path: Path) -> None:
    """Into a running store whose topics have too few queues or none; a second time: nothing."""
    source = job_stores.filled(tmp_path / "source", 400)
    done = transfer.export(messages(spark, [str(source.path)]), str(tmp_path / "out"))
    assert done == [{"path": str(tmp_path / "out"), "messages": 400}]
    days = {path.parent.name for path in (tmp_path / "out").glob("topic=*/day=*")}
    assert days == {f"topic=topic-{i}" for i in range(5)}
    with StoreProcess(tmp_path / "target", default_topic_queue_nums=1) as target:
        with Producer(target.path) as producer:
            producer.send("topic-3", b"was here before")
        df = transfer.read_export(spark, str(tmp_path / "out"))
        sent = transfer.import_(df, target.path)
        assert sum(row["messages"] for row in sent.queues) == 400
        assert sent.skipped == {}
        present = messages(spark, [str(target.path)], transfer.PRESENT)
        again = transfer.import_(df, target.path, present=present)
        assert again.queues == []
        assert again.skipped == {"in the store already": 400}
        mine = [r for r in everything(spark, target.path) if r["body"] != b"was here before"]
        assert kept(mine) == kept(everything(spark, source.path))
        job_stores.await_dispatch(target.path)
        with Consumer(target.path, "topic-1") as consumer:
            seen = consumer.poll(1000, timeout=2)
        assert {m.born_timestamp for m in seen} == {
            1_700_000_000_000 + i for i in range(400) if i % 5 == 1
        }


@pytest.mark.parametrize("on", [True, False])
def test_messages_of_light_queues_are_there_again(
    spark: SparkSession, tmp_path: Path, *, on: bool
) -> None:
    """In a store with light queues they get offsets there, in one without none."""
    light: dict[str, Any] = {"enable_lmq": "true", "enable_multi_dispatch": "true"}
    with StoreProcess(tmp_path / "source", **light) as source, Producer(source.path) as producer:
        for i in range(6):
            names = ("%LMQ%a", "%LMQ%a,%LMQ%b")[i % 2]
            producer.send("t", b"%d" % i, properties={"INNER_MULTI_DISPATCH": names}, queue=0)
        producer.send("t", b"6", queue=0)
    df = messages(spark, [str(source.path)])
    with StoreProcess(tmp_path / "target", **(light if on else {})) as target:
        sent = transfer.import_(df, target.path)
        assert sum(row["messages"] for row in sent.queues) == 7
        if on:
            with Consumer(target.path, "%LMQ%b") as consumer:
                seen = consumer.poll(10, timeout=10)
            assert [(m.body, m.queue_offset) for m in seen] == [(b"1", 0), (b"3", 1), (b"5", 2)]
        there = everything(spark, target.path)
        assert [row["body"] for row in there] == [b"%d" % i for i in range(7)]
        assert [("INNER_MULTI_QUEUE_OFFSET" in row["properties"]) for row in there] == [on] * 6 + [
            False
        ]


def test_an_import_that_was_cut_short_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    source = job_stores.filled(tmp_path / "source", 200)
    df = messages(spark, [str(source.path)])
    with StoreProcess(tmp_path / "target") as target:
        transfer.import_(df.where("topic < 'topic-2'"), target.path)
        present = messages(spark, [str(target.path)], transfer.PRESENT)
        rest = transfer.import_(df, target.path, present=present)
        assert sum(row["messages"] for row in rest.queues) == 120
        assert kept(everything(spark, target.path)) == kept(everything(spark, source.path))


def test_compaction_keeps_the_latest_of_each_key(spark: SparkSession, tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store, Producer(store.path) as producer:
        for i in range(30):
            producer.send("t", str(i), keys=f"k{i % 4}" if i % 5 else None)
            producer.send("u", str(i), keys=["a", "b"])
        df = messages(spark, [str(store.path)])
        transfer.export(df, str(tmp_path / "out"), compact=True)
        found = transfer.read_export(spark, str(tmp_path / "out")).collect()
    got = sorted((row.topic, int(row.body)) for row in found)
    latest = {i % 4: i for i in range(30) if i % 5}
    wanted = [("t", i) for i in range(0, 30, 5)] + [("t", i) for i in latest.values()]
    assert got == sorted([*wanted, ("u", 29)])


def test_topics_that_look_like_numbers_stay_text(spark: SparkSession, tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store, Producer(store.path) as producer:
        for topic in ("007", "7", "%RETRY%g", "2026-01-01"):
            if topic.startswith("%"):
                session_of(producer).open_retry("g", dead=False)
            producer.send(topic, b"x")
        transfer.export(messages(spark, [str(store.path)]), str(tmp_path / "out"))
    found = transfer.read_export(spark, str(tmp_path / "out")).collect()
    assert sorted(row.topic for row in found) == ["%RETRY%g", "007", "2026-01-01", "7"]
    with StoreProcess(tmp_path / "target") as target:
        df = transfer.read_export(spark, str(tmp_path / "out"))
        transfer.import_(df, target.path)
        assert {row["topic"] for row in everything(spark, target.path)} == {
            "%RETRY%g", "007", "2026-01-01", "7",
        }  # fmt: skip


def test_a_message_that_is_refused_is_named(spark: SparkSession, tmp_path: Path) -> None:
    source = job_stores.filled(tmp_path / "source", 50)
    df = messages(spark, [str(source.path)])
    with (
        StoreProcess(tmp_path / "target", max_message_size=1024, max_topics=64) as target,
        Producer(target.path) as producer,
    ):
        producer.send("topic-0", b"x")
        big = df.limit(1).selectExpr(
            *(c for c in df.columns if c != "body"), "cast(repeat('x', 5000) as binary) as body"
        )
        with pytest.raises(Exception, match="MESSAGE_ILLEGAL"):
            transfer.import_(big, target.path)
