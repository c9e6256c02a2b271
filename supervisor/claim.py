"""Ensures that a store has one supervisor: takes RocketMQ's lock file, and waits for the actors of
a killed supervisor to end.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal

from ..shm import segments
from ..shm.control import ACTORS
from ..store.disk import files as disk
from ..store.disk.files import Folder
from ..store.disk.paths import LOCK
from ..store.errors import StoreError
from ..store.recovery.pool_recovery import old_control

_OLD_ACTORS_S = 10.0
# The control block notes when an actor was started, psutil computes it: both may be that far apart.
_SAME_BIRTH_MS = 3000


class AlreadyRunning(StoreError):
    """Another supervisor, or a RocketMQ broker, holds the store's lock."""


def take_lock(root: Folder) -> int:
    """Locks the first byte of the file `lock` in a store's folder, as RocketMQ does. Returns the
    descriptor, which must stay open. Raises AlreadyRunning, OSError.
    """
    fd = root.open_file(LOCK, write=True, create=True)
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, fd)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise AlreadyRunning(
                f"the store {root.path} is in use by another process "
                f"(it holds {root.path}/{LOCK}): stop that one, or give another --store"
            ) from error
        disk.write_at(fd, b"lock", 0)
        undo.pop_all()
    return fd


def await_old_actors(store_id: int, owner: int) -> list[int]:
    """Waits for the actors of a killed supervisor to end, and kills them after a second. Returns
    their process ids. First removes what a stranger has put in the place of the store's memory;
    `owner` is the user who owns its folder. Raises StoreError for an actor that does not die within
    10 s, OSError.
    """
    segments.remove_strangers(store_id, owner)
    control = old_control(store_id, owner)
    if control is None:
        return []
    waited = []
    for actor in range(len(ACTORS)):
        pid, _, started_ms, _ = control.process(actor)
        if pid and _is_same_process(pid, started_ms):
            waited.append(pid)
            _await_death(pid)
    return waited


def _is_same_process(pid: int, started_ms: int) -> bool:
    """Whether the process `pid` is still the one that began at `started_ms` (epoch ms). The kernel
    uses process ids again.
    """
    import psutil  # a start that follows a clean stop does not need it

    try:
        born_s: float = psutil.Process(pid).create_time()
        return abs(born_s * 1000 - started_ms) < _SAME_BIRTH_MS
    except psutil.Error:
        return False


def _await_death(pid: int) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        end = select.poll()
        end.register(pidfd, select.POLLIN)
        if not end.poll(1000):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            if not end.poll(_OLD_ACTORS_S * 1000):
                raise StoreError(
                    f"process {pid} of an earlier run of this store does not die: look at it, "
                    "then start again"
                )
    finally:
        os.close(pidfd)
