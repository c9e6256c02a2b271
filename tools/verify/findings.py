"""What checking a store brings to light, and the facts that its checks share."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ...store.recovery.checkpoint import Checkpoint
    from ..raw.files import StoreFiles

#: Of one file more are only counted: a lost file would else drown the rest.
MOST_OF_A_FILE: Final = 100

PENDING: Final = "records that the next start will dispatch"
BEFORE_QUEUES: Final = "records older than everything in the queues: nobody is served them"
RECORDS: Final = "records"
ENTRIES: Final = "queue entries"
INDEXED: Final = "index entries"
BEHIND: Final = "entries behind the log's end, which the next start removes"
TAIL_BYTES: Final = "bytes behind the last record that are no record"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong where: a position in a file; of the commit log, an address in the log."""

    path: str
    offset: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.offset}: {self.what}"


@dataclass
class Result:
    """What one job found; results add up."""

    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    #: Lowest log address in a queue entry.
    first_dispatched: int | None = None
    #: Log addresses in an index file's entries, each once, in their order.
    indexed: array[int] = field(default_factory=lambda: array("q"))
    #: Those of the files so far.
    indexed_parts: list[array[int]] = field(default_factory=list)
    #: Which of the checkpoint's times are store times of records, and the oldest and newest.
    times_seen: set[int] = field(default_factory=set)
    oldest_ms: int | None = None
    newest_ms: int | None = None
    unnamed: int = 0

    def add(self, path: str, offset: int, what: str) -> None:
        """Notes a finding of this job's file."""
        if len(self.findings) < MOST_OF_A_FILE:
            self.findings.append(Finding(path, offset, what))
        else:
            self.unnamed += 1

    def merge(self, other: Result) -> None:
        """Takes over what another job found."""
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
        """The addresses of all parts, ascending. They ascend already, unless the index is bad."""
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
    """What every check may look at. Addresses are of the log: records lie in [first, end); from
    `redispatched` on the next start dispatches anew, so entries may be missing there.
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
    #: Sorted.
    indexed: array[int] = field(default_factory=lambda: array("q"))
