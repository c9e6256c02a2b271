"""What a machine lacks to build SiloMQ is one sentence, before anything is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import check_machine
import pytest

SCRIPT = Path(check_machine.__file__)


def run(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_machine_that_has_all_is_silent() -> None:
    done = run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("environment", [{"CC": "no-such-compiler"}, {"PATH": "/nowhere"}])
def test_a_missing_compiler_is_named(environment: dict[str, str]) -> None:
    done = run(**environment)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "needs a C compiler" in done.stderr
    assert "apt install build-essential" in done.stderr


def test_missing_headers_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    said = check_machine.lacks()
    assert said is not None
    assert str(tmp_path / "Python.h") in said
    assert "apt install python3-dev" in said


def test_an_old_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.version_info", (3, 10, 4))
    said = check_machine.lacks()
    assert said is not None
    assert "3.11 or newer" in said
    assert "is 3.10" in said
