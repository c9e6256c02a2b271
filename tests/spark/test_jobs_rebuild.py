"""Queues and index that tasks build are byte for byte those that dispatch wrote."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spark import job_stores
from support import offline_stores as golden_stores

from silomq import Consumer, Producer
from silomq.pipeline.jobs.hashing import index_hashes, java_hashes
from silomq.pipeline.jobs.rebuild import rebuild
from silomq.pipeline.jobs.tasks import explained
from silomq.store.record.javahash import index_key_hash, java_string_hash
from silomq.tools.raw.files import BadInput

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=30)


def same_queues(a: Path, b: Path) -> None:
    def held(folder: Path) -> dict[str, bytes]:
        files = (path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}

    first, second = held(a / "consumequeue"), held(b / "consumequeue")
    assert first
    assert sorted(first) == sorted(second)
    assert not [name for name in first if first[name] != second[name]]


def index_bytes(store: Path) -> list[bytes]:
    """Index files are named after the time at which they were made, so only their order counts."""
    return [path.read_bytes() for path in sorted((store / "index").iterdir())]


@settings(deadline=None)
@given(TEXTS)
def test_columns_are_hashed_as_java_does(texts: list[str]) -> None:
    array = pa.array(["?", *texts], pa.string())[1:]
    found = java_hashes(array).view(np.int32).tolist()
    assert found == [java_string_hash(text) for text in texts]


@settings(deadline=None)
@given(TEXTS, st.text(st.characters(exclude_categories=["Cs"]), max_size=5))
def test_keys_are_hashed_as_the_index_does(keys: list[str], topic: str) -> None:
    prefix: Any = np.full(len(keys), java_string_hash(f"{topic}#") % (1 << 32), dtype=np.uint32)
    found = index_hashes(prefix, pa.array(keys, pa.string())).tolist()
    assert found == [index_key_hash(topic, key) for key in keys]


def test_a_hash_that_abs_cannot_make_positive_is_0() -> None:
    key = "polygenelubricants"  # its hash is -2**31
    assert java_string_hash(key) == -(1 << 31)
    assert index_hashes(np.zeros(1, np.uint32), pa.array([key])).tolist() == [0]


def test_equals_what_reput_wrote(spark: SparkSession, tmp_path: Path) -> None:
    store = job_stores.filled(tmp_path / "store", 3000)
    with store, Producer(store.path) as producer:
        producer.send("topic-1", b"much later", delay_level=18)
        job_stores.await_dispatch(store.path)
    settings = job_stores.settings_of(store)
    done = rebuild(spark, store.path, settings, tmp_path / "new")
    assert done.entries == 3001
    assert done.log_files > 1
    assert done.index_files > 2
    assert not done.gaps
    same_queues(store.path, tmp_path / "new")
    assert index_bytes(store.path) == index_bytes(tmp_path / "new")
    with pytest.raises(BadInput, match="is there already"):
        rebuild(spark, store.path, settings, tmp_path / "new")


def test_a_log_that_lost_its_beginning(spark: SparkSession, tmp_path: Path) -> None:
    """Queues begin with blank entries then, as the store's own start makes them."""
    store = job_stores.filled(tmp_path / "store", 3000)
    for name in ("consumequeue", "index", "silomq/progress", "silomq/log_begin", "checkpoint"):
        path = store.path / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    min((store.path / "commitlog").iterdir()).unlink()
    (store.path / "abort").touch()
    with store:
        job_stores.await_dispatch(store.path)
    rebuild(spark, store.path, job_stores.settings_of(store), tmp_path / "new")
    same_queues(store.path, tmp_path / "new")
    assert index_bytes(store.path) == index_bytes(tmp_path / "new")


def test_in_place_keeps_what_was_there_and_serves(spark: SparkSession, tmp_path: Path) -> None:
    store = job_stores.filled(tmp_path / "store", 500)
    shutil.copytree(store.path, tmp_path / "before")
    victim = next((store.path / "consumequeue" / "topic-2").rglob("0" * 20))
    victim.write_bytes(bytes(victim.stat().st_size))
    done = rebuild(spark, store.path, job_stores.settings_of(store))
    same_queues(tmp_path / "before", store.path)
    assert done.kept is not None
    assert f"{done.kept}/consumequeue".startswith(str(store.path / "recovery"))
    with store, Consumer(store.path, "topic-2") as consumer:
        job_stores.await_dispatch(store.path)
        numbers = [int(m.body.split()[0]) for m in consumer.poll(1000, timeout=5)]
    assert sorted(numbers) == [i for i in range(500) if i % 5 == 2]


def test_damage_in_the_middle_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    store = job_stores.filled(tmp_path / "store", 3000)
    file = min((store.path / "commitlog").iterdir())
    with file.open("r+b") as out:
        out.seek(5000)
        out.write(b"\xff" * 400)
    with pytest.raises(Exception, match="no records") as caught:
        rebuild(spark, store.path, job_stores.settings_of(store), tmp_path / "new")
    why = explained(caught.value)
    assert f"corrupt data at {file}, offset 4938: " in why
    assert "silo repair --truncate-at" in why


def test_golden_store(spark: SparkSession, tmp_path: Path) -> None:
    """RocketMQ's own queues and index; RocketMQ 5 counts used slots, what wrote this entries."""
    store = golden_stores.unpack("normal", tmp_path)
    rebuild(spark, store.path, golden_stores.settings(), tmp_path / "new")
    same_queues(store.path, tmp_path / "new")
    theirs, ours = index_bytes(store.path), index_bytes(tmp_path / "new")
    assert [data[:32] + data[36:] for data in theirs] == [data[:32] + data[36:] for data in ours]
