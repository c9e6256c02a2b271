"""How Spark's Java is started: with the class archive, if it is whole; with one collector."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from silomq.pipeline.spark import class_archive
from silomq.pipeline.spark.session import collector

if TYPE_CHECKING:
    from pathlib import Path


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
