"""Recovers the bytes that a killed store left in its pool.

The pool's buffers and the control block outlive every process. A start first writes to the log the
bytes that append had put into the pool and commit had not written; then it looks at the log.
(RocketMQ's pool is memory of its one process, and is lost with it.) `look_in_pool` changes no file,
and refuses settings that do not fit the pool.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import posix_ipc

from ...shm import segments
from ...shm._memory import Mapping
from ...shm.control import SIZE, Control, LayoutError
from ...shm.pool import Pool, count
from ..commitlog.log import CommitLog
from ..disk import files as disk
from ..disk.paths import StoreFolders, file_name
from ..errors import StoreError

_STEP = 4 << 20


@dataclass(frozen=True, slots=True)
class PoolRest:
    """The bytes [committed, wrote) of the commit log, which only `pool` holds."""

    committed: int
    wrote: int
    pool: Pool

    @property
    def size(self) -> int:
        return self.wrote - self.committed


def look_in_pool(store_id: int, file_size: int) -> PoolRest | None:
    """The bytes of the log that only the pool of a dead store holds, or None. Raises StoreError if
    the settings do not fit the pool.
    """
    control = old_control(store_id)
    buffers = count(store_id)
    if control is None or not buffers:
        return None
    rest = PoolRest(
        control.load("committed"), control.load("wrote"), Pool(store_id, buffers, file_size)
    )
    if rest.size <= 0:
        return None
    try:
        for base in range(rest.committed - rest.committed % file_size, rest.wrote, file_size):
            rest.pool.buffer(base)
    except OSError as error:
        raise StoreError(
            f"the pool of the killed store holds {rest.size} bytes that are not in the "
            f"commit log yet, but {error}: start once with the settings it ran with"
        ) from error
    return rest


def put_into_log(rest: PoolRest, folders: StoreFolders) -> None:
    """Writes the bytes into the commit log, durably. Raises OSError (ENOSPC). The pool does not
    change, so the next start can try again.
    """
    log = CommitLog(folders, rest.pool.size)
    position = rest.committed
    while position < rest.wrote:
        base = log.base_of(position)
        stop = min(rest.wrote, base + log.file_size, position + _STEP)
        view = memoryview(rest.pool.buffer(base))[position - base : stop - base]
        with folders.commit_log.file(file_name(base), write=True) as fd:
            disk.write_at(fd, view, position - base)
            disk.sync_data(fd)
        position = stop


def old_control(store_id: int) -> Control | None:
    """The control block of a dead store, read-only; None if there is none or it is not valid."""
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
