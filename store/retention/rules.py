"""The rules of retention: which files may be removed, and whether a disk can take more messages.

They are pure functions over plain values. The rules are RocketMQ's (CleanCommitLogService,
CleanConsumeQueueService, MappedFileQueue's deleteExpiredFile*). The clean process reads the values
and acts on the results (`actors/clean.py`, `store/retention/removal.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

HOUR_MS = 3_600_000
#: How many runs one `silo clean` allows, as in RocketMQ.
MANUAL_RUNS = 20
#: The use of a disk that cannot be read.
UNKNOWN = -1


class DiskFlag(enum.IntFlag):
    """Bits of `disk_flags`, with the values that RocketMQ's RunningFlags give them: the disk of the
    commit log, and that of the consume queues (LOGIC).
    """

    DISK_FULL = 16
    LOGIC_DISK_FULL = 64


class Ratios(msgspec.Struct, frozen=True):
    """The limits of a disk's use, %: RocketMQ's diskMaxUsedSpaceRatio,
    diskSpaceCleanForciblyRatio and diskSpaceWarningLevelRatio.
    """

    max_used: int
    forcibly: int
    warning: int


class Verdict(msgspec.Struct, frozen=True):
    """The consequences of the disks' use: the new flags, whether expired files are removed at any
    hour, and whether the oldest are removed even if they have not expired.
    """

    flags: DiskFlag
    space_wanted: bool
    at_once: bool


class LogFileAge(msgspec.Struct, frozen=True):
    """A commit-log file: its first offset, and the time of the last write to it, epoch ms."""

    base: int
    modified_ms: int


def used_percent(total: int, free: int, available: int) -> int:
    """A disk's use in whole %, rounded up. The arguments have any common unit. `available` is the
    space that an ordinary user may take; `free` includes root's reserve.
    """
    used = total - free
    whole = used + available
    return -(-used * 100 // whole) if whole > 0 else UNKNOWN


def judge_disk(log_used: int, queue_used: int, flags: DiskFlag, ratios: Ratios) -> Verdict:
    """Decides by the use of the commit log's and the consume queues' disks: %, or UNKNOWN.

    A disk's flag is set above the warning ratio, cleared at or below the forcible one, and does not
    change in between. (RocketMQ has one flag for both disks. When the log's disk has space, the
    flag is cleared, even if the queues' disk is full.)
    """
    used = {DiskFlag.DISK_FULL: log_used, DiskFlag.LOGIC_DISK_FULL: queue_used}
    for flag, percent in used.items():
        if percent > ratios.warning:
            flags |= flag
        elif percent <= ratios.forcibly:
            flags &= ~flag
    worst = max(used.values())
    wanted = UNKNOWN in used.values() or worst > ratios.max_used
    return Verdict(flags, space_wanted=wanted, at_once=worst > ratios.forcibly)


def is_hour_to_delete(delete_when: str, hour: int) -> bool:
    """Whether local `hour` (0..23) is among the hours of the setting delete_when ("04;16")."""
    return f"{hour:02d}" in delete_when.split(";")


def removable_below(wrote: int, durable: int, file_size: int) -> int:
    """The log offset at or below which a commit-log file must end to be removable.

    The file with the log's last byte stays, so that the log's end is never lost. So do files that
    a start after a power cut must read: those behind `durable`, up to which queues and index are
    durable.
    """
    last = max(0, wrote - 1)
    return min(last - last % file_size, durable)


def released(
    due: Sequence[int],
    leases: Iterable[int],
    *,
    file_size: int,
    waiting: Mapping[int, int],
    now_ms: int,
    patience_ms: int,
) -> tuple[list[int], dict[int, int]]:
    """Splits the `due` files at the first one that a reader holds: (files before it, the others
    with the time since when each is due, ms of any clock).

    A lease is a log offset and holds the file in which it lies. `waiting` is the second result of
    the last call. A lease cannot hold a file that has been due for `patience_ms`.
    """
    held = {offset - offset % file_size for offset in leases}
    since = {base: waiting.get(base, now_ms) for base in due}
    for i, base in enumerate(due):
        if base in held and now_ms - since[base] < patience_ms:
            return list(due[:i]), {left: since[left] for left in due[i:]}
    return list(due), {}


def queue_file_may_go(
    last_offset: int, next_first_offset: int | None, min_offset: int, durable: int
) -> bool:
    """Whether a consume-queue file may be removed: it is full, its last entry's record lies below
    the log's `min_offset`, and the next file begins with a durable entry.

    `last_offset` is the log offset in its last entry, `next_first_offset` that in the next file's
    first entry. If that is None the file stays, because the end of a queue must never be lost.
    """
    return (
        next_first_offset is not None and next_first_offset < durable and last_offset < min_offset
    )


def index_files_to_go(
    files: Iterable[tuple[int, int]], *, min_offset: int, in_use: int
) -> Iterator[int]:
    """The names of the index files, oldest first, whose last record lies below the log's
    `min_offset`.

    `files` are (name, end_phy_offset) and must ascend. The file `in_use`, in which a start may
    continue, and newer ones stay.
    """
    for name, end_offset in files:
        if name >= in_use or end_offset >= min_offset:
            return
        yield name
