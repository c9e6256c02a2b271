"""The short form of `make bench`: every part runs and says what it measured; no bar is held."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support.harness import PYTHON

PARTS = {
    "throughput128": "send_batch of 256, 128 B",
    "throughput1024": "send_oneway, one call a message, 1024 B",
    "latency": "send, acknowledged, p99",
    "sync": "SYNC_FLUSH, 64 under way",
    "topics": "topics x 4 queues, dispatch",
    "read": "poll_arrow, 128 B",
    "consume": "send to listen, 10,000 msg/s, p99",
    "pops": "pops in batches of 32, 2 workers",
    "requests": "request and reply, p99",
    "delayed": "delayed message, late by, p99",
}


@pytest.mark.timeout(400)
def test_the_short_form_of_recovery_runs(tmp_path: Path) -> None:
    output = tmp_path / "recovery.json"
    command = [*PYTHON, "-m", "silomq.bench.recovery", "--short", "--folder", str(tmp_path)]
    command += ["--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(output.read_text())["rows"]
    names = [row["name"] for row in rows]
    for figure in ("scan, CRC on", "first start", "after kill -9", "clean stop, cold"):
        assert any(figure in name for name in names), names
    assert all(row["median"] > 0 for row in rows)
    assert list(tmp_path.iterdir()) == [output], "its stores are gone"


@pytest.mark.parametrize("part", PARTS)
def test_the_short_form_runs(part: str, tmp_path: Path) -> None:
    output = tmp_path / "bench.json"
    command = [*PYTHON, "-m", "silomq.bench.run", "--short", "--runs", "1", "--part", part]
    command += ["--folder", str(tmp_path), "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(output.read_text())["rows"]
    assert any(PARTS[part] in row["name"] for row in rows)
    for row in rows:
        assert len(row["samples"]) == 1
        assert row["median"] > 0
        assert row["limit_samples"], "a figure stands beside its limit"
    assert list(tmp_path.iterdir()) == [output], "its stores are gone"
