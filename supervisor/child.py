"""One running process of a store, as the supervisor sees it, and its fork."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

import msgspec

from ..actors.signals import HANDLED

#: A process in uninterruptible sleep waits for the disk and cannot beat: it gets this many times
# `heartbeat_timeout_ms`.
DISK_PATIENCE = 20
# So does a process that sets itself up. It beats in its loops, but one call may take seconds: with
# a million topics, reading topics.json does.
_SETUP_PATIENCE = 10


class Child(msgspec.Struct):
    """One running actor. `pidfd` is readable when it ends, `ready_fd` when it is ready; `ready_fd`
    is -1 once it was read. `started` is when it was forked, or became ready, in monotonic seconds.
    """

    name: str
    pid: int
    pidfd: int
    ready_fd: int
    started: float
    ready: bool = False
    #: How it ended: its exit status, or the number of a signal below zero.
    ended: int | None = None


def fork(name: str, become: Callable[[str, int], None]) -> Child:
    """Forks the actor `name`. In the child it calls `become(name, ready_fd)`, which never returns.

    Raises OSError for want of descriptors, memory or processes, and then leaves nothing behind.
    """
    with contextlib.ExitStack() as undo:
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        undo.callback(os.close, read_fd)
        # The child inherits the supervisor's signal handlers. Signals stay blocked in it until
        # `live` has set its own.
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            pid = os.fork()
            if pid == 0:
                become(name, write_fd)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
            os.close(write_fd)
        undo.callback(_take_back, pid)
        pidfd = os.pidfd_open(pid)
        undo.pop_all()
    return Child(name, pid, pidfd, read_fd, time.monotonic())


def _take_back(pid: int) -> None:
    """Ends a child that cannot be watched. It still waits at its gate, and has done nothing."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def patience_with(child: Child) -> int:
    """How many times `heartbeat_timeout_ms` an actor may go without a heartbeat."""
    if waits_for_disk(child.pid):
        return DISK_PATIENCE
    return 1 if child.ready else _SETUP_PATIENCE


def waits_for_disk(pid: int) -> bool:
    """Whether the process is in uninterruptible sleep (state D of /proc/PID/stat)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[0] == b"D"
    except OSError:
        return False
