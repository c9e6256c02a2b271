"""Bodies that RocketMQ's compressors made are handed out as RocketMQ's client hands them out."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest
from interop.rocketmq import RocketMQ, require
from support.deliveries import collect
from support.harness import LONG, StoreProcess
from support.small_settings import SMALL

from silomq import Consumer, GroupConsumer, MessageView, Producer, StoreReader
from silomq.client.groups.retry import send_back
from silomq.pipeline.source.part_reader import Damage, QueuePart, Rules, Slice, read
from silomq.store.record.format import SYS_COMPRESSED, SYS_COMPRESSION_TYPE

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

TOPIC = "Compressed"


def sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize("release", ["5.3.3", pytest.param("4.9.8", marks=LONG)])
def test_bodies_of_rocketmqs_producers_are_read_decompressed(tmp_path: Path, release: str) -> None:
    require(release)
    store = StoreProcess(tmp_path / "store")
    with store, Producer(store.path) as producer:
        producer.send("other", b"the store is ours first")
    said = RocketMQ(release, tmp_path, SMALL).run(store.path, "start", "compressed", "stop")
    lines = said.all("compressed")
    assert len(lines) == 52
    # RocketMQ 5.3's decoder clears the bit when it decompresses, that of 4.9 does not.
    cleared = SYS_COMPRESSED if release.startswith("5.") else 0
    for line in lines:
        assert line["readSha256"] == line["bodySha256"]
        assert line["readFlag"] == line["sysFlag"] & ~cleared
    with store:
        check_views(store, lines)
        check_columns(store, lines)
        check_send_back(store, lines)
        check_spark(store, lines)


def check_views(store: StoreProcess, lines: list[dict[str, Any]]) -> None:
    with Consumer(store.path, TOPIC, queues=[0], check_crc=True) as consumer:
        views: list[MessageView] = []
        while len(views) < len(lines):
            views += consumer.poll(1000, 10.0)
    with StoreReader(store.path) as reader:
        found = [reader.look_at(line["offset"]) for line in lines]
    for read_by in (views, found):
        assert [(sha(v.body), len(v.body), sha(v.raw_body), v.sys_flag) for v in read_by] == [
            (line["bodySha256"], line["bodyLen"], line["storedSha256"], line["sysFlag"])
            for line in lines
        ]


def check_columns(store: StoreProcess, lines: list[dict[str, Any]]) -> None:
    plain = [line["bodySha256"] for line in lines]
    stored = [line["storedSha256"] for line in lines]
    with (
        Consumer(store.path, TOPIC, queues=[0]) as consumer,
        GroupConsumer(store.path, "g", TOPIC, start="earliest") as member,
        GroupConsumer(store.path, "raw", TOPIC, start="earliest") as raw_member,
    ):
        # Small batches: a decompressed body counts at its full length.
        assert hashes(consumer, len(lines), max_bytes=100_000) == plain
        consumer.seek(0, 0)
        assert hashes(consumer, len(lines), raw_bodies=True) == stored
        assert hashes(member, len(lines)) == plain
        assert hashes(raw_member, len(lines), raw_bodies=True) == stored


def hashes(reader: Consumer | GroupConsumer, count: int, **options: Any) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        batch: pa.RecordBatch = reader.poll_arrow(100, 10.0, columns=("body", "flag"), **options)
        batch.validate(full=True)
        assert batch.num_rows
        if "max_bytes" in options and batch.num_rows > 1:
            assert sum(map(len, batch["body"].to_pylist())) <= options["max_bytes"]
        found += map(sha, batch["body"].to_pylist())
    return found


def check_send_back(store: StoreProcess, lines: list[dict[str, Any]]) -> None:
    """A message that is sent back keeps the stored, compressed body and its flags."""
    bits = SYS_COMPRESSED | SYS_COMPRESSION_TYPE
    with Consumer(store.path, TOPIC, queues=[0]) as consumer, Producer(store.path) as producer:
        views = consumer.poll(1000)[4:8]
        for view in views:
            send_back(producer, view, "back", delay_level=1)
        came = collect(store.path, "%RETRY%back", [v.body for v in views]).views
    assert sorted((v.sys_flag & bits, v.raw_body) for v in came) == sorted(
        (v.sys_flag & bits, v.raw_body) for v in views
    )
    assert sorted(v.body for v in came) == sorted(v.body for v in views)


def check_spark(store: StoreProcess, lines: list[dict[str, Any]]) -> None:
    sizes = SMALL
    part = QueuePart(
        str(store.path),
        sizes["mapped_file_size_commit_log"],
        sizes["mapped_file_size_consume_queue"],
        (Slice(TOPIC, 0, 0, len(lines)),),
    )
    for raw, wanted in ((False, "bodySha256"), (True, "storedSha256")):
        rules = Rules(("body",), True, True, "fail", raw)
        found: list[str] = []
        for batch in read(part, rules):
            assert not isinstance(batch, Damage)
            found += map(sha, batch["body"].to_pylist())
        assert found == [line[wanted] for line in lines]
