"""Forked processes end with the process that forked them."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from silomq.bench.children import child, hear, write

FORKS = """
import os, sys, time
from silomq.bench.children import child, hear, write

def work(fd):
    write(fd, str(os.getpid()).encode())
    time.sleep(600)

with child(work) as fd:
    print(hear(fd, "its pid").decode(), flush=True)
    sys.stdin.read()
"""


def test_a_child_ends_with_a_killed_parent() -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        forked = psutil.Process(int(parent.stdout.readline()))
        assert forked.is_running()
        parent.kill()
    psutil.wait_procs([forked], 20)
    assert not forked.is_running() or forked.status() == psutil.STATUS_ZOMBIE


def test_a_child_ends_with_its_block() -> None:
    def work(fd: int) -> None:
        write(fd, str(os.getpid()).encode())
        time.sleep(600)

    with child(work) as fd:
        pid = int(hear(fd, "its pid"))
    assert not psutil.pid_exists(pid)


def test_what_a_child_raises_stays_in_it(capfd: pytest.CaptureFixture[str]) -> None:
    def work(_: int) -> None:
        raise ValueError("of the child")

    with child(work) as fd, pytest.raises(RuntimeError, match="did not come"):
        hear(fd, "nothing")
    assert "ValueError: of the child" in capfd.readouterr().err
