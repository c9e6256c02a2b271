"""`silo spark` as users call it: one command after the other, over one store."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from spark import job_stores
from support.commands import sentence, silo
from support.harness import StoreProcess

from silomq.cli.main import main
from silomq.cli.shared.outcome import Failure
from silomq.cli.spark import common
from silomq.pipeline.jobs.tasks import explained

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

TRACE = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
    process()
silomq.store.errors.Corrupt: corrupt data at /s/commitlog/0, offset 7: zeros

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
"""


def test_a_task_error_is_one_sentence() -> None:
    assert explained(Exception(TRACE)) == "corrupt data at /s/commitlog/0, offset 7: zeros"
    trace = TRACE.replace("silomq.store.errors.Corrupt", "ValueError")
    assert explained(Exception(trace)).startswith("ValueError: corrupt data")
    assert explained(Exception("Path does not exist\nmore")) == "Path does not exist"


def test_wrong_usage_ends_before_spark_starts(tmp_path: Path) -> None:
    where = str(tmp_path / "out")
    both = silo("spark", "export", str(tmp_path), where, "--append", "--overwrite", status=2)
    assert "exclude each other" in sentence(both)
    wrong = silo("spark", "stats", str(tmp_path), "--conf", "x", status=2)
    assert "write it as NAME=VALUE" in sentence(wrong)
    setting = silo("spark", "stats", str(tmp_path), "--set", "nonsense=1", status=3)
    assert "nonsense" in sentence(setting)


def test_without_spark_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with (
        pytest.raises(Failure, match=r"pip install 'silomq\[spark\]'"),
        common.job("stats", "local[1]", ()),
    ):
        pass


def run(*arguments: object, status: int = 0) -> None:
    """The command in this process, which has a session already."""
    assert main(["spark", *map(str, arguments)]) == status


def test_a_tour(
    spark: SparkSession, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Every command over one store; what was restored and rebuilt is sound, until it is not."""

    def said() -> Any:
        return json.loads(capsysbinary.readouterr().out)

    store = job_stores.filled(tmp_path / "store", 1200)
    options = [*job_stores.options_of(store), "--json"]
    page, place, back = (tmp_path / name for name in ("report.html", "archive", "back"))
    run("stats", store.path, "--html", page, *options)
    assert sum(row["messages"] for row in said()["topics"]) == 1200
    assert "topic-3" in page.read_text()
    run("archive", store.path, place, "--verify", *options)
    archived = said()["archived"]
    run("restore", place, back, *options)
    assert said()["restored"] == archived
    run("rebuild", back, *options)
    assert said()["entries"] == sum(entry["records"] for entry in archived) > 0
    run("audit", back, *options)
    assert said()["sound"]
    run("export", back, tmp_path / "out", "--topic", "topic-1", *options)
    (exported,) = said()["exported"]
    with StoreProcess(tmp_path / "target") as target:
        run("import", tmp_path / "out", target.path, *options)
        assert sum(row["messages"] for row in said()["imported"]) == exported["messages"] > 0
    log = back / "commitlog" / ("0" * 20)
    log.write_bytes(log.read_bytes().replace(b"0 x", b"0 y", 1))
    run("audit", back, *options, status=1)
    assert any("CRC" in row["what"] for row in said()["findings"])
    run("audit", tmp_path / "nothing", *options, status=2)
    assert b"is no store" in capsysbinary.readouterr().err
