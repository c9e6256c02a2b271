"""The short form of `make bench-spark`: every figure is measured; no bar is held."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from e2e.running import PYTHON

if TYPE_CHECKING:
    from pathlib import Path

BARS = {"all columns": 2, "narrow read": 4, "groupBy": 2, "% of the log": 2, "AvailableNow": 1}


@pytest.mark.timeout(170)
def test_the_short_form_runs(tmp_path: Path) -> None:
    output = tmp_path / "spark.json"
    command = [*PYTHON, "-m", "silomq.bench.spark", "--short", "--runs", "1"]
    command += ["--folder", str(tmp_path), "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=160, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(output.read_text())["rows"]
    for words, count in {**BARS, "idle trigger": 1}.items():
        assert len([row for row in rows if words in row["name"]]) == count
    assert all(row["median"] > 0 for row in rows)
    (share, other) = (row for row in rows if "% of the log" in row["name"])
    # Bytes are counted, so this bar holds on any machine.
    assert (share["met"], other["met"]) == (True, True)
    assert list(tmp_path.iterdir()) == [output], "its stores are gone"
