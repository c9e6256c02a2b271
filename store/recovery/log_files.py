"""Which files the commit log must have: a start refuses a log that lacks a file, or part of one.

What must be there follows from the durable begin of the log (`log_begin.py`), and from how far it
was durable: the progress record says so, without it the seals. The files follow each other without
a gap. These differences are legal:

- files below the durable begin, and gaps among them: a clean that was killed left them;
- an empty last file behind the durable end, which a crash of RocketMQ leaves;
- files of nothing but zeros that lie behind a gap behind the durable end, after a clean stop: it
  removed the files that were made ahead, and a power cut brought some of them back. The start
  removes them. A store that did not stop has no gap, because each new file is durable before the
  next one is made.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ..commitlog.log import CommitLog
from ..disk.paths import file_name
from ..errors import Corrupt

#: How many missing ranges a refusal names.
_NAMED: Final = 5


class MissingRange(msgspec.Struct, frozen=True):
    """Log offsets [start, end) that the file at `base` should hold and does not. For a file that is
    too long the range is empty.
    """

    base: int
    start: int
    end: int
    why: str


class KnownLog(msgspec.Struct, frozen=True):
    """The log offsets [begin, end) that are known to have been durable; a begin of -1 is unknown.
    `stopped` says that files may lie apart behind the end: the store was stopped in order, or
    RocketMQ has had it. `exact` says that the log ended at `end`.
    """

    begin: int
    end: int
    stopped: bool
    exact: bool


#: Of a log that RocketMQ has had.
NOTHING_OF_THE_LOG: Final = KnownLog(-1, 0, stopped=True, exact=False)


def missing_ranges(log: CommitLog, known: KnownLog) -> list[MissingRange]:
    """What the log lacks of what is known of it, ascending. Raises OSError."""
    size, sizes = log.file_size, log.sizes()
    begin, end = known.begin, known.end
    last = max(sizes, default=-1)
    if last >= end and sizes[last] == 0:
        del sizes[last]
    found = [
        MissingRange(base, base, base, f"the name is no multiple of the file size {size}")
        for base in sizes
        if base % size
    ]
    bases = [base for base in sizes if base % size == 0]
    if end <= max(begin, 0) and not bases:
        return found
    first = log.base_of(begin) if begin >= 0 else min(bases, default=0)
    if begin >= 0 and first in sizes:
        while first - size in sizes:  # left by a killed clean
            first -= size
    for base in range(first, _stop(log, sizes, first, known), size):
        has = sizes.get(base)
        if has is None:
            found.append(MissingRange(base, base, base + size, "the file is missing"))
        elif has < 0:
            found.append(MissingRange(base, base, base + size, "this is no regular file"))
        elif has < size:
            why = f"the file has {has} of {size} bytes"
            found.append(MissingRange(base, base + has, base + size, why))
        elif has > size:
            why = f"the file has {has} bytes, {has - size} more than it must have"
            found.append(MissingRange(base, base + size, base + size, why))
    return sorted(found, key=lambda missing: missing.base)


def _stop(log: CommitLog, sizes: dict[int, int], first: int, known: KnownLog) -> int:
    """The offset behind the last file that must be there: the durable end is in it, or it follows
    on another, or it cannot have been left apart from the others.
    """
    size, end = log.file_size, known.end
    stop = max(first, log.base_of(end - 1) + size if end else first)
    while stop in sizes:
        stop += size
    for base in sorted(sizes):
        apart = known.stopped and _is_blank(log, base, sizes[base])
        if base >= stop and base % size == 0 and not apart:
            stop = base + size
    return stop


def _is_blank(log: CommitLog, base: int, size: int) -> bool:
    """Whether what has the name of a log file holds nothing but zeros."""
    return size >= 0 and not log.holds_data(base)


def refuse_missing(log: CommitLog, missing: list[MissingRange]) -> None:
    """Raises Corrupt if anything is missing; the text names each range."""
    if not missing:
        return
    folder = log.folders.commit_log.path
    parts = []
    for one in missing[:_NAMED]:
        lost = f": offsets {one.start} to {one.end} are lost" if one.end > one.start else ""
        name = "" if one is missing[0] else f"{file_name(one.base)}: "
        parts.append(f"{name}{one.why}{lost}")
    if len(missing) > _NAMED:
        parts.append(f"and {len(missing) - _NAMED} more")
    first = missing[0]
    raise Corrupt(
        f"{folder}/{file_name(first.base)}",
        first.start,
        f"{'; '.join(parts)}. Restore the file from a copy, or go on without what is lost: silo "
        "repair --holes. If no file of the log has the size in the settings, set "
        "mapped_file_size_commit_log to the size the store was made with",
    )


def contiguous(bases: list[int], size: int, begin: int) -> tuple[int, ...]:
    """The files of the log without those that lie apart: in front of a gap below `begin`, left by a
    killed clean, or behind a gap, made ahead and never used.
    """
    if not bases:
        return ()
    at = begin - begin % size if begin >= 0 else bases[0]
    if at not in bases:
        at = bases[0]
    first = at
    while first - size in bases:
        first -= size
    stop = at
    while stop in bases:
        stop += size
    return tuple(base for base in bases if first <= base < stop)
