"""Finds the end of the commit log, and handles the bytes behind it.

A bad end of the log is either torn or damaged. A power cut leaves a torn end: nothing behind it was
durable, so it is cut off, and a copy is kept in `recovery/`. Everything else is damage: good
records behind the bad bytes that had been durable, or that no power cut can explain because the
machine was not booted since. The store does not cut these. It refuses to start, and reports the
offsets of the bad bytes and of the good records. (RocketMQ cuts at the first bad byte in either
case.)
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable

import msgspec

from ..disk import files as disk
from ..disk.files import Folder
from ..disk.paths import RECOVERY, file_name
from ..disk.replacing import own_file
from ..errors import Corrupt
from ..pulse import Pulse, unheard
from . import _scan as kernel
from .log import CommitLog

ENDS = {
    kernel.NOTHING: "no record follows",
    kernel.BAD_LENGTHS: "a record whose lengths do not add up",
    kernel.BAD_CRC: "a record whose body fails its CRC",
    kernel.BAD_OFFSET: "a record that names another offset",
    kernel.FULL: "the file is full",
    kernel.TORN: "a record with zeros for parts of its topic or properties",
    kernel.UNREADABLE: "a record that cannot be decoded, or fails the checksum of all of it",
    kernel.END_OF_FILE: "the file is closed",
}
_COPY = 16 << 20


class LogEnd(msgspec.Struct, frozen=True):
    """The result of a scan: `end` is a log offset, `newest` the newest store timestamp in epoch ms,
    `why` a key of ENDS.
    """

    end: int
    records: int
    newest: int
    why: int


class TornBytes(msgspec.Struct, frozen=True):
    """Bytes behind the log's end within one file: `size` bytes from log offset `offset` on."""

    offset: int
    size: int


def find_end(log: CommitLog, start: int, *, check_crc: bool, pulse: Pulse = unheard) -> LogEnd:
    """Scans from log offset `start`, where a record or a file begins, up to the first bad record or
    the end of the files.
    """
    records = newest = 0
    end, why = start, kernel.NOTHING
    bases = set(log.bases())
    files_in_all = sum(base + log.file_size > start for base in bases)
    files = 0
    while log.base_of(end) in bases:
        pulse("scanning the commit log (files)", files, files_in_all)
        files += 1
        base = log.base_of(end)
        view = memoryview(log.open(base).mapping)
        position, count, stored, why = kernel.scan(
            view, end - base, base, check_crc, refuse_torn=True
        )
        records += count
        newest = max(newest, stored)
        end = base + position
        if why not in (kernel.END_OF_FILE, kernel.FULL):
            break
    return LogEnd(end, records, newest, why)


def good_behind(log: CommitLog, found: LogEnd) -> tuple[int, int] | None:
    """The next good record behind the end that is not older than the newest before it: (log offset,
    store timestamp). None if there is none.

    Older records do not count: RocketMQ does not erase the records that it cuts off.
    """
    for base in log.bases():
        if base + log.file_size <= found.end:
            continue
        first, last = log.data_span(base, max(0, found.end - base))
        view = memoryview(log.open(base).mapping)[:last]
        at, stored = (
            kernel.find_record(view, first, base, found.newest) if first < last else (-1, 0)
        )
        if at >= 0:
            return base + at, stored
    return None


def refuse_damage(log: CommitLog, found: LogEnd, durable_until: int, *, power_cut: bool) -> None:
    """Raises Corrupt if good records behind the end show that it is damaged, not torn.

    `durable_until` is the store timestamp (epoch ms) up to which records were durable. `power_cut`
    says that the machine may have lost records that were written later.
    """
    behind = good_behind(log, found)
    if behind is None:
        return
    offset, stored = behind
    if power_cut and stored > durable_until:
        return
    path = f"{log.folders.commit_log.path}/{file_name(log.base_of(found.end))}"
    raise Corrupt(
        path,
        found.end,
        f"{ENDS[found.why]}, but good records go on at offset {offset}: this is damage, not the "
        f"torn end of the log, and the store does not cut good data. Restore {found.end} to "
        f"{offset} from a copy, or go on without that range: silo repair --holes, or cut there "
        f"with: silo repair --truncate-at {found.end}",
    )


def refuse_older_copy(log: CommitLog, found: LogEnd, reached: int) -> None:
    """Raises Corrupt if the log ends before the offset `reached`, at which it was: then a file of
    it is an older copy.
    """
    if found.end >= reached:
        return
    raise Corrupt(
        f"{log.folders.commit_log.path}/{file_name(log.base_of(found.end))}",
        found.end,
        f"the records end here, and when the store was killed they went on to offset {reached}: "
        "the file has changed since. Restore it, or go on without these records: silo repair "
        f"--truncate-at {found.end}",
    )


def torn_behind(log: CommitLog, end: int) -> tuple[TornBytes, ...]:
    """For each file, the bytes behind log offset `end` up to the last one that is not zero."""
    found = []
    for base in log.bases():
        if base + log.file_size <= end:
            continue
        start, last = log.data_span(base, max(0, end - base))
        if start == last:
            continue
        view = memoryview(log.open(base).mapping)
        stop = kernel.used_end(view[:last], start)
        if stop > start:
            found.append(TornBytes(base + start, stop - start))
    return tuple(found)


def cut(log: CommitLog, torn: Iterable[TornBytes]) -> list[str]:
    """Overwrites the torn bytes with zeros, after it has copied them to a new folder below
    `recovery/`. Returns the paths of the copies, relative to the store's folder.

    The files stay, for the log to use. Raises OSError; then no bytes without a copy were cut.
    """
    kept: list[str] = []
    into = ""
    for part in torn:
        base = log.base_of(part.offset)
        start, stop = part.offset - base, part.offset - base + part.size
        own_file(log.folders.commit_log, file_name(base))
        mapping = log.open(base, writable=True).mapping
        view = memoryview(mapping)
        into = into or new_folder(log.folders.root)
        name = f"commitlog-{file_name(part.offset)}"
        kept.append(keep_copy(log.folders.root, into, name, view[start:stop]))
        for at in range(start, stop, _COPY):
            view[at : min(at + _COPY, stop)] = bytes(min(at + _COPY, stop) - at)
        view.release()
        disk.sync_range(mapping, start, part.size)
    return kept


def new_folder(root: Folder) -> str:
    """A new name for a folder below `recovery/`, made of the time. Two starts in the same second
    get different names.
    """
    stamp = time.strftime("%Y%m%d%H%M%S")
    with root.folder(RECOVERY, create=True) as recovery:
        names = set(recovery.names())
    tries = itertools.chain([stamp], (f"{stamp}-{number}" for number in itertools.count(2)))
    return next(name for name in tries if name not in names)


def keep_copy(root: Folder, into: str, name: str, data: memoryview) -> str:
    """Copies bytes of the log to the file `name` in `recovery/<into>`, durably. Returns the copy's
    path, relative to the store's folder.
    """
    with root.folder(RECOVERY, create=True) as recovery:
        with recovery.folder(into, create=True) as folder:
            with folder.file(name, write=True, create=True) as fd:
                for at in range(0, len(data), _COPY):
                    disk.write_at(fd, bytes(data[at : at + _COPY]), at)
                disk.sync_data(fd)
            folder.sync()
        recovery.sync()
    root.sync()
    return f"{RECOVERY}/{into}/{name}"
