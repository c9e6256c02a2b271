"""Forked processes end with the process that forked them."""

from __future__ import annotations

import os
import time

import psutil
import pytest
from support.killed_parents import killed_parent

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
    with killed_parent(FORKS) as forked:
        assert forked.is_running()


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
