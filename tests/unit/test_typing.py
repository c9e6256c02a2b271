"""The installed package is typed (`py.typed`, stubs): mypy sees the types that users count on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CALLS = Path(__file__).with_name("typed_calls.py")


def test_a_user_s_calls_have_types(tmp_path: Path) -> None:
    """From a folder of the user's own, where only the installed package can be found."""
    calls = tmp_path / CALLS.name
    calls.write_bytes(CALLS.read_bytes())
    mypy = [sys.executable, "-P", "-m", "mypy", "--strict", "--config-file=", "--cache-dir=cache"]
    run = subprocess.run(
        [*mypy, calls.name], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
