"""Processes of their own, as those of users are: consumers, and the other side of a hand-over."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ..actors.parent import die_with_parent

#: The most time that a child takes for one step (s).
WAIT_S = 180.0


@contextlib.contextmanager
def child(work: Callable[[int], None]) -> Iterator[int]:
    """Runs `work(descriptor to write to)` in a forked process. Yields the descriptor to read from.
    Kills the process at the end, and the kernel does if this process is killed before.
    """
    theirs, ours = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(theirs)
        status = 1
        try:
            die_with_parent(parent)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            work(ours)
            status = 0
        except BaseException:  # noqa: BLE001 - the parent's stack must not be unwound here
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(status)
    os.close(ours)
    try:
        yield theirs
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(theirs)


def hear(fd: int, what: str) -> bytes:
    """The next bytes from a child. Raises RuntimeError when the child died or sends nothing for
    long.
    """
    ready, _, _ = select.select([fd], [], [], WAIT_S)
    said = os.read(fd, 1 << 20) if ready else b""
    if not said:
        raise RuntimeError(f"a consumer's process did not come to the point: {what}")
    return said


def write(fd: int, data: bytes) -> None:
    """Writes all of `data`."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left[:4096]) :]


def cpu_ns(pids: Sequence[int]) -> int:
    """CPU time of all threads in ns. psutil's ticks of 10 ms are too coarse for idle processes."""
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
