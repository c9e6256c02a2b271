"""Servers end when the process that started them is killed."""

from __future__ import annotations

import os
import subprocess
import time

from support.killed_parents import killed_parent

from silomq.bench.leash import leashed

STARTS = """
import subprocess, sys
from silomq.bench.leash import leashed
child = subprocess.Popen(leashed(["sleep", "600"]), start_new_session=True)
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_a_server_ends_with_a_killed_parent() -> None:
    with killed_parent(STARTS) as server:
        deadline = time.monotonic() + 20
        while server.name() != "sleep":  # the leash is on when it has become the server
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_server_whose_parent_is_dead_already_does_not_start() -> None:
    *program, _parent, slack, word = leashed(["true"])
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert subprocess.run([*program, str(gone.pid), slack, word], check=False).returncode == 127


def test_a_program_that_is_missing_is_named() -> None:
    done = subprocess.run(
        leashed(["/no/such/program"]), capture_output=True, text=True, check=False
    )
    assert done.returncode == 127
    assert done.stderr == "/no/such/program: No such file or directory\n"


def test_slack_is_set_and_one_leash_is_enough() -> None:
    once = leashed(["cat", "/proc/self/timerslack_ns"], slack_ns=1000)
    assert leashed(once) == once
    assert once[-4:-2] == [str(os.getpid()), "1000"]
    assert subprocess.run(once, capture_output=True, check=True).stdout == b"1000\n"
