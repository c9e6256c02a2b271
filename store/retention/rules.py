"""What may be deleted, and whether the disk takes more messages: decisions over plain values.

The rules are RocketMQ's (CleanCommitLogService, CleanConsumeQueueService, MappedFileQueue's
deleteExpiredFile*). The clean process brings the values and does what is decided
(`actors/clean.py`, `store/retention/removal.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

HOUR_MS = 3_600_000
#: Runs that one request to clean by hand is good for, as in RocketMQ.
MANUAL_RUNS = 20
#: A disk whose use cannot be read.
UNKNOWN = -1


class DiskFlag(enum.IntFlag):
    """Bits of `disk_flags`, with the values that RocketMQ's RunningFlags give them: the disk of the
    commit log, and that of the consume queues (LOGIC).
    """

    DISK_FULL = 16
    LOGIC_DISK_FULL = 64


@dataclass(frozen=True, slots=True)
class Ratios:
    """The limits of a disk's use, %: RocketMQ's diskMaxUsedSpaceRatio,
    diskSpaceCleanForciblyRatio and diskSpaceWarningLevelRatio.
    """

    max_used: int
    forcibly: int
    warning: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the disks' use means: the new flags, whether expired files must go at any hour, and
    whether the oldest go even if they have not expired.
    """

    flags: DiskFlag
    space_wanted: bool
    at_once: bool


@dataclass(frozen=True, slots=True)
class LogFileAge:
    """A commit-log file: its first offset, and when it was last written to, epoch ms."""

    base: int
    modified_ms: int


def used_percent(total: int, free: int, available: int) -> int:
    """A disk's use in whole %, rounded up; any unit. `available` is what an ordinary user may
    still take, `free` counts root's reserve as well.
    """
    used = total - free
    whole = used + available
    return -(-used * 100 // whole) if whole > 0 else UNKNOWN


def judge_disk(log_used: int, queue_used: int, flags: DiskFlag, ratios: Ratios) -> Verdict:
    """`log_used` and `queue_used` are % of the disks of commit log and consume queues, or UNKNOWN.

    A disk's flag is set above the warning ratio, cleared at the forcible one or below it, and in
    between stays as it is. (RocketMQ has one flag for both disks, which the log's disk clears when
    it is well, and so forgets a full queue disk at its next run.)
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
    """Commit-log files that end at or below this offset may go.

    The file with the log's last byte stays, so that the log's end is never forgotten. So does
    whatever a start-up after a power cut must read again: all behind `durable`, up to which queues
    and index are safe on the disk.
    """
    last = max(0, wrote - 1)
    return min(last - last % file_size, durable)


def expired(
    files: Iterable[LogFileAge],
    *,
    file_size: int,
    removable: int,
    now_ms: int,
    reserved_ms: int,
    at_once: bool,
    most: int,
) -> list[int]:
    """The files, oldest first, that are due to go: up to `most` of them, and none behind one that
    must stay. `files` ascend and are looked at only as far as needed.
    """
    due: list[int] = []
    for file in files:
        if len(due) >= most or file.base + file_size > removable:
            break
        if not at_once and now_ms < file.modified_ms + reserved_ms:
            break
        due.append(file.base)
    return due


def released(
    due: Sequence[int],
    leases: Iterable[int],
    *,
    file_size: int,
    waiting: Mapping[int, int],
    now_ms: int,
    patience_ms: int,
) -> tuple[list[int], dict[int, int]]:
    """Which of the `due` files readers do not hold, up to the first that they do; and the others,
    each with the time (any clock's ms) since when it is due.

    A lease is a commit-log offset and holds the file that it lies in. `waiting` is what the last
    call returned. A file that has been due for `patience_ms` goes, whoever holds it.
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
    """Whether a consume-queue file may go: it is full, its last entry's record lies below the log's
    `min_offset`, and the file behind it begins with an entry that is safe on the disk.

    `last_offset` is the record that its last entry points to, `next_first_offset` that of the next
    file's first entry, None where there is none: a queue must never forget how far it has come.
    """
    return (
        next_first_offset is not None and next_first_offset < durable and last_offset < min_offset
    )


def index_files_to_go(
    files: Iterable[tuple[int, int]], *, min_offset: int, in_use: int
) -> Iterator[int]:
    """Names of the index files, oldest first, whose last record lies below the log's `min_offset`.

    `files` ascend: (name, end_phy_offset). The file `in_use`, where a start-up may go on, and those
    behind it stay.
    """
    for name, end_offset in files:
        if name >= in_use or end_offset >= min_offset:
            return
        yield name
