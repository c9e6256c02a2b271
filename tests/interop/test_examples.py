"""The examples in docs/examples run against `silo dev`, with RocketMQ's published clients."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from interop.rocketmq import BUILD

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What runs each example in its folder below BUILD, and what the run says at its end.
RUNS = {
    "go": (["./orders.test", "-test.v"], "--- PASS: TestPaidOrdersArrive"),
    # Everything was fetched by `make interop`.
    "java": (["mvn", "-B", "-o", "test"], "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0"),
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("language", RUNS)
def test_an_example_passes(tmp_path: Path, language: str) -> None:
    command, said = RUNS[language]
    # RocketMQ's client logs below the home folder.
    more = [f"-DargLine=-Duser.home={tmp_path}"] if language == "java" else []
    done = run(language, [*command, *more], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert said in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert list(tmp_path.glob("silomq-dev-*")) == []


def run(language: str, command: Sequence[str], temporary: Path) -> subprocess.CompletedProcess[str]:
    place = BUILD / "examples" / language
    if not (place / ".stamp").is_file():
        why = f"the example is not in {place}: `make interop` builds it (Go; JDK 17, Maven)"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=150, env={**os.environ, "PATH": path, "TMPDIR": str(temporary)},
    )  # fmt: skip
