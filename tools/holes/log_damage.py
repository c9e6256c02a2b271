"""Finds what a commit log has lost: bytes that are no record, files that are missing or too short.

The search reads the whole log and changes nothing. A record must be one that decodes. What remains
of the log are good records, the holes between them, and a torn end, which is no damage
(`store/commitlog/log_end.py`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec.structs import replace

from ...store.commitlog import _scan as kernel
from ...store.commitlog.log import CommitLog
from ...store.commitlog.log_end import ENDS
from ...store.disk import files as disk
from ...store.disk.files import Folder, is_folder
from ...store.disk.paths import COMMIT_LOG, OURS, StoreFolders, file_name
from ...store.record.fields import HEAD_BYTES, head_of, store_time_of
from ...store.recovery.log_files import (
    NOTHING_OF_THE_LOG,
    KnownLog,
    MissingRange,
    contiguous,
    missing_ranges,
)
from ...store.recovery.look import LastWriter, known_log

if TYPE_CHECKING:
    import os


class Gap(msgspec.Struct, frozen=True):
    """Log offsets [start, end) that hold no good record, all of the file at `base`. `newest` is the
    newest store time (epoch ms) of the records before.
    """

    base: int
    start: int
    end: int
    why: str
    newest: int


class LogDamage(msgspec.Struct, frozen=True):
    """The state of a log: its files' offsets, the ranges of good records, and what is lost.
    `missing` are the files that are missing or of a wrong length.
    """

    file_size: int
    bases: tuple[int, ...]
    good: tuple[tuple[int, int], ...]
    gaps: tuple[Gap, ...]
    missing: tuple[MissingRange, ...]


@contextlib.contextmanager
def open_log(path: str | os.PathLike[str], file_size: int) -> Iterator[CommitLog]:
    """The log of the store at `path`, for reading. The store may have no other folder of ours."""
    with Folder.open(f"{path}/{COMMIT_LOG}") as folder:
        yield CommitLog(cast("StoreFolders", SimpleNamespace(commit_log=folder)), file_size)


def known_log_of(path: str | os.PathLike[str], file_size: int) -> KnownLog:
    """What is known of the log of a stopped store; nothing if only RocketMQ has had it. Raises
    StoreError, OSError.
    """
    if not is_folder(f"{path}/{OURS}"):
        return NOTHING_OF_THE_LOG
    with Folder.open(path) as root, root.folder(OURS) as ours:
        return known_log(LastWriter.of(root, ours), ours, file_size)


def find_damage(log: CommitLog, known: KnownLog) -> LogDamage:
    """What the log lacks. Of a last file that is missing or too short, all up to its end counts as
    lost if it is not known where the log ended. Raises OSError.
    """
    begin, end = known.begin, known.end
    missing = missing_ranges(log, known)
    lacking = {one.base: one for one in missing}
    bases = contiguous(sorted({*log.bases(), *lacking}), log.file_size, begin)
    used = max((b for b in bases if b < end or b in lacking or log.holds_data(b)), default=-1)
    search = _Search(log)
    for base in bases:
        if base > used:
            break
        stop = log.file_size
        if base == used and (known.exact or base not in lacking):
            stop = max(0, min(end - base, log.file_size))
        search.look(base, stop, lacking[base].why if base in lacking else "")
    gaps = _timed(log, search.gaps, search.good)
    return LogDamage(log.file_size, bases, tuple(search.good), gaps, tuple(missing))


def _timed(log: CommitLog, gaps: list[Gap], good: list[tuple[int, int]]) -> tuple[Gap, ...]:
    """The gaps, those before the first good record with its store time, or without one with the
    present time.
    """
    time_ms = time.time_ns() // 1_000_000
    if good:
        base = log.base_of(good[0][0])
        with log.folders.commit_log.file(file_name(base)) as fd:
            time_ms = store_time_of(disk.read_at(fd, HEAD_BYTES, good[0][0] - base))
    return tuple(gap if gap.newest else replace(gap, newest=time_ms) for gap in gaps)


class _Search:
    """The good ranges and the gaps of a log, file by file."""

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.good: list[tuple[int, int]] = []
        self.gaps: list[Gap] = []
        self.newest = 0

    def look(self, base: int, stop: int, why_short: str) -> None:
        """Adds what is in the file at `base`, whose records must reach up to position `stop`.
        `why_short` says why the file has not its size, if so.
        """
        size = self.log.file_size
        with contextlib.ExitStack() as opened:
            view = view_of(self.log, base, opened)
            at = 0
            while True:
                position, records, stored, why = kernel.scan(
                    view, at, base, check_crc=True, refuse_torn=True, refuse_unreadable=True
                )
                self.newest = max(self.newest, stored)
                if records:
                    self.good.append((base + at, base + position))
                if why == kernel.END_OF_FILE or position >= size:
                    return
                found, _ = kernel.find_record(
                    view, position, base, self.newest, refuse_unreadable=True
                )
                if found < 0 and why == kernel.UNREADABLE:
                    # A start does not decode it, so it is no torn end: what follows may be good.
                    found = position + head_of(view, position).total_size
                behind = found if found >= 0 else stop
                if behind > position:
                    said = why_short if why_short and found < 0 else ENDS[why]
                    gap = Gap(base, base + position, base + behind, said, self.newest)
                    self.gaps.append(gap)
                if found < 0:
                    return
                at = found


def view_of(log: CommitLog, base: int, opened: contextlib.ExitStack) -> memoryview:
    """The bytes of a log file, as far as there are any; at most its regular size."""
    folder = log.folders.commit_log
    try:
        if not folder.about(file_name(base)).is_file:
            return memoryview(b"")
    except FileNotFoundError:
        return memoryview(b"")
    fd = opened.enter_context(folder.file(file_name(base)))
    size = min(disk.size_of(fd), log.file_size)
    if size == 0:
        return memoryview(b"")
    return memoryview(disk.map_file(fd, 0, size, writable=False))
