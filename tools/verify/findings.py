"""The results of checking a store, and the facts that its checks share."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from ...store.recovery.checkpoint import Checkpoint
    from ..raw.files import StoreFiles
    from ..raw.walk import Found

#: After this many findings of one file the rest are only counted: a lost file would hide all
#: others.
MOST_OF_A_FILE: Final = 100

PENDING: Final = "records that the next start will dispatch"
BEFORE_QUEUES: Final = "records older than all queue entries, which no consumer gets"
RECORDS: Final = "records"
ENTRIES: Final = "queue entries"
INDEXED: Final = "index entries"
BEHIND: Final = "entries behind the log's end, which the next start removes"
OTHER_DELAYS: Final = "delayed messages of levels that are not in message_delay_level"
TAIL_BYTES: Final = "bytes behind the last record that are no record"
HOLES_FOUND: Final = "declared holes"


class Finding(msgspec.Struct, frozen=True):
    """What is wrong, and where: a position in a file, or in the commit log an address."""

    path: str
    offset: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.offset}: {self.what}"


class IndexSpan(msgspec.Struct, frozen=True):
    """The entries of an index file with log addresses at or behind the log's first one: how many
    there are, and the least and the greatest of their addresses (-1 without any).
    """

    live: int
    least: int
    greatest: int


class LogPiece(msgspec.Struct, frozen=True):
    """What was found of a log file from `start` on, up to address `end`. `tail` is what lies behind
    its last record, and `crc` the CRC-32C of the piece, if the file has a seal.
    """

    base: int
    start: int
    end: int
    records: int = 0
    last_record: int = -1
    first_ms: int = 0
    last_ms: int = 0
    #: The address behind the last thing that was found, damage included; -1 if nothing was.
    used_end: int = -1
    #: Whether there was nothing but good records and an end-of-file record.
    plain: bool = True
    tail: Found | None = None
    crc: int = 0


class Result(msgspec.Struct):
    """The result of one job; `merge` adds results up."""

    findings: list[Finding] = []
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    #: Lowest log address in a queue entry.
    first_dispatched: int | None = None
    #: Which of the checkpoint's times are store times of records; oldest and newest store time.
    times_seen: set[int] = set()
    oldest_ms: int | None = None
    newest_ms: int | None = None
    unnamed: int = 0
    #: A survey found something that a full check must explain.
    odd: bool = False
    #: Entries of each queue file (topic, queue id, base) that must have a record; and how many
    #: were the right ones of records.
    live: Counter[tuple[str, int, int]] = msgspec.field(default_factory=Counter)
    matched: Counter[tuple[str, int, int]] = msgspec.field(default_factory=Counter)
    #: How many entries of each index file were the right ones of records.
    indexed: Counter[int] = msgspec.field(default_factory=Counter)
    spans: dict[int, IndexSpan] = {}
    pieces: list[LogPiece] = []

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
        self.live += other.live
        self.matched += other.matched
        self.indexed += other.indexed
        self.spans |= other.spans
        self.pieces += other.pieces
        self.times_seen |= other.times_seen
        self.first_dispatched = _least(self.first_dispatched, other.first_dispatched)
        self.oldest_ms = _least(self.oldest_ms, other.oldest_ms)
        if other.newest_ms is not None:
            self.newest_ms = max(other.newest_ms, self.newest_ms or 0)


def _least(a: int | None, b: int | None) -> int | None:
    known = [value for value in (a, b) if value is not None]
    return min(known, default=None)


class Facts(msgspec.Struct):
    """What every check needs. Records lie in the log addresses [first, end). The next start
    dispatches records from `redispatched` on again, so their entries may be missing.
    """

    files: StoreFiles
    checkpoint: Checkpoint
    first: int
    end: int
    redispatched: int
    queue_bases: dict[tuple[str, int], frozenset[int]]
    index_names: list[int]
    #: The last log file that holds records; None if there is none.
    last_base: int | None = None
    first_dispatched: int = 0
    #: By topic: records of that name below the address belong to a deleted topic.
    deleted_below: dict[str, int] = {}
    #: The entries of each index file, and the least address in them that leads to a record (-1
    #: without any).
    spans: dict[int, IndexSpan] = {}
    first_indexed: int = -1
    #: The log files that have a seal.
    sealed: frozenset[int] = frozenset()
    #: What each thread has for itself: see `windows_of`.
    own: threading.local = msgspec.field(default_factory=threading.local)
