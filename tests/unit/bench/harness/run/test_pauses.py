"""Pauses of the machine: words that a test writes, and real threads."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import threading
import time

import pytest

from silomq.bench.harness.run._pauses import longest, watch
from silomq.bench.harness.run.pauses import Pauses

LINE = 64
MS = 1_000_000


def after_a_look(looked: int) -> int:
    """The longest pause, ns, that a thread finds that has just begun, if another thread has looked
    at the clock at the time `looked`, and does not look again.
    """
    memory, end = bytearray(2 * LINE), bytearray(1)
    struct.pack_into("<Q", memory, LINE, looked)
    thread = threading.Thread(target=watch, args=(memory, 0, end))
    thread.start()
    time.sleep(0.05)
    end[0] = 1
    thread.join()
    return longest(memory)


def test_no_pause_while_another_core_looks() -> None:
    """It looks an hour from now, so no look of this one is late."""
    assert after_a_look(time.monotonic_ns() + 3600 * 1000 * MS) == 0


def test_a_thread_that_has_ended_hides_no_pause() -> None:
    """Each look of this one is a little late: a sleep is never shorter than it should be."""
    assert 0 < after_a_look(1) < 1000 * MS


_TWO_THREADS = """
import sys, threading
from silomq.bench.harness.run._pauses import longest, watch
memory, end = bytearray(128), bytearray(1)
for place in range(2):
    threading.Thread(target=watch, args=(memory, place, end)).start()
while not all(memory[64 * place : 64 * place + 8] != bytes(8) for place in range(2)):
    pass
print("watching", flush=True)
sys.stdin.readline()
print(longest(memory))
end[0] = 1
"""


def test_a_time_in_which_all_threads_stand_still_is_told() -> None:
    """A stopped process is to its threads what a paused machine is."""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", _TWO_THREADS],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "watching\n"
        child.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        child.send_signal(signal.SIGCONT)
        time.sleep(0.1)
        child.stdin.write("\n")
        child.stdin.flush()
        assert int(child.stdout.readline()) > 250 * MS


def test_the_longest_is_told_once() -> None:
    memory = bytearray(3 * LINE)
    for place, pause in enumerate((5, 70, 6)):
        struct.pack_into("<Q", memory, LINE * place + 8, pause)
    assert [longest(memory), longest(memory)] == [70, 0]


def test_all_threads_end() -> None:
    before = threading.active_count()
    with contextlib.closing(Pauses()) as found:
        assert threading.active_count() == before + min(8, len(os.sched_getaffinity(0)))
        time.sleep(0.02)
        pause = found.longest_us()
    assert threading.active_count() == before
    assert pause is None or 0 <= pause < 1e6


def test_without_the_priority_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    before = threading.active_count()
    monkeypatch.setattr(os, "sched_setscheduler", refused)
    with contextlib.closing(Pauses()) as found:
        time.sleep(0.02)
        assert found.longest_us() is None
    assert threading.active_count() == before
