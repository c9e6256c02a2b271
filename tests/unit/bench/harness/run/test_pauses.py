"""Pauses of the machine: words that a test writes, real threads, and steal that a test makes up."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from silomq.bench.harness.run import pauses
from silomq.bench.harness.run._pauses import longest, most_late, watch
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


def test_each_thread_tells_once_how_late_it_was() -> None:
    memory = bytearray(3 * LINE)
    for place, late in enumerate((5, 70, 6)):
        struct.pack_into("<Q", memory, LINE * place + 16, late)
    assert [most_late(memory), most_late(memory)] == [[5, 70, 6], [0, 0, 0]]


def test_a_thread_is_late_although_another_looks() -> None:
    memory, end = bytearray(2 * LINE), bytearray(1)
    struct.pack_into("<Q", memory, LINE, time.monotonic_ns() + 3600 * 1000 * MS)
    thread = threading.Thread(target=watch, args=(memory, 0, end))
    thread.start()
    time.sleep(0.05)
    end[0] = 1
    thread.join()
    late, other = most_late(memory)
    assert 0 < late < 1000 * MS
    assert other == 0


@pytest.mark.parametrize(
    ("late_ms", "stolen_ms", "paused_ms", "told_ms"),
    [
        pytest.param((40, 3), (0, 0), 0, 0, id="a_busy_kernel_is_no_pause"),
        pytest.param((40, 3), (30, 0), 0, 30, id="no_more_than_was_stolen"),
        pytest.param((3, 40), (90, 50), 2, 40, id="no_longer_than_a_thread_was_late"),
        pytest.param((40, 3), (0, 50), 1, 3, id="another_core"),
        pytest.param((40, 30), (0, 0), 30, 30, id="a_pause_of_all_is_one_of_each"),
    ],
)
def test_a_core_that_is_late_alone(
    monkeypatch: pytest.MonkeyPatch,
    late_ms: tuple[int, int], stolen_ms: tuple[int, int], paused_ms: int, told_ms: int,
) -> None:  # fmt: skip
    found = Pauses.__new__(Pauses)
    found._refused, found._memory = threading.Event(), bytearray()
    found._stolen_ns = [7000 * MS, 9000 * MS]
    now = [then + more * MS for then, more in zip(found._stolen_ns, stolen_ms, strict=True)]
    monkeypatch.setattr(found, "_read_stolen", lambda: now)
    monkeypatch.setattr(pauses, "most_late", lambda _: [late * MS for late in late_ms])
    monkeypatch.setattr(pauses, "longest", lambda _: paused_ms * MS)
    assert found.longest_us() == (paused_ms * 1000, told_ms * 1000)


def test_what_the_host_took_is_read_of_each_core() -> None:
    """The kernel tells it to psutil too, as seconds."""
    with contextlib.closing(Pauses()) as found:
        stolen = [ns / 1e9 for ns in found._read_stolen()]
    cores = sorted(os.sched_getaffinity(0))[:8]
    times = psutil.cpu_times(percpu=True)
    assert stolen == pytest.approx([times[core].steal for core in cores], abs=5)


@pytest.mark.parametrize(
    "told",
    [
        pytest.param("cpu  1 2 3 4 5 6 7 8 9 10\nintr 5\n", id="no_core"),
        pytest.param("cpu0 1 2 3 4\n\n", id="no_steal"),
    ],
)
def test_a_kernel_that_tells_nothing_of_a_core(monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    found = Pauses.__new__(Pauses)
    found._cores = [0]
    monkeypatch.setattr(Path, "read_text", lambda _: told)
    assert found._read_stolen() == [0]


def test_all_threads_end() -> None:
    before = threading.active_count()
    with contextlib.closing(Pauses()) as found:
        assert threading.active_count() == before + min(8, len(os.sched_getaffinity(0)))
        time.sleep(0.02)
        told = found.longest_us()
    assert threading.active_count() == before
    assert told is None or 0 <= told[0] <= told[1] < 1e6


def test_without_the_priority_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    before = threading.active_count()
    monkeypatch.setattr(os, "sched_setscheduler", refused)
    with contextlib.closing(Pauses()) as found:
        time.sleep(0.02)
        assert found.longest_us() is None
    assert threading.active_count() == before
