"""The short form of `make bench-broker`: every figure is taken, of RocketMQ's broker and of ours;
no goal is held.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from interop.rocketmq import BUILD, require
from support.harness import PYTHON

from silomq.bench.broker.table import LINES

if TYPE_CHECKING:
    from pathlib import Path

#: Memory of a connection may be none when there are few, CPU time less than a tick of the clock.
MAY_BE_NONE = {"KiB", "us", "% of a core"}


@pytest.mark.timeout(400)
def test_the_short_form_runs(tmp_path: Path) -> None:
    require("bench")
    output = tmp_path / "bench.json"
    command = [*PYTHON, "-m", "silomq.bench.broker", "--short", "--runs", "1"]
    command += ["--home", str(BUILD), "--folder", str(tmp_path), "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stderr
    assert "failed" not in done.stdout, "all requests succeed"
    rows = json.loads(output.read_text())["rows"]
    assert [row["name"] for row in rows] == [line.name.strip() for line in LINES]
    for row, line in zip(rows, LINES, strict=True):
        assert len(row["samples"]) == 1
        assert len(row["limit_samples"]) == (not line.alone)
        assert row["median"] > 0 or line.unit in MAY_BE_NONE
        assert (row["met"] is None) == (line.goal is None)
        assert line.name.split()[0] in done.stdout  # a long name takes two lines
    assert list(tmp_path.iterdir()) == [output], "its stores are gone"
