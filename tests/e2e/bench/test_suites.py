"""`silo bench suite`: interleaved runs that are kept, and go on where they were."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.harness import PYTHON

from silomq.bench.harness.results.file import load

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(240)
SUITE = """
runs = 2

[[parts]]
name = "a"
workload = "smoke"
targets = ["silomq", "sqlite"]
set = ["duration=1", "warm_up=0", "store.file_size=4MiB", "producers.rate=500"]

[[bars]]
title = "rate"
part = "a"
figure = "publish_rate"
beside = ["sqlite"]
at_least = 0.5
"""


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*PYTHON, "-m", "silomq.cli.main", "bench", "suite", "suite.toml"]
    command += ["--results", "results", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=200, check=False, cwd=folder
    )


def begun(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The runs that were begun, in their order, as in "silomq 1"."""
    return [f"{name} {n}" for name, n in re.findall(r", (\w+): run (\d)", done.stderr)]


def test_runs_are_interleaved_kept_and_continued(tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(SUITE)
    done = call(tmp_path, "--stop-after", "0s")
    assert (done.returncode, begun(done)) == (1, []), done.stderr
    assert "4 runs are left: the same command goes on" in done.stderr
    assert "not measured" in done.stdout

    done = call(tmp_path, "--runs", "1")
    assert (done.returncode, begun(done)) == (0, ["silomq 1", "sqlite 1"]), done.stderr

    # What somebody takes away is measured again, in its round.
    (tmp_path / "results" / "a.sqlite.json").unlink()
    done = call(tmp_path)
    assert (done.returncode, begun(done)) == (0, ["sqlite 1", "silomq 2", "sqlite 2"]), done.stderr
    for target in ("silomq", "sqlite"):
        found = load(tmp_path / "results" / f"a.{target}.json")
        assert [run.number for run in found.runs] == [1, 2]
        assert found.workload["runs"] == 2
        assert not found.interrupted
        assert {len(limit.samples) for limit in found.limits} == {4}

    done = call(tmp_path)
    assert (done.returncode, begun(done)) == (0, [])
    assert re.search(r"rate .*sqlite .*≥ 0.5× .*met", done.stdout)
    assert begun(call(tmp_path, "--show")) == []

    changed = SUITE.replace("rate=500", "rate=600")
    (tmp_path / "suite.toml").write_text(changed)
    done = call(tmp_path)
    assert done.returncode == 2, done.stderr
    assert "a.silomq.json: was measured with another workload (producers.rate)" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_target_that_is_missing_or_fails_stops_no_other(tmp_path: Path) -> None:
    text = SUITE.replace('["silomq", "sqlite"]', '["redis", "silomq", "sqlite"]')
    text += "\n"
    text = text.replace("set =", "also.silomq = ['store.settings.no_such=1']\nset =")
    (tmp_path / "suite.toml").write_text(text)
    done = call(tmp_path, "--runs", "1")  # here is no build/peers
    assert done.returncode == 1
    assert "not measured: a: target redis: Redis is not installed here" in done.stderr
    assert "not measured: a, silomq, run 1: the store has ended with status" in done.stderr
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["a.sqlite.json"]
