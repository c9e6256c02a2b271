"""`silo`, run as a user runs it, and the one line that it says when it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support import warm
from support.harness import PYTHON
from support.small_settings import SHIPPED_LIMITS, options

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

SILO = (*PYTHON, "-m", "silomq.cli.main")
#: What makes `silo serve` run a store with the settings SHIPPED_LIMITS.
SMALL_OPTIONS = tuple(options(SHIPPED_LIMITS))


def silo(
    *arguments: str, store: Path | None = None, stdin: bytes = b"", status: int | None = 0
) -> subprocess.CompletedProcess[bytes]:
    """Runs `silo` to its end and checks its exit status; a failure says one line on stderr."""
    where = () if store is None else ("--store", str(store))
    done = warm.run([*SILO, *arguments, *where], stdin=stdin, timeout_s=60)
    if status is not None:
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    assert b"Traceback" not in done.stderr
    return done


def sentence(done: subprocess.CompletedProcess[bytes]) -> str:
    """The one line that a failed command says; nothing went to stdout."""
    text = done.stderr.decode()
    assert text.startswith("silo: "), text
    assert text.endswith("\n"), text
    assert text.count("\n") == 1, text
    assert done.stdout == b""
    return text
