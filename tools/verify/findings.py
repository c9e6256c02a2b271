"""The results of checking a store, and the facts that its checks share."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ...store.recovery.checkpoint import Checkpoint
    from ..raw.files import StoreFiles

#: After this many findings of one file the rest are only counted: a lost file would hide all
#: others.
MOST_OF_A_FILE: Final = 100

PENDING: Final = "records that the next start will dispatch"
BEFORE_QUEUES: Final = "records older than all queue entries, which no consumer gets"
RECORDS: Final = "records"
ENTRIES: Final = "queue entries"
INDEXED: Final = "index entries"
BEHIND: Final = "entries behind the log's end, which the next start removes"
TAIL_BYTES: Final = "bytes behind the last record that are no record"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, and where: a position in a file, or in the commit log an address."""

    path: str
    offset: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.offset}: {self.what}"


@dataclass
class Result:
    """The result of one job; `merge` adds results up."""

    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    #: Lowest log address in a queue entry.
    first_dispatched: int | None = None
    #: Log addresses in an index file's entries, each once, in their order.
    indexed: array[int] = field(default_factory=lambda: array("q"))
    #: The `indexed` of each file merged so far.
    indexed_parts: list[array[int]] = field(default_factory=list)
    #: Which of the checkpoint's times are store times of records; oldest and newest store time.
    times_seen: set[int] = field(default_factory=set)
    oldest_ms: int | None = None
    newest_ms: int | None = None
    unnamed: int = 0

    def add(self, path: str, offset: int, what: str) -> None:
        """Adds a finding of this job's file."""
        if len(self.findings) < MOST_OF_A_FILE:
            self.findings.append(Finding(path, offset, what))
        else:
            self.unnamed += 1

    def merge(self, other: Result) -> None:
        """Adds the result of another job."""
        self.findings += other.findings
        if other.unnamed:
            last = other.findings[-1]
            self.findings.append(Finding(last.path, last.offset, f"and {other.unnamed} more"))
        self.counts += other.counts
        if other.indexed:
            self.indexed_parts.append(other.indexed)
        self.times_seen |= other.times_seen
        self.first_dispatched = _least(self.first_dispatched, other.first_dispatched)
        self.oldest_ms = _least(self.oldest_ms, other.oldest_ms)
        if other.newest_ms is not None:
            self.newest_ms = max(other.newest_ms, self.newest_ms or 0)

    def all_indexed(self) -> array[int]:
        """The addresses of all parts, ascending. Sorting is only needed if the index is bad."""
        whole = array("q")
        for part in sorted(self.indexed_parts):
            whole.extend(part)
        ascending = all(a <= b for a, b in pairwise(whole))
        return whole if ascending else array("q", sorted(whole))


def _least(a: int | None, b: int | None) -> int | None:
    known = [value for value in (a, b) if value is not None]
    return min(known, default=None)


@dataclass
class Facts:
    """What every check needs. Records lie in the log addresses [first, end). The next start
    dispatches records from `redispatched` on again, so their entries may be missing.
    """

    files: StoreFiles
    checkpoint: Checkpoint
    first: int
    end: int
    redispatched: int
    #: The last log file that holds records.
    last_base: int | None
    queue_bases: dict[tuple[str, int], frozenset[int]]
    index_names: list[int]
    first_dispatched: int = 0
    #: By topic: records of that name below the address belong to a deleted topic.
    deleted_below: dict[str, int] = field(default_factory=dict)
    #: The log addresses that the index has, ascending.
    indexed: array[int] = field(default_factory=lambda: array("q"))
