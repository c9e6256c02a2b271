"""How Spark's processes are started: Java with a whole class archive, Python with our package."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import silomq
from silomq.pipeline.spark import class_archive
from silomq.pipeline.spark.session import _variables, collector


def test_only_a_whole_archive_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "FOLDER", tmp_path)
    assert class_archive.options() == []
    archive = tmp_path / "classes-7.jsa"
    archive.write_bytes(b"7 bytes")
    assert class_archive.options() == [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"]
    archive.write_bytes(b"half")
    assert class_archive.options() == []
    (tmp_path / "new.jsa").write_bytes(b"being made")
    assert class_archive.find() is None


@pytest.mark.parametrize("place", ["", "SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "conf"])
def test_java_is_told_of_one_collector(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not start with two."""
    for name in ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    conf = {"spark.driver.extraJavaOptions": "-Dx=y"}
    if place == "conf":
        conf["spark.driver.extraJavaOptions"] += " -XX:+UseG1GC"
    elif place:
        monkeypatch.setenv(place, "-XX:+UseZGC")
    found = collector(conf, "local[2]")
    assert found == ({} if place else {"spark.driver.defaultJavaOptions": "-XX:+UseParallelGC"})
    assert collector(conf, "spark://there:7077") == {}


def test_workers_import_the_same_package(tmp_path: Path) -> None:
    first = _variables(tmp_path, "local[2]")["PYTHONPATH"].split(os.pathsep)[0]
    assert Path(first) == Path(silomq.__path__[0]).parent
