"""Checks one index file: its header, its chains, and that entries and records' keys agree.

The survey looks at the file alone. The check of the log counts how many entries are the right ones
of records. Only if that are not all, or the survey found something odd, the full check looks up
each entry's record. The kernel (`_index.pyx`) passes over good entries; what it stops at is
explained here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...store.index.file import ENTRY_SIZE, HEADER, HEADER_SIZE, LAYOUTS, SLOT_SIZE
from ...store.record.javahash import index_key_hash
from ...store.record.properties import index_keys
from ..rocketmq.indexes import IndexFileView
from ..rocketmq.logs import LogView
from ._index import IndexEntries
from .findings import BEHIND, INDEXED, Facts, IndexSpan, Result

if TYPE_CHECKING:
    from ...store.record.format import Record

_INT_MAX = 0x7FFFFFFF
#: Position of each field of an index file's header, in the order of the fields.
_PLACES: Final = {name: at for name, (at, _) in LAYOUTS["header"].items()}


def survey_index_file(facts: Facts, name: int) -> Result:
    """Counts the entries of a file, and looks whether its chains and counts are right."""
    check = _IndexCheck(facts, name)
    check.counts()
    check.chains()
    result = Result(odd=bool(check.result.findings))
    result.counts[INDEXED] = check.count - 1
    result.spans[name] = span_of(facts, name)
    return result


def span_of(facts: Facts, name: int) -> IndexSpan:
    """Which records' entries a file has."""
    return IndexSpan(*_IndexCheck(facts, name).kernel.span(facts.first))


def check_index_header(facts: Facts, name: int) -> Result:
    """Compares the header of a file, whose other parts are sound, with its first and last
    record.
    """
    check = _IndexCheck(facts, name)
    check.ends()
    return check.result


def check_index_file(facts: Facts, name: int) -> Result:
    """Checks one file in full."""
    check = _IndexCheck(facts, name)
    check.counts()
    check.ends()
    check.chains()
    check.entries()
    return check.result


