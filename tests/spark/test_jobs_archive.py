"""What was archived comes back byte for byte, and what was changed in between is found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from spark import job_stores
from support import offline_stores as golden_stores

from silomq import Consumer
from silomq.pipeline.jobs.archive import MANIFEST, archive, restore, verify
from silomq.pipeline.jobs.filesystems import Place
from silomq.pipeline.jobs.rebuild import rebuild
from silomq.pipeline.jobs.tasks import explained
from silomq.tools.raw.files import BadInput

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def log_files(store: Path) -> list[Path]:
    return sorted((store / "commitlog").iterdir())


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 1]))


def test_there_and_back_again(spark: SparkSession, tmp_path: Path) -> None:
    """Archived while it runs, added to later, restored without the last file, rebuilt, served."""
    store = job_stores.filled(tmp_path / "store", 3000)
    settings = job_stores.settings_of(store)
    place = tmp_path / "archive"
    full = [path.name for path in log_files(store.path)]
    with store:
        first = archive(spark, store.path, str(place), settings)
        assert first.copied
        assert set(first.copied) < set(full)
        job_stores.fill(store.path, 3000)
        again = archive(spark, store.path, f"file://{place}", settings)
    assert again.present == first.copied
    assert again.copied
    manifest = json.loads((place / MANIFEST).read_text())
    assert [entry["name"] for entry in manifest["files"]] == [*first.copied, *again.copied]
    assert not (place / "part").exists()
    for path in log_files(place):
        assert path.read_bytes() == (store.path / "commitlog" / path.name).read_bytes()
    assert verify(spark, str(place)) == []

    done = restore(spark, str(place), tmp_path / "back")
    assert done.copied == (*first.copied, *again.copied)
    for path in log_files(place):
        assert path.read_bytes() == (tmp_path / "back" / "commitlog" / path.name).read_bytes()
    rebuilt = rebuild(spark, tmp_path / "back", settings)
    records = sum(entry["records"] for entry in manifest["files"])
    assert rebuilt.entries == records
    store.path = tmp_path / "back"
    seen = 0
    with store:
        job_stores.await_dispatch(store.path)
        for topic in range(5):
            with Consumer(store.path, f"topic-{topic}") as consumer:
                while found := consumer.poll(1000, timeout=0.2):
                    seen += len(found)
    assert seen == records


def test_a_golden_store_has_no_seals_and_is_archived(spark: SparkSession, tmp_path: Path) -> None:
    store = golden_stores.unpack("normal", tmp_path)
    done = archive(spark, store.path, str(tmp_path / "archive"), golden_stores.settings())
    names = [path.name for path in log_files(store.path)]
    assert list(done.copied) == names[: len(done.copied)]
    assert len(done.copied) >= len(names) - 3
    last = done.manifest["files"][-1]
    assert last["first_offset"] == int(last["name"])
    assert last["first_store_time"] <= last["last_store_time"]


def test_decay_is_found_and_not_restored(spark: SparkSession, tmp_path: Path) -> None:
    store = job_stores.filled(tmp_path / "store", 3000)
    place = tmp_path / "archive"
    done = archive(spark, store.path, str(place), job_stores.settings_of(store))
    victim = log_files(place)[1]
    flip(victim, 4711)
    found = verify(spark, str(place))
    assert [name for name, _ in found] == [f"commitlog/{victim.name}"]
    assert "the manifest says" in found[0][1]
    with pytest.raises(Exception, match="the manifest says") as caught:
        restore(spark, str(place), tmp_path / "back")
    assert str(victim) in explained(caught.value)
    assert not (tmp_path / "back" / "commitlog" / victim.name).exists()
    victim.unlink()
    assert verify(spark, str(place)) == [(f"commitlog/{victim.name}", "the file is missing")]
    # What is asked for leaves the bad one out.
    first = restore(spark, str(place), tmp_path / "first", end=int(victim.name))
    assert first.copied == done.copied[:1]


def test_a_file_that_is_not_what_was_sealed_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    store = job_stores.filled(tmp_path / "store", 3000)
    seals = sorted((store.path / "silomq" / "seals").iterdir())
    assert seals
    flip(store.path / "commitlog" / seals[0].stem, 4711)
    with pytest.raises(Exception, match="its seal says") as caught:
        archive(spark, store.path, str(tmp_path / "archive"), job_stores.settings_of(store))
    assert "silo verify" in explained(caught.value)
    assert not (tmp_path / "archive" / MANIFEST).exists()


def test_what_makes_no_sense_is_said(spark: SparkSession, tmp_path: Path) -> None:
    store = job_stores.filled(tmp_path / "store", 1500)
    settings = job_stores.settings_of(store)
    place = tmp_path / "archive"
    with pytest.raises(BadInput, match="is no archive"):
        restore(spark, str(place), tmp_path / "back")
    with pytest.raises(BadInput, match="no file system for nowhere://"):
        archive(spark, store.path, "nowhere://bucket/x", settings)
    archive(spark, store.path, str(place), settings)
    with pytest.raises(BadInput, match="is there already"):
        restore(spark, str(place), store.path)
    with pytest.raises(BadInput, match="another store's archive"):
        archive(spark, golden_stores.unpack("normal", tmp_path).path, str(place),
                golden_stores.settings())  # fmt: skip
    other = job_stores.filled(tmp_path / "other", 1500)
    with pytest.raises(BadInput, match="holds another commitlog"):
        archive(spark, other.path, str(place), settings)
    manifest = json.loads((place / MANIFEST).read_text())
    manifest["files"][0]["name"] = "../../stolen"
    (place / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(BadInput, match="stolen"):
        restore(spark, str(place), tmp_path / "back")
    (place / MANIFEST).write_text("{}")
    with pytest.raises(BadInput, match="no manifest"):
        restore(spark, str(place), tmp_path / "back")


def test_fsspec_has_the_other_file_systems(tmp_path: Path) -> None:
    place = Place("memory://bucket/archive")
    crc = place.write("commitlog/1", b"abc")
    assert place.checksum("commitlog/1") == crc
    assert place.read("commitlog/1") == b"abc"
    assert place.read("commitlog/2") is None
    place.clear_parts()
