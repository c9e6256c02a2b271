"""Checks one index file: its header, its chains, and that entries and records' keys agree."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from ...store.index.file import ENTRY_SIZE, HEADER, HEADER_SIZE, LAYOUTS, SLOT_SIZE
from ...store.record.javahash import index_key_hash
from ...store.record.properties import index_keys
from ..rocketmq.indexes import IndexFileView
from ..rocketmq.logs import LogView
from .findings import BEHIND, INDEXED, Facts, Result

if TYPE_CHECKING:
    from ...store.record.format import Record

_INT_MAX = 0x7FFFFFFF
#: Position of each field of an index file's header, in the order of the fields.
_PLACES: Final = {name: at for name, (at, _) in LAYOUTS["header"].items()}


class _IndexCheck:
    def __init__(self, facts: Facts, name: int) -> None:
        self.facts = facts
        self.result = Result()
        self.path = facts.files.index_path(name)
        self.file = IndexFileView(facts.files, name)
        self.log = LogView(facts.files)
        self.log.end = facts.end
        self.count = min(self.file.count, self.file.capacity)
        #: The first entry's seconds count from the end of the file before, so checks begin with
        #: entry 2.
        self.times_hold = 2

    def entry_at(self, number: int) -> int:
        return HEADER_SIZE + SLOT_SIZE * self.file.slots + ENTRY_SIZE * number

    def header(self) -> None:
        assert self.file.memory is not None
        head = dict(zip(_PLACES, HEADER.unpack_from(self.file.memory), strict=True))
        slots, count = head["hash_slot_count"], head["index_count"]
        if not 0 <= count <= self.file.capacity:
            self.result.add(
                self.path,
                _PLACES["index_count"],
                f"the header counts {count} entries of {self.file.capacity}",
            )
        used = sum(1 for slot in range(self.file.slots) if self.file.slot(slot) > 0)
        if slots not in (used, self.count - 1):
            self.result.add(
                self.path,
                _PLACES["hash_slot_count"],
                f"the header counts {slots} slots, {used} are in use",
            )
        if self.count <= 1:
            return
        for end, entry in (("begin", 1), ("end", self.count - 1)):
            stands, stored = head[f"{end}_phy_offset"], head[f"{end}_timestamp"]
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
        newest: dict[int, int] = {}
        for number in range(1, self.count):
            key_hash, _, seconds, older = self.file.entry(number)
            if key_hash < 0 or seconds < 0:
                self.result.add(self.path, self.entry_at(number), "a negative hash or time")
                continue
            slot = key_hash % self.file.slots
            if older != newest.get(slot, 0):
                self.result.add(
                    self.path,
                    self.entry_at(number),
                    f"entry {number} goes on at {older}, its chain at {newest.get(slot, 0)}",
                )
            newest[slot] = number
        for slot in range(self.file.slots):
            stands = self.file.slot(slot)
            if stands != newest.get(slot, 0):
                self.result.add(
                    self.path,
                    HEADER_SIZE + SLOT_SIZE * slot,
                    f"slot {slot} names entry {stands}, its chain begins at {newest.get(slot, 0)}",
                )

    def entries(self) -> None:
        """Checks that entries lead to records. Entries of one record are consecutive; the record's
        other entries may be in a neighbouring file.
        """
        numbers = range(1, self.count)
        for offset, group in groupby(numbers, key=lambda number: self.file.entry(number)[1]):
            run = list(group)
            self.result.counts[INDEXED] += len(run)
            if offset < self.facts.first:
                continue
            if offset >= self.facts.end and self.facts.redispatched < self.facts.end:
                self.result.counts[BEHIND] += len(run)
                continue
            record = self.log.record_at(offset)
            if record is None:
                self.result.add(
                    self.path, self.entry_at(run[0]), f"points to {offset}, where no record is"
                )
                continue
            self.result.indexed.append(offset)
            self._check_run(run, record)

    def _check_run(self, run: list[int], record: Record) -> None:
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


def check_index_file(facts: Facts, name: int) -> Result:
    """Checks the index file of that name."""
    check = _IndexCheck(facts, name)
    check.header()
    check.chains()
    check.entries()
    return check.result
