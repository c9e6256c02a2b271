"""Checks one commit-log file: its records, and that queues and index have each of them.

The kernel (`_log.pyx`) passes over good records. What it stops at is decoded and explained here.
"""

from __future__ import annotations

import math
import time
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from ...shm._checksum import crc32c
from ...store.consumequeue.queue import BLANK_ENTRY, ENTRY, ENTRY_SIZE, LEAST_TAGS_CODE
from ...store.record.format import TRANSACTION_ROLLBACK
from ...store.record.properties import index_keys
from ..raw.walk import Found, Kind, found_at
from ..rocketmq.indexes import IndexFileView
from ..rocketmq.logs import LogView
from ..rocketmq.view import entry_code, is_other_delay, is_queued
from . import _log as kernel
from ._index import IndexEntries
from .findings import (
    BEFORE_QUEUES,
    MOST_OF_A_FILE,
    OTHER_DELAYS,
    PENDING,
    RECORDS,
    TAIL_BYTES,
    Facts,
    LogPiece,
    Result,
)
from .windows import windows_of

if TYPE_CHECKING:
    from ...store.record.format import Record

_NOTHING: Final = bytes(ENTRY_SIZE)
#: The bytes that are checked at a time: so few that a seal's checksum finds them in the CPU's
#: cache, and so many that the interpreter's part does not count.
_STEP: Final = 1 << 20
#: Read-ahead, and the time (s) in which so many bytes are checked if they were in the page cache:
#: then asking the kernel for the next ones would cost more than it gains.
_AHEAD: Final = 16 << 20
_CACHED_S: Final = 0.004


def finish_log_file(facts: Facts, base: int, result: Result) -> None:
    """Adds what only shows when the last file with records is known: a file may have a tail only if
    it is the last one.
    """
    path = facts.files.log_path(base)
    if facts.last_base is None or base > facts.last_base:
        return
    for tail in [piece.tail for piece in result.pieces if piece.tail]:
        if base != facts.last_base:
            why = tail.why or "zeros where a record or the end of the file should be"
            result.add(path, tail.offset, f"{why} ({tail.size} bytes)")
        elif tail.why:
            # A torn end, or bytes that RocketMQ's recovery cut off without clearing them.
            result.counts[TAIL_BYTES] += tail.size


def check_log_piece(facts: Facts, base: int, start: int, stop: int) -> Result:
    """Checks the records that begin in [start, stop), bytes into the file at log address `base`. A
    record must begin at `start`.
    """
    check = _LogPiece(facts, base, start, stop)
    check.run()
    return check.result


