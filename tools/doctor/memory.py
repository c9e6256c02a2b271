"""Shared memory: what kind of file system /dev/shm is, and whether a store fits."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import psutil

from ...shm import control, segments
from ...shm.history import SEGMENT_SIZE
from ...store.topics.table_layout import Plan
from .findings import ok, problem, warning
from .mounts import mount_of
from .stores import bytes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...conf.settings import Settings
    from .findings import Finding
    from .stores import Machine, StoreHere

#: Sessions of the store's own actors, and room for semaphores.
_OWN_SESSIONS: Final = 2
_SEMAPHORES: Final = 65_536
_SHM: Final = str(segments.SHM)
_REMOUNT: Final = "mount -o remount,size=2G /dev/shm (docker: --shm-size)"


def needed(settings: Settings) -> int:
    """The bytes that a store with these settings takes in /dev/shm."""
    sessions = settings.max_sessions + _OWN_SESSIONS
    table = Plan(settings.max_topics, settings.max_queues, sessions).size
    return control.SIZE + table + SEGMENT_SIZE + _pool(settings) + _SEMAPHORES


def _pool(settings: Settings) -> int:
    if not settings.transient_store_pool_enable:
        return 0
    return settings.transient_store_pool_size * settings.mapped_file_size_commit_log


def check(settings: Settings, machine: Machine, mine: StoreHere) -> Iterator[Finding]:
    """The file system of shared memory, and the machine's memory."""
    mount = mount_of(segments.SHM)
    if mount.kind != "tmpfs":
        yield problem(_SHM, f"it is no tmpfs but {mount.kind}", "mount a tmpfs there")
        return
    if "ro" in mount.options or not os.access(segments.SHM, os.W_OK | os.X_OK):
        advice = "mount it rw with mode 1777"
        yield problem(_SHM, "this user may not write to it", advice)
        return
    space = os.statvfs(segments.SHM)
    size, free = space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize
    what = f"{size:,} bytes, {free:,} free"
    wanted = needed(settings)
    if mine.runs:
        yield ok(_SHM, f"{what}; the running store has what it needs")
    elif free + _left(machine, mine) < wanted:
        yield problem(_SHM, f"{what}, the store needs {wanted:,}", _REMOUNT)
    else:
        yield ok(_SHM, f"{what}, the store needs {wanted:,}")
    pool, available = _pool(settings), psutil.virtual_memory().available
    if pool and not mine.runs and pool > available:
        yield problem(
            "memory",
            f"{available:,} bytes are available, the pool needs {pool:,}",
            "lower transient_store_pool_size, or switch transient_store_pool_enable off",
        )
    elif pool:
        yield ok("memory", f"{available:,} bytes are available, the pool has {pool:,}")
    elif available < 2 * settings.ring_size + wanted and not mine.runs:
        advice = "free memory, or lower ring_size and max_queues"
        yield warning("memory", f"only {available:,} bytes are available", advice)


def _left(machine: Machine, mine: StoreHere) -> int:
    """What the next start of a killed store frees."""
    return bytes_of(machine.objects.get(mine.identity, [])) if mine.identity is not None else 0
