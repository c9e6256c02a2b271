"""Processes that must end when the process that started them is killed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

import psutil

#: The most time that such a process may live on (s).
_WAIT_S = 20.0


@contextlib.contextmanager
def killed_parent(script: str) -> Iterator[psutil.Process]:
    """Runs a Python script that starts a process, prints its pid and waits for input. Yields that
    process. At the end of the block the script is killed; asserts that its process ends too.
    """
    with subprocess.Popen(
        [sys.executable, "-P", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        try:
            assert parent.stdout is not None
            started = psutil.Process(int(parent.stdout.readline()))
            yield started
        finally:
            parent.kill()
    psutil.wait_procs([started], _WAIT_S)
    assert not started.is_running() or started.status() == psutil.STATUS_ZOMBIE
