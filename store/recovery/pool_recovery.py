"""What a store that was killed as a whole left in its pool.

The pool's buffers and the control block outlive every process. What append had written and commit
had not is put into the commit log before anything else happens; start-up then finds it there.
(RocketMQ's pool is memory of its one process, and is lost with it.)
"""

from __future__ import annotations

import os

import posix_ipc

from ...shm import pool, segments
from ...shm._memory import Mapping
from ...shm.control import SIZE, Control, LayoutError
from ..commitlog.log import CommitLog
from ..disk import files as disk
from ..disk.paths import StoreFolders, file_name
from ..errors import StoreError

_STEP = 4 << 20


def salvage(folders: StoreFolders, file_size: int, store_id: int) -> int:
    """Commits what is left in the pool of a dead store: how many bytes.

    Raises StoreError when the settings do not fit the pool, OSError (ENOSPC) when the commit log
    takes no more; the pool stays as it is then, for the next start.
    """
    buffers = pool.count(store_id)
    if not buffers:
        return 0
    control = _old_control(store_id)
    if control is None:
        return 0
    position, end = control.load("committed"), control.load("wrote")
    start = position
    log = CommitLog(folders, file_size)
    memory = pool.Pool(store_id, buffers, file_size)
    while position < end:
        base = log.base_of(position)
        stop = min(end, base + file_size, position + _STEP)
        try:
            view = memoryview(memory.buffer(base))[position - base : stop - base]
        except OSError as error:
            raise StoreError(
                f"the pool of the killed store holds {end - position} bytes that are not in the "
                f"commit log yet, but {error}: start once with the settings it ran with"
            ) from error
        with folders.commit_log.file(file_name(base), write=True) as fd:
            disk.write_at(fd, view, position - base)
            disk.sync_data(fd)
        position = stop
    return end - start


def _old_control(store_id: int) -> Control | None:
    """The control block that a dead store left, if it is whole."""
    try:
        fd = segments.open_segment(store_id, "control")
    except posix_ipc.ExistentialError:
        return None
    try:
        control = Control(Mapping(fd, 0, SIZE, writable=False))
        control.check()
    except (LayoutError, OSError, ValueError):
        return None
    finally:
        os.close(fd)
    return control
