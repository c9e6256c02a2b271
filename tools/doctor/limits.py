"""The limits of a store's processes: open files, locked memory, sizes of files, processes."""

from __future__ import annotations

import contextlib
import resource
from typing import TYPE_CHECKING, Final

import psutil

from ...actors.descriptors import HOW_TO_RAISE, Descriptors
from ...shm.control import ACTORS
from ...store.commitlog.ahead import LEAST_WINDOW
from .findings import ok, problem, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...conf.settings import Settings
    from .findings import Finding

_UNLIMITED: Final = resource.RLIM_INFINITY
#: The bit of CAP_IPC_LOCK: with it the limit of locked memory does not count.
_CAP_IPC_LOCK: Final = 14
_MAPS: Final = "/proc/sys/vm/max_map_count"
#: The kernel's default. Readers of many queues map many files.
_MAPS_AT_LEAST: Final = 65_530


def check(settings: Settings, pid: int) -> Iterator[Finding]:
    """The limits of the process `pid`, or those that a store would inherit from this process if
    `pid` is 0.
    """
    whose = f"of the running store (pid {pid})" if pid else "that a store started here gets"
    try:
        process = psutil.Process(pid or None)
        found = {name: process.rlimit(number)[1] for name, number in _LIMITS.items()}
    except psutil.Error:
        advice = "run silo doctor as the store's user or root"
        yield warning("limits", f"those of pid {pid} cannot be read", advice)
        return
    yield _open_files(settings, found["nofile"], whose)
    yield _locked_memory(settings, found["memlock"], whose, pid)
    yield _file_size(settings, found["fsize"])
    yield _processes(found["nproc"])
    yield _maps()


_LIMITS: Final = {
    "nofile": resource.RLIMIT_NOFILE,
    "memlock": resource.RLIMIT_MEMLOCK,
    "fsize": resource.RLIMIT_FSIZE,
    "nproc": resource.RLIMIT_NPROC,
}


def _shown(limit: int) -> str:
    return "unlimited" if limit == _UNLIMITED else f"{limit:,}"


def _open_files(settings: Settings, hard: int, whose: str) -> Finding:
    found = Descriptors(hard if hard != _UNLIMITED else 1 << 30)
    wanted = settings.max_sessions
    what = f"hard limit {_shown(hard)} {whose}"
    if not found.enough:
        return problem("open files", f"{what}, at least {found.least} are needed", HOW_TO_RAISE)
    if found.carries < wanted:
        short = f"{what}: {found.carries:,} producers, and max_sessions is {wanted:,}"
        return warning("open files", short, HOW_TO_RAISE)
    return ok("open files", f"{what}, enough for max_sessions = {wanted:,}")


def _locked_memory(settings: Settings, hard: int, whose: str, pid: int) -> Finding:
    pool = settings.transient_store_pool_enable
    if pool:
        wanted = settings.transient_store_pool_size * settings.mapped_file_size_commit_log
    elif settings.lock_mapped_file_enable:
        wanted = LEAST_WINDOW
    else:
        return ok("locked memory", "lock_mapped_file_enable is off")
    what = f"limit {_shown(hard)} bytes {whose}"
    if hard == _UNLIMITED or hard >= wanted:
        return ok("locked memory", f"{what}, enough for {wanted:,}")
    if _may_lock(pid):
        return ok("locked memory", f"{what}, which does not bind it (CAP_IPC_LOCK)")
    return warning(
        "locked memory",
        f"{what}, {wanted:,} are to be locked: when memory is short, appends wait for the disk",
        "raise it (LimitMEMLOCK in the unit, ulimit -l), or set lock_mapped_file_enable = false",
    )


def _may_lock(pid: int) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{pid or 'self'}/status", "rb") as file:
        for line in file:
            if line.startswith(b"CapEff:"):
                return bool(int(line.split()[1], 16) >> _CAP_IPC_LOCK & 1)
    return False


def _file_size(settings: Settings, hard: int) -> Finding:
    index = 40 + 4 * settings.max_hash_slot_num + 20 * settings.max_index_num
    wanted = max(settings.mapped_file_size_commit_log, index)
    if hard != _UNLIMITED and hard < wanted:
        what = f"limit {hard:,} bytes, the store's files have up to {wanted:,}"
        return problem("size of files", what, "raise it (LimitFSIZE in the unit, ulimit -f)")
    return ok("size of files", f"limit {_shown(hard)}")


def _processes(hard: int) -> Finding:
    wanted = len(ACTORS) + 2
    if hard != _UNLIMITED and hard < 2 * wanted:
        what = f"limit {hard:,} processes of this user, a store has {wanted}"
        return warning(
            "processes", what, "raise it (LimitNPROC or TasksMax in the unit, ulimit -u)"
        )
    return ok("processes", f"limit {_shown(hard)}, a store has {wanted}")


def _maps() -> Finding:
    try:
        with open(_MAPS, "rb") as file:
            found = int(file.read())
    except OSError:
        return warning(
            "mapped files", f"{_MAPS} cannot be read", "look at it outside the container"
        )
    if found < _MAPS_AT_LEAST:
        what = f"vm.max_map_count is {found:,}: readers of many queues run out of mappings"
        return warning("mapped files", what, f"sysctl vm.max_map_count={_MAPS_AT_LEAST}")
    return ok("mapped files", f"vm.max_map_count is {found:,}")