class _LogPiece:
    def __init__(self, facts: Facts, base: int, start: int, stop: int) -> None:
        self.facts, self.base, self.start, self.stop = facts, base, start, stop
        self.path = facts.files.log_path(base)
        self.result = Result()
        self.view = facts.files.log_view(base)
        self.wanted = (
            facts.checkpoint.physic_msg_timestamp,
            facts.checkpoint.logics_msg_timestamp,
            facts.checkpoint.index_msg_timestamp,
        )
        self.windows = windows_of(facts)
        self.kernel = self.windows.kernel
        self._known: array[int] | None = None
        self.plain = True
        self.used_end = -1
        self.tail: Found | None = None
        self.blank = 0

    def run(self) -> None:
        """Checks the piece, and puts the outcome into `result`."""
        facts = self.facts
        if self.start == 0 and self.base % facts.files.log_size:
            what = f"the name is no multiple of the file size {facts.files.log_size}"
            self.result.add(self.path, self.base, what)
        times = facts.redispatched, facts.first_dispatched, facts.first_indexed
        self.kernel.begin(*times, self.wanted)
        self._begin_index()
        at = read = ahead = self.start
        crc = 0
        sealed = self.base in facts.sealed
        began = -math.inf
        while at < self.stop:
            end = min(at - at % _STEP + _STEP, self.stop)
            if at >= ahead:
                now = time.monotonic()
                if now - began > _CACHED_S:
                    facts.files.read_ahead(self.view, at, 2 * _AHEAD)
                began, ahead = now, at + _AHEAD
            at = self._step(at, end)
            if sealed:
                crc = crc32c(self.view[read:at], crc)
                read = at
        self._finish(at, crc)

    def _step(self, at: int, end: int) -> int:
        """Checks the records that begin in [at, end). Returns where the next one begins."""
        while at < end:
            before = at
            at, why = self.kernel.run(self.view, at, end, self.base)
            if at > before:
                self.used_end = self.base + at
            if why == kernel.ODD:
                at = self._look(at)
            elif why == kernel.UNKNOWN_QUEUE:
                self.windows.add(self.kernel.need_topic, self.kernel.need_queue)
            elif why == kernel.NEED_WINDOW:
                need = self.kernel.need_queue, self.kernel.need_offset
                self.windows.map(*need, self.result.matched)
            elif why == kernel.NEED_INDEX:
                self._next_index()
            elif why == kernel.NEED_KNOWN:
                self.kernel.set_known(self._all_known())
        return at

    def _look(self, at: int) -> int:
        """Looks at the place where the kernel stopped. Returns the position behind it."""
        found = found_at(self.view, at, self.base)
        end = found.offset + found.size
        if found.kind is Kind.TAIL:
            self.tail = found
        else:
            self.used_end = end
        if found.kind is Kind.RECORD and found.record is not None:
            self.plain = False
            self._note_time(found.record.store_timestamp)
            if found.why:
                self.result.add(self.path, found.offset, found.why)
            else:
                self._check_record(found.record)
        elif found.kind is Kind.DAMAGE:
            self.plain = False
            why = found.why or "zeros where a record or the end of the file should be"
            self.result.add(self.path, found.offset, f"{why} ({found.size} bytes)")
        self.kernel.quiet = len(self.result.findings) >= MOST_OF_A_FILE
        return end - self.base

    def _note_time(self, stored_ms: int) -> None:
        result = self.result
        result.counts[RECORDS] += 1
        if stored_ms in self.wanted:
            result.times_seen.add(stored_ms)
        if result.oldest_ms is None or result.newest_ms is None:
            result.oldest_ms = result.newest_ms = stored_ms
        result.oldest_ms = min(result.oldest_ms, stored_ms)
        result.newest_ms = max(result.newest_ms, stored_ms)

    def _finish(self, at: int, crc: int) -> None:
        """Adds the kernel's counts to the result."""
        found, result = self.kernel, self.result
        self.windows.collect(result.matched)
        for which, name in enumerate(self._index_files[:2]):
            result.indexed[name] += found.take_indexed(which)
        if found.records:
            result.counts[RECORDS] += found.records
            times = [result.oldest_ms, found.oldest_ms]
            result.oldest_ms = min(time for time in times if time is not None)
            result.newest_ms = max(found.newest_ms, result.newest_ms or 0)
        for kind, count in ((PENDING, found.pending), (BEFORE_QUEUES, found.before_queues)):
            if count:
                result.counts[kind] += count
        result.unnamed += found.unnamed
        bits = found.times_seen
        result.times_seen |= {time for i, time in enumerate(self.wanted) if bits >> i & 1}
        result.pieces.append(
            LogPiece(
                self.base, self.start, self.base + at,
                found.records, found.last, found.first_time, found.last_time,
                self.used_end, self.plain and self.tail is None, self.tail, crc,
            )
        )  # fmt: skip

    # The index: the kernel reads its entries side by side with the records.

    def _begin_index(self) -> None:
        low = self.base + self.start
        spans = self.facts.spans
        self._index_files = [name for name in sorted(spans) if spans[name].greatest >= low]
        for which in range(min(2, len(self._index_files))):
            self._set_index(which)

    def _set_index(self, which: int) -> None:
        file = IndexFileView(self.facts.files, self._index_files[which])
        assert file.memory is not None
        entries = IndexEntries(file.memory, file.slots, file.held)
        at = entries.first_from(self.base + self.start)
        self.kernel.set_index(which, file.memory, file.slots, at, file.held, file.begin_ms)

    def _next_index(self) -> None:
        """The kernel is done with the first of its two index files."""
        self.result.indexed[self._index_files.pop(0)] += self.kernel.take_indexed(0)
        self.kernel.shift_index()
        if len(self._index_files) > 1:
            self._set_index(1)

    def _all_known(self) -> array[int]:
        if self._known is None:
            low, high = self.base + self.start, self.base + self.stop
            self._known = known_addresses(self.facts, low, high)
        return self._known

    # One record that the kernel did not confirm.

    def _check_record(self, record: Record) -> None:
        """Checks that queue and index have the entries of this record."""
        facts, offset = self.facts, record.physical_offset
        pending = offset >= facts.redispatched
        missing = False
        if is_queued(record) and offset >= facts.deleted_below.get(record.topic, 0):
            missing = self._check_entry(record, pending=pending)
        if (
            0 <= facts.first_indexed <= offset
            and record.transaction_type != TRANSACTION_ROLLBACK
            and index_keys(record.properties)
        ):
            known = self._all_known()
            at = bisect_left(known, offset)
            if at == len(known) or known[at] != offset:
                if pending:
                    missing = True
                else:
                    what = "the index does not know the keys of this record"
                    self.result.add(self.path, offset, what)
        if missing:
            self.result.counts[PENDING] += 1

    def _check_entry(self, record: Record, *, pending: bool) -> bool:
        """Checks a record's queue entry. Returns whether it is missing and the next start will
        write it.
        """
        facts, result, offset = self.facts, self.result, record.physical_offset
        queue = (record.topic, record.queue_id)
        position = record.queue_offset * ENTRY_SIZE
        base = position - position % facts.files.queue_size
        path = facts.files.queue_path(*queue, base)
        stands = _NOTHING
        if base in facts.queue_bases.get(queue, ()):
            view = facts.files.view(path)
            stands = bytes(view[position - base : position - base + ENTRY_SIZE])
        has = ENTRY.unpack(stands)
        code = entry_code(record, facts.files.settings.message_delay_level)
        if has[:2] == (offset, record.total_size):
            other = has[2] != code and is_other_delay(record, has[2])
            extended = has[2] < LEAST_TAGS_CODE and facts.files.has_extension(record.topic)
            if has[2] == code or other or extended:
                result.matched[(*queue, base)] += 1
                result.counts[OTHER_DELAYS] += other
                return False
        name = f"{record.topic}/{record.queue_id} entry {record.queue_offset}"
        if stands not in {_NOTHING, BLANK_ENTRY}:
            should = ", ".join(map(str, (offset, record.total_size, code)))
            what = f"{name} holds ({', '.join(map(str, has))}), its record at {offset} wants "
            result.add(path, position - base, f"{what}({should})")
        elif pending:
            return True
        elif offset < facts.first_dispatched:
            result.counts[BEFORE_QUEUES] += 1
        else:
            what = f"the record has no queue entry (it should be {name})"
            result.add(self.path, offset, what)
        return False


def known_addresses(facts: Facts, low: int, high: int) -> array[int]:
    """All log addresses in [low, high) that the index has, ascending."""
    found: array[int] = array("q")
    for name, span in sorted(facts.spans.items()):
        if span.greatest < low or span.least >= high:
            continue
        file = IndexFileView(facts.files, name)
        assert file.memory is not None
        entries = IndexEntries(file.memory, file.slots, file.held)
        part = array("q", bytes(8 * entries.addresses(low, high, array("q"))))
        entries.addresses(low, high, part)
        ascending = not found or not part or found[-1] <= part[0]
        found.extend(part)
        if not ascending:
            found = array("q", sorted(found))
    return found


def first_indexed(facts: Facts) -> int:
    """The least log address of a record in the index; -1 if the index has none."""
    log = LogView(facts.files)
    log.end = facts.end
    least = min((span.least for span in facts.spans.values() if span.live), default=-1)
    if least < 0 or log.record_at(least) is not None:
        return least
    for base in log.bases:
        if base + facts.files.log_size > least:
            for offset in known_addresses(facts, base, base + facts.files.log_size):
                if log.record_at(offset) is not None:
                    return offset
    return -1
