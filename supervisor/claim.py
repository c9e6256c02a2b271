"""One supervisor a store: the lock that RocketMQ takes too, and the death of an earlier run's
actors.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal

import psutil

from ..shm.control import ACTORS
from ..store.disk import files as disk
from ..store.disk.paths import LOCK, StoreFolders
from ..store.errors import StoreError
from ..store.recovery.pool_recovery import old_control

_OLD_ACTORS_S = 10.0
# How far two clocks may differ about when a process began.
_SAME_BIRTH_MS = 3000


class AlreadyRunning(StoreError):
    """Another supervisor, or a RocketMQ broker, has the store."""


def take_lock(folders: StoreFolders) -> int:
    """Locks the first byte of `lock`, as RocketMQ does; the descriptor must stay open. Raises
    AlreadyRunning.
    """
    fd = folders.root.open_file(LOCK, write=True, create=True)
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, fd)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise AlreadyRunning(
                f"the store {folders.root.path} is in use by another process "
                f"(it holds {folders.root.path}/{LOCK}): stop that one, or give another --store"
            ) from error
        disk.write_at(fd, b"lock", 0)
        undo.pop_all()
    return fd


def await_old_actors(store_id: int) -> list[int]:
    """Waits for actors that a killed supervisor left dying; kills what still lives: their pids.
    Raises StoreError for one that does not die.
    """
    control = old_control(store_id)
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
    """Process numbers are used again: the time of birth tells."""
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
        if not select.select([pidfd], [], [], 1.0)[0]:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            if not select.select([pidfd], [], [], _OLD_ACTORS_S)[0]:
                raise StoreError(
                    f"process {pid} of an earlier run of this store does not die: look at it, "
                    "then start again"
                )
    finally:
        os.close(pidfd)
