"""The short form of `make bench-spark`: every figure is measured; that of counted bytes is held."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from support.harness import PYTHON

pytest.importorskip("pyspark")


from silomq.bench.spark import tables
from silomq.pipeline.spark import session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = {
    "all columns to noop": 1,
    "narrow read": 2,
    "groupBy(topic)": 1,
    "any Python source, 128 B": 2,
    "a task of one row": 1,
    "% of the log": 1,
    "AvailableNow": 1,
    "idle trigger": 1,
}


@pytest.fixture
def command(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The benchmark's command, in the session that is there: to start one takes 20 seconds."""
    monkeypatch.setattr(session, "session", lambda *_, **__: spark)
    before = signal.getsignal(signal.SIGTERM)
    yield tables.main
    signal.signal(signal.SIGTERM, before)


def test_the_short_form_runs(command: Any, tmp_path: Path) -> None:
    output = tmp_path / "spark.json"
    options = ["--short", "--runs", "1", "--folder", str(tmp_path), "--output", str(output)]
    command(options, standalone_mode=False)
    rows = json.loads(output.read_text())["rows"]
    for words, count in ROWS.items():
        assert len([row for row in rows if words in row["name"]]) == count
    (share,) = (row for row in rows if "% of the log" in row["name"])
    assert share["met"], "bytes are counted, so this bar holds on any machine"
    assert all(row["median"] > 0 for row in rows)
    assert list(tmp_path.iterdir()) == [output], "its stores are gone"


def test_it_is_a_command() -> None:
    said = subprocess.check_output([*PYTHON, "-m", "silomq.bench.spark", "--help"], text=True)
    assert "Spark over Parquet" in said
