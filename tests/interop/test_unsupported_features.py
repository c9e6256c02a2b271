"""Stores of RocketMQ 5.3 with features that SiloMQ does not have: refused by feature and file, with
status 5, before anything is made or changed. RocketMQ itself made each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from interop.rocketmq import RocketMQ, require
from support.commands import silo
from support.harness import LONG, StoreProcess
from support.small_settings import SMALL, load, options

from silomq import GroupConsumer, Producer, StoreReader, UnsupportedFeature
from silomq.pipeline.source.snapshot import take
from silomq.store.config.topics import TopicConfig, TopicTable, save
from silomq.store.filters.tags import tag_filter
from silomq.tools.verify.verify import verify

if TYPE_CHECKING:
    from pathlib import Path

RELEASE = "5.3.3"
SETTINGS: dict[str, Any] = {**SMALL, "mapped_file_size_consume_queue": 40960}
#: The feature: its settings in RocketMQ, and what is said.
FEATURES = {
    "batch queues": (
        ("topicAttribute=queue.type:BatchCQ",),
        "batchconsumequeue/featured/0/00000000000000000000 shows batch consume queues",
    ),
    "compaction": (
        ("topicAttribute=cleanup.policy:COMPACTION", "enableCompaction=true"),
        "compaction/compactionLog/featured/0/00000000000000000000 shows compacted topics",
    ),
    "queues in RocksDB": (
        ("storeType=defaultRocksDB",),
        "consumequeue/CURRENT shows consume queues in RocksDB",
    ),
    "several paths": (
        ("storePathCommitLog={0}/first,{0}/second",),
        "consumequeue/featured/0/00000000000000000000 shows a commit log in other folders",
    ),
}


def made_by_rocketmq(folder: Path, settings: tuple[str, ...], end: str) -> Path:
    require(RELEASE)
    store = folder / "store"
    more = [setting.format(folder) for setting in settings]
    RocketMQ(RELEASE, folder, SETTINGS, *more).run(store, "start", "feature", end)
    return store


def state_of(store: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder, with its size and time of change."""
    found = {str(path.relative_to(store)): path.stat() for path in store.rglob("*")}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in found.items()}


def check_refused(store: Path, said: str) -> None:
    """By a start, by `silo serve`, `verify` and the manifest, and by Spark; nothing has changed."""
    before = state_of(store)
    started = StoreProcess(store, **SETTINGS)
    started.log_path.unlink(missing_ok=True)
    assert started.launch().wait(60) == 5
    assert f"{store}/{said}" in started.log(), started.log()
    sizes = options(SETTINGS)
    for command in (
        ("serve", "--store", str(store)),
        ("verify", str(store)),
        ("dump", "manifest", str(store)),
    ):
        assert said in silo(*command, *sizes, status=5).stderr.decode()
    with pytest.raises(UnsupportedFeature) as refused:
        take(store)
    assert said in str(refused.value)
    assert state_of(store) == before


@pytest.mark.parametrize(
    ("feature", "end"),
    [
        # RocketMQ 5 sleeps for 3 s when it stops.
        pytest.param(
            feature, end, marks=() if (feature == "compaction") == (end == "stop") else LONG
        )
        for feature in FEATURES
        for end in ("stop", "--halt")
    ],
)
def test_what_rocketmq_made_is_refused_by_feature_and_file(
    tmp_path: Path, feature: str, end: str
) -> None:
    settings, said = FEATURES[feature]
    check_refused(made_by_rocketmq(tmp_path, settings, end), said)


@pytest.mark.parametrize("feature", ["batch queues", "compaction"])
def test_a_topic_that_has_no_messages_yet_is_refused_too(tmp_path: Path, feature: str) -> None:
    """A send to such a topic would keep RocketMQ's broker from starting."""
    (tmp_path / "store/commitlog").mkdir(parents=True)
    (tmp_path / "store/config").mkdir()
    name, value = FEATURES[feature][0][0].removeprefix("topicAttribute=").split(":")
    topic = TopicConfig("empty", 1, 1, attributes={name: value, "message.type": "NORMAL"})
    save(tmp_path / "store/config/topics.json", TopicTable({"empty": topic}))
    shows = FEATURES[feature][1].partition(" shows ")[2]
    check_refused(tmp_path / "store", f"config/topics.json, topic empty shows {shows}")


@pytest.mark.parametrize(
    ("trace", "shows"),
    [
        ("dledger-n0/data/00000000000000000000", "a commit log of DLedger"),
        ("epochFileCheckpoint", "replication by a controller"),
        ("config/tieredStoreMetadata.json", "tiered storage"),
        ("config/topics/CURRENT", "topics, groups and offsets in RocksDB"),
        ("config/rdb/CURRENT", "topics, groups and offsets in RocksDB"),
        ("kvStore/CURRENT", "POP consumption kept in RocksDB"),
    ],
)
def test_what_a_broker_leaves_is_refused(tmp_path: Path, trace: str, shows: str) -> None:
    """Features of the broker and of replicas, which RocketMQ's store alone does not leave."""
    (tmp_path / "store/commitlog").mkdir(parents=True)
    path = tmp_path / "store" / trace
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    check_refused(tmp_path / "store", f"{trace} shows {shows}")


def test_tags_are_found_in_extended_queues(tmp_path: Path) -> None:
    """RocketMQ's entries then lead to consumequeue_ext instead of having the hash of the tags. We
    write plain entries behind them, and RocketMQ goes on with both.
    """
    extended = ("enableConsumeQueueExt=true",)
    path = made_by_rocketmq(tmp_path, extended, "stop")
    entries = (path / "consumequeue/featured/0/00000000000000000000").read_bytes()
    assert int.from_bytes(entries[12:20], "big", signed=True) < -(2**31)
    assert verify(path, load(path, SETTINGS)).sound
    with StoreProcess(path, **SETTINGS) as store:
        with Producer(path) as producer:
            producer.send("featured", b"message 7", tags="odd", queue=0)
        store.await_dispatch()
        odd = [b"message 1", b"message 3", b"message 5", b"message 7"]
        with StoreReader(path) as reader:
            found = reader.get_message("featured", 0, 0, filter=tag_filter("odd"))
            assert [view.body for view in found.messages] == odd
        with GroupConsumer(path, "g", {"featured": "odd"}, start="earliest") as member:
            assert [view.body for view in member.poll(100, timeout=10)] == odd
        with GroupConsumer(path, "h", {"featured": "odd"}, start="earliest") as member:
            assert member.poll_arrow(100, timeout=10).column("body").to_pylist() == odd
        store.stop()
    rocketmq = RocketMQ(RELEASE, tmp_path, SETTINGS, *extended)
    said = rocketmq.run(path, "start", "feature", "dump", "-", "--halt")
    assert said.all("wrong") == []
    lines = sorted(said.all("msg"), key=lambda line: line["queueOffset"])
    assert [line["tags"] for line in lines] == ["even", "odd"] * 3 + ["odd"] + ["even", "odd"] * 3
    assert all(line["inCq"] for line in lines)


def test_a_plain_store_of_rocketmqs_is_not_refused(tmp_path: Path) -> None:
    path = made_by_rocketmq(tmp_path, (), "--halt")
    take(path)
    with StoreProcess(path, **SETTINGS):
        pass