class _IndexCheck:
    def __init__(self, facts: Facts, name: int) -> None:
        self.facts = facts
        self.result = Result()
        self.path = facts.files.index_path(name)
        self.file = IndexFileView(facts.files, name)
        self.log = LogView(facts.files)
        self.log.end = facts.end
        self.count = self.file.held
        assert self.file.memory is not None
        self.memory = self.file.memory
        self.kernel = IndexEntries(self.memory, self.file.slots, self.count)
        self.head = dict(zip(_PLACES, HEADER.unpack_from(self.memory), strict=True))
        #: The first entry's seconds count from the end of the file before, so checks begin with
        #: entry 2.
        self.times_hold = 2

    def entry_at(self, number: int) -> int:
        return HEADER_SIZE + SLOT_SIZE * self.file.slots + ENTRY_SIZE * number

    def counts(self) -> None:
        """Checks the counts in the header.

        Releases before 4.7.1 and 5.x count entries as used slots, the others slots. A file that two
        of them wrote has a number in between.
        """
        slots, count = self.head["hash_slot_count"], self.head["index_count"]
        if not 0 <= count <= self.file.capacity:
            self.result.add(
                self.path,
                _PLACES["index_count"],
                f"the header counts {count} entries of {self.file.capacity}",
            )
        used = self.kernel.used_slots()
        if not min(used, self.count - 1) <= slots <= max(used, self.count - 1):
            self.result.add(
                self.path,
                _PLACES["hash_slot_count"],
                f"the header counts {slots} slots, {used} are in use",
            )

    def ends(self) -> None:
        """Compares the header's ends with the first and the last entry and their records."""
        if self.count <= 1:
            return
        for end, entry in (("begin", 1), ("end", self.count - 1)):
            stands, stored = self.head[f"{end}_phy_offset"], self.head[f"{end}_timestamp"]
            offset = self.file.entry(entry)[1]
            if stands != offset:
                self.result.add(
                    self.path,
                    _PLACES[f"{end}_phy_offset"],
                    f"the header says offset {stands}, entry {entry} {offset}",
                )
            record = self.log.record_at(offset) if offset >= self.facts.first else None
            if record is not None and stored != record.store_timestamp:
                self.result.add(
                    self.path,
                    _PLACES[f"{end}_timestamp"],
                    f"the header says time {stored}, the record at {offset} was stored "
                    f"at {record.store_timestamp}",
                )

    def chains(self) -> None:
        number, expected = self.kernel.next_odd_entry(1)
        while number < self.count:
            key_hash, _, seconds, older = self.file.entry(number)
            if key_hash < 0 or seconds < 0:
                self.result.add(self.path, self.entry_at(number), "a negative hash or time")
            else:
                self.result.add(
                    self.path,
                    self.entry_at(number),
                    f"entry {number} goes on at {older}, its chain at {expected}",
                )
            number, expected = self.kernel.next_odd_entry(number + 1)
        slot, expected = self.kernel.next_odd_slot(0)
        while slot < self.file.slots:
            self.result.add(
                self.path,
                HEADER_SIZE + SLOT_SIZE * slot,
                f"slot {slot} names entry {self.file.slot(slot)}, its chain begins at {expected}",
            )
            slot, expected = self.kernel.next_odd_slot(slot + 1)

    def entries(self) -> None:
        """Checks that entries lead to records. Entries of one record are consecutive; the record's
        other entries may be in a neighbouring file.
        """
        self.result.counts[INDEXED] += self.count - 1
        number = 1
        while number < self.count:
            number = self.kernel.pass_below(number, self.facts.first)
            number = self._confirm(number)
            if number < self.count and self.file.entry(number)[1] >= self.facts.first:
                run = self._run_at(number)
                self._check_place(run)
                number = run.stop

    def _confirm(self, number: int) -> int:
        """Passes over right entries whose records lie in one log file. Returns the number behind
        them.
        """
        facts = self.facts
        offset = self.file.entry(number)[1] if number < self.count else -1
        base = offset - offset % facts.files.log_size
        if base not in facts.files.log_bases:
            return number
        view = facts.files.log_view(base)
        return self.kernel.confirm(number, view, base, facts.end, self.file.begin_ms)

    def _run_at(self, number: int) -> range:
        """The numbers of the consecutive entries of one record."""
        offset = self.file.entry(number)[1]
        end = number + 1
        while end < self.count and self.file.entry(end)[1] == offset:
            end += 1
        return range(number, end)

    def _check_place(self, run: range) -> None:
        """Checks the entries of one record."""
        offset = self.file.entry(run[0])[1]
        if offset >= self.facts.end and self.facts.redispatched < self.facts.end:
            self.result.counts[BEHIND] += len(run)
            return
        record = self.log.record_at(offset)
        if record is None:
            what = f"points to {offset}, where no record is"
            self.result.add(self.path, self.entry_at(run[0]), what)
        else:
            self._check_run(run, record)

    def _check_run(self, run: range, record: Record) -> None:
        wanted = [index_key_hash(record.topic, key) for key in index_keys(record.properties)]
        has = [self.file.entry(number)[0] for number in run]
        # RocketMQ's recovery indexes the last record that it knows a second time.
        fits = wanted and has == wanted * (len(has) // len(wanted))
        if run[0] == 1:
            fits = fits or (wanted * 2)[-len(has) :] == has
        if run[-1] == self.count - 1:
            fits = fits or (wanted * 2)[: len(has)] == has
        where = self.entry_at(run[0])
        if not fits:
            self.result.add(
                self.path,
                where,
                f"{len(has)} entries do not fit the {len(wanted)} keys of the record at "
                f"{record.physical_offset}",
            )
        for number in run[max(0, self.times_hold - run[0]) :]:
            seconds = max(record.store_timestamp - self.file.begin_ms, 0) // 1000
            if self.file.entry(number)[2] != min(seconds, _INT_MAX):
                self.result.add(
                    self.path,
                    self.entry_at(number),
                    f"says {self.file.entry(number)[2]} s, the record at {record.physical_offset} "
                    f"was stored {seconds} s after the file's first",
                )
