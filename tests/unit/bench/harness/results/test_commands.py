"""`report` and `compare` at the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.bench_results import result, rich_result, run, sweep_result, write

from silomq.bench.harness.results.commands import compare, report

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


def test_a_report_lies_beside_its_result(runner: CliRunner, tmp_path: Path) -> None:
    path = write(rich_result(), tmp_path / "a.json")
    done = runner.invoke(report, [str(path)])
    assert (done.exit_code, done.stdout) == (0, "")
    assert f"written to {tmp_path / 'a.html'}" in done.stderr
    assert (tmp_path / "a.html").read_bytes().startswith(b"<!doctype html>")


def test_other_forms_are_written_instead(runner: CliRunner, tmp_path: Path) -> None:
    path = write(sweep_result(), tmp_path / "a.json")
    arguments = [str(path), "--hgrm", str(tmp_path / "h"), "--omb", str(tmp_path / "o.json")]
    assert runner.invoke(report, arguments).exit_code == 0
    assert len([*(tmp_path / "h").iterdir()]) == 4 * 2 * 2
    content = json.loads((tmp_path / "o-size-16.json").read_bytes())
    assert content["workload"] == "example"
    assert not (tmp_path / "a.html").exists()
    done = runner.invoke(report, [str(path), "--style", "rocketmq"])
    assert done.stdout.count("[Complete] Send Total: ") == 12
    assert not (tmp_path / "a.html").exists()


def test_a_comparison_is_a_table_and_a_page(runner: CliRunner, tmp_path: Path) -> None:
    one = write(rich_result(), tmp_path / "a.json")
    other = write(result([run(n, 5e4 + n) for n in range(5)], name="x"), tmp_path / "b.json")
    page = tmp_path / "c.html"
    done = runner.invoke(compare, [str(one), str(other), "-o", str(page)])
    assert done.exit_code == 0
    assert "0.472×" in done.stdout
    assert "another workload: x, not example" in done.stderr
    assert page.read_bytes().startswith(b"<!doctype html>")


def test_bad_files_are_one_sentence(runner: CliRunner, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    for command, arguments in ((report, [str(bad)]), (compare, [str(bad), str(bad)])):
        done = runner.invoke(command, arguments)
        assert done.exit_code == 1
        assert "bad.json: no JSON, 1 bytes: Input data was truncated" in done.stderr
    assert runner.invoke(compare, [str(bad)]).exit_code == 2
