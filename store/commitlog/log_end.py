"""Where the commit log ends, and what is done with what lies behind.

A bad end of the log is either torn or damaged. Torn is what a power cut leaves: nothing behind it
was durable, so it is cut off; a copy is kept in `recovery/`. Damaged is everything else: good
records behind the bad bytes that had been durable, or that no power cut can explain because the
machine has not been started since. The store does not cut those: it refuses to start and says what
is where. (RocketMQ cuts at the first bad byte in either case.)
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass

from ..disk import files as disk
from ..disk.files import Folder
from ..disk.paths import RECOVERY, file_name
from ..errors import Corrupt
from . import _scan as kernel
from .log import CommitLog

ENDS = {
    kernel.NOTHING: "no record follows",
    kernel.BAD_LENGTHS: "a record whose lengths do not add up",
    kernel.BAD_CRC: "a record whose body fails its CRC",
    kernel.BAD_OFFSET: "a record that names another offset",
    kernel.FULL: "the file is full",
    kernel.TORN: "a record with zeros for parts of its topic or properties",
    kernel.END_OF_FILE: "the file is closed",
}
_COPY = 16 << 20


@dataclass(frozen=True, slots=True)
class LogEnd:
    """What a scan found: offsets in bytes, `newest` an epoch time in ms, `why` a key of ENDS."""

    end: int
    records: int
    newest: int
    why: int


@dataclass(frozen=True, slots=True)
class TornBytes:
    """Bytes behind the log's end within one file: `size` bytes from commit-log `offset` on."""

    offset: int
    size: int


def find_end(log: CommitLog, start: int, *, check_crc: bool) -> LogEnd:
    """Scans from offset `start`, a record's or a file's first, as far as records follow."""
    records = newest = 0
    end, why = start, kernel.NOTHING
    bases = set(log.bases())
    while log.base_of(end) in bases:
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
    """The next good record behind the end, not older than what lies before: (offset, store
    timestamp). None: there is none.

    What RocketMQ cut off it did not erase: older records may lie behind its end.
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
    """Raises Corrupt if good records behind the end show that it is damage and not a torn tail.

    `durable_until` is the store timestamp (epoch ms) up to which records were durable; `power_cut`
    says that the machine may have lost what was written later.
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
        f"{offset} from a copy, or cut there with: silo repair --truncate-at {found.end}",
    )


def torn_behind(log: CommitLog, end: int) -> tuple[TornBytes, ...]:
    """What lies behind `end` and is not zero, file by file."""
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
    """Makes the torn bytes zeros, after keeping them in a new folder below `recovery/`: the paths
    of the kept files below the store's folder.

    Later files stay, ready for use. Raises OSError; what had not been kept by then was not cut.
    """
    kept: list[str] = []
    into = ""
    for part in torn:
        base = log.base_of(part.offset)
        start, stop = part.offset - base, part.offset - base + part.size
        mapping = log.open(base, writable=True).mapping
        view = memoryview(mapping)
        into = into or _new_folder(log.folders.root)
        kept.append(_keep(log.folders.root, into, part.offset, view[start:stop]))
        for at in range(start, stop, _COPY):
            view[at : min(at + _COPY, stop)] = bytes(min(at + _COPY, stop) - at)
        view.release()
        disk.sync_range(mapping, start, part.size)
    return kept


def _new_folder(root: Folder) -> str:
    """The name of a folder below `recovery/` that is not there yet: two starts may fall into one
    second.
    """
    stamp = time.strftime("%Y%m%d%H%M%S")
    with root.folder(RECOVERY, create=True) as recovery:
        names = set(recovery.names())
    tries = itertools.chain([stamp], (f"{stamp}-{number}" for number in itertools.count(2)))
    return next(name for name in tries if name not in names)


def _keep(root: Folder, into: str, offset: int, data: memoryview) -> str:
    """Copies what lay at commit-log offset `offset` to `recovery/<into>`, durably: the path below
    the store's folder.
    """
    name = f"commitlog-{file_name(offset)}"
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
