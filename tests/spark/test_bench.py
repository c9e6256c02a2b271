"""The short form of `make bench-spark`: every figure is measured; no bar is held."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.harness import PYTHON

pytest.importorskip("pyspark")


if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.timeout(400)
def test_the_short_form_runs(tmp_path: Path) -> None:
    output = tmp_path / "spark.json"
    command = [*PYTHON, "-m", "silomq.bench.spark", "--short", "--runs", "1"]
    command += ["--folder", str(tmp_path), "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=390, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(output.read_text())["rows"]
    for words, count in ROWS.items():
        assert len([row for row in rows if words in row["name"]]) == count
    (share,) = (row for row in rows if "% of the log" in row["name"])
    assert share["met"], "bytes are counted, so this bar holds on any machine"
    assert all(row["median"] > 0 for row in rows)
    assert list(tmp_path.iterdir()) == [output], "its stores are gone"
