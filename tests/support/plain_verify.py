"""`silo verify` in plain Python: a twin for the compiled check.

It decodes every record, and looks up the queue entry and the index entries of each. Only the checks
of checkpoint, JSON, seals and missing files are the product's.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, cast

from support.plain_verify_parts import check_index_file, check_queue

from silomq.store.consumequeue.queue import BLANK_ENTRY, ENTRY, ENTRY_SIZE
from silomq.store.record.format import TRANSACTION_ROLLBACK, Record
from silomq.store.record.properties import index_keys
from silomq.tools.raw.files import StoreFiles
from silomq.tools.raw.walk import Kind, holds_records, walk_file
from silomq.tools.rocketmq.logs import LogView
from silomq.tools.rocketmq.view import entry_code, is_other_delay, is_queued
from silomq.tools.verify.findings import (
    BEFORE_QUEUES,
    MOST_OF_A_FILE,
    OTHER_DELAYS,
    PENDING,
    RECORDS,
    TAIL_BYTES,
    Finding,
)
from silomq.tools.verify.verify import Report, check_log_files, check_rest, read_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from silomq.conf.settings import Settings
    from silomq.store.recovery.checkpoint import Checkpoint
    from silomq.tools.verify.findings import Result

_NOTHING = bytes(ENTRY_SIZE)


@dataclass
class PlainResult:
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

    def merge(self, other: PlainResult) -> None:
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
class PlainFacts:
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


def check_log_file(facts: PlainFacts, base: int) -> PlainResult:
    """Checks the file at log address `base`."""
    result = PlainResult()
    path = facts.files.log_path(base)
    if base % facts.files.log_size:
        result.add(path, base, f"the name is no multiple of the file size {facts.files.log_size}")
    wanted = {
        facts.checkpoint.physic_msg_timestamp,
        facts.checkpoint.logics_msg_timestamp,
        facts.checkpoint.index_msg_timestamp,
    }
    holds = facts.last_base is not None and base <= facts.last_base
    for found in walk_file(facts.files, base) if holds else ():
        if found.kind is Kind.RECORD and found.record is not None:
            _note_time(result, found.record.store_timestamp, wanted)
            if found.why:
                result.add(path, found.offset, found.why)
            else:
                _check_record(facts, result, found.record)
        elif found.kind is Kind.DAMAGE or (found.kind is Kind.TAIL and base != facts.last_base):
            why = found.why or "zeros where a record or the end of the file should be"
            result.add(path, found.offset, f"{why} ({found.size} bytes)")
        elif found.kind is Kind.TAIL and found.why:
            # A torn end, or bytes that RocketMQ's recovery cut off without clearing them.
            result.counts[TAIL_BYTES] += found.size
    return result


def _note_time(result: PlainResult, stored_ms: int, wanted: set[int]) -> None:
    result.counts[RECORDS] += 1
    if stored_ms in wanted:
        result.times_seen.add(stored_ms)
    if result.oldest_ms is None or result.newest_ms is None:
        result.oldest_ms = result.newest_ms = stored_ms
    result.oldest_ms = min(result.oldest_ms, stored_ms)
    result.newest_ms = max(result.newest_ms, stored_ms)


def _check_record(facts: PlainFacts, result: PlainResult, record: Record) -> None:
    """Checks that queue and index have the entries of this record."""
    offset = record.physical_offset
    if offset >= facts.end:
        return
    pending = offset >= facts.redispatched
    missing = False
    if is_queued(record) and offset >= facts.deleted_below.get(record.topic, 0):
        missing = _check_entry(facts, result, record, pending=pending)
    if (
        facts.files.settings.message_index_enable
        and record.transaction_type != TRANSACTION_ROLLBACK
        and facts.indexed
        and offset >= facts.indexed[0]
        and index_keys(record.properties)
    ):
        at = bisect_left(facts.indexed, offset)
        if at == len(facts.indexed) or facts.indexed[at] != offset:
            if pending:
                missing = True
            else:
                path = facts.files.log_path(offset - offset % facts.files.log_size)
                result.add(path, offset, "the index does not know the keys of this record")
    if missing:
        result.counts[PENDING] += 1


def _check_entry(facts: PlainFacts, result: PlainResult, record: Record, *, pending: bool) -> bool:
    """Checks a record's queue entry. Returns whether it is missing and the next start will write
    it.
    """
    offset = record.physical_offset
    queue = (record.topic, record.queue_id)
    position = record.queue_offset * ENTRY_SIZE
    base = position - position % facts.files.queue_size
    code = entry_code(record, facts.files.settings.message_delay_level)
    wanted = ENTRY.pack(offset, record.total_size, code)
    path = facts.files.queue_path(*queue, base)
    stands = _NOTHING
    if base in facts.queue_bases.get(queue, ()):
        stands = bytes(facts.files.view(path)[position - base : position - base + ENTRY_SIZE])
    if stands == wanted:
        return False
    has_offset, has_size, has_code = ENTRY.unpack(stands)
    if (has_offset, has_size) == (offset, record.total_size) and is_other_delay(record, has_code):
        result.counts[OTHER_DELAYS] += 1
        return False
    if stands in {_NOTHING, BLANK_ENTRY}:
        if pending:
            return True
        if offset < facts.first_dispatched:
            result.counts[BEFORE_QUEUES] += 1
            return False
    log_path = facts.files.log_path(offset - offset % facts.files.log_size)
    name = f"{record.topic}/{record.queue_id} entry {record.queue_offset}"
    if stands in {_NOTHING, BLANK_ENTRY}:
        result.add(log_path, offset, f"the record has no queue entry (it should be {name})")
    else:
        has = ", ".join(map(str, ENTRY.unpack(stands)))
        should = ", ".join(map(str, ENTRY.unpack(wanted)))
        result.add(
            path,
            position - base,
            f"{name} holds ({has}), its record at {offset} wants ({should})",
        )
    return False


def verify(path: Path, settings: Settings) -> Report:
    """Checks the store at `path`."""
    files = StoreFiles(path, settings)
    report = Report()
    checkpoint = read_checkpoint(files, report)
    facts = gather(files, checkpoint, report)
    found = PlainResult()
    for name in facts.index_names:
        found.merge(check_index_file(facts, PlainResult(), name))
    for queue in facts.queue_bases:
        found.merge(check_queue(facts, PlainResult(), *queue))
    facts.first_dispatched = found.first_dispatched or 0
    if found.first_dispatched is None:
        facts.first_dispatched = facts.end if not facts.queue_bases else 0
    facts.indexed = found.all_indexed()
    for file in files.log:
        found.merge(check_log_file(facts, file.base))
    report.findings += found.findings
    report.counts = found.counts
    check_rest(files, checkpoint, cast("Result", found), report, {})
    return report


def gather(files: StoreFiles, checkpoint: Checkpoint, report: Report) -> PlainFacts:
    """Gathers the facts that all checks share; findings on the way go into the report."""
    log = LogView(files)
    start = log.recover(checkpoint, clean=files.clean)
    bases = log.bases
    last = next((base for base in reversed(bases) if holds_records(files, base)), None)
    report.findings += check_log_files(files)
    # Damage does not end the log: records behind it are checked too.
    end = log.end
    if last is not None and end < last + files.log_size:
        for piece in walk_file(files, last, max(last, end)):
            if piece.kind is not Kind.TAIL:
                end = piece.offset + piece.size
    return PlainFacts(
        files=files,
        checkpoint=checkpoint,
        first=max(log.first, 0),
        end=end,
        redispatched=end if files.clean else start,
        last_base=last,
        queue_bases={
            queue: frozenset(file.base for file in files.queue_files(*queue))
            for queue in files.queues()
        },
        index_names=files.index_files(),
    )
