"""A store with the pool is killed, and RocketMQ takes it over before our next start."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest
from interop.dump import appended_by_rocketmq
from interop.rocketmq import RocketMQ, require
from support.checking.messages import read_topic
from support.harness import LONG, StoreProcess
from support.small_settings import SMALL

from silomq import Producer

if TYPE_CHECKING:
    from pathlib import Path

COMMITTED, POOLED, THEIRS = 40, 60, 50
SETTINGS: dict[str, Any] = {
    "transient_store_pool_enable": "true",
    "transient_store_pool_size": 3,
    "commit_commit_log_least_pages": 100_000,
    "commit_commit_log_thorough_interval_ms": 600_000,
}


# In the test below RocketMQ 5 dies.
@pytest.mark.parametrize(
    ("release", "theirs"),
    [
        ("4.9.8", "stop"),
        pytest.param("4.9.8", "--halt", marks=LONG),
        pytest.param("5.3.3", "stop", marks=LONG),
    ],
)
def test_the_pool_is_not_written_over_what_rocketmq_appended(
    tmp_path: Path, release: str, theirs: str
) -> None:
    """What only the pool had is kept in recovery/, and the store starts and serves all the rest."""
    require(release)
    with StoreProcess(tmp_path / "store", **SETTINGS) as store:
        with Producer(store.path) as producer:
            for i in range(COMMITTED):
                producer.send("ours", b"committed %d" % i, queue=0)
        store.stop()  # commits
        store.start()
        with Producer(store.path) as producer:
            for i in range(POOLED):
                assert producer.send("ours", b"pooled %d" % i, queue=0).level == "memory"
        control = store.control
        committed, wrote = control.load("committed"), control.load("wrote")
        assert wrote > committed
        store.crash()
        rocketmq = RocketMQ(release, tmp_path, {**SMALL, **SETTINGS})
        said = rocketmq.run(store.path, "start", "append", THEIRS, 11, theirs)
        appended = [appended_by_rocketmq(line) for line in said.all("put")]
        assert len(appended) == THEIRS

        store.start()
        store.await_dispatch()
        assert f"offsets {committed} to {wrote}, were NOT put into the log" in store.log()
        topics = {known.topic for known in appended} | {"ours"}
        views = [view for topic in topics for view in read_topic(store.path, topic)]
        ours = [view for view in views if view.physical_offset < committed]
        assert [view.body for view in ours] == [b"committed %d" % i for i in range(COMMITTED)]
        theirs_found = {
            view.physical_offset: hashlib.sha256(view.body).hexdigest()
            for view in views
            if view.physical_offset >= committed
        }
        assert theirs_found == {known.physical_offset: known.sha256 for known in appended}
        (kept,) = (store.path / "recovery").rglob("pool-*")
        assert (int(kept.name.removeprefix("pool-")), kept.stat().st_size) == (
            committed,
            wrote - committed,
        )
        assert b"pooled 0" in kept.read_bytes()
        store.stop()


def test_rocketmq_that_appended_nothing_costs_nothing(tmp_path: Path) -> None:
    """It only looked at the store and died: the pool's bytes come into the log."""
    require("5.3.3")
    with StoreProcess(tmp_path / "store", **SETTINGS) as store:
        with Producer(store.path) as producer:
            for i in range(POOLED):
                producer.send("ours", b"pooled %d" % i, queue=0)
        store.crash()
        RocketMQ("5.3.3", tmp_path, {**SMALL, **SETTINGS}).run(store.path, "start", "--halt")
        store.start()
        store.await_dispatch()
        assert [view.body for view in read_topic(store.path, "ours")] == [
            b"pooled %d" % i for i in range(POOLED)
        ]
        store.stop()
