"""The plain twin's checks of queues and index files (see plain_verify.py)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from silomq.store.consumequeue.queue import BLANK_ENTRY, ENTRY, ENTRY_SIZE
from silomq.store.index import file as index
from silomq.store.index.file import HEADER, HEADER_SIZE, LAYOUTS, SLOT_SIZE
from silomq.store.record.fields import head_of
from silomq.store.record.format import MIN_RECORD_BYTES, Record
from silomq.store.record.javahash import index_key_hash
from silomq.store.record.properties import index_keys, light_queues
from silomq.tools.rocketmq.indexes import IndexFileView
from silomq.tools.rocketmq.logs import LogView
from silomq.tools.verify.findings import BEHIND, ENTRIES, INDEXED

if TYPE_CHECKING:
    from support.plain_verify import PlainFacts, PlainResult

    from silomq.tools.raw.files import StoreFiles

_INT_MAX = 0x7FFFFFFF
#: Position of each field of an index file's header, in the order of the fields.
_PLACES: Final = {name: at for name, (at, _) in LAYOUTS["header"].items()}


class _IndexCheck:
    def __init__(self, facts: PlainFacts, result: PlainResult, name: int) -> None:
        self.facts = facts
        self.result = result
        self.path = facts.files.index_path(name)
        self.file = IndexFileView(facts.files, name)
        self.log = LogView(facts.files)
        self.log.end = facts.end
        self.count = min(self.file.count, self.file.capacity)
        #: The first entry's seconds count from the end of the file before, so checks begin with
        #: entry 2.
        self.times_hold = 2

    def entry_at(self, number: int) -> int:
        return HEADER_SIZE + SLOT_SIZE * self.file.slots + index.ENTRY_SIZE * number

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
        if not min(used, self.count - 1) <= slots <= max(used, self.count - 1):
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


def check_index_file(facts: PlainFacts, result: PlainResult, name: int) -> PlainResult:
    """Checks the index file of that name."""
    check = _IndexCheck(facts, result, name)
    check.header()
    check.chains()
    check.entries()
    return check.result


def check_queue(facts: PlainFacts, result: PlainResult, topic: str, queue_id: int) -> PlainResult:
    """Checks one queue."""
    files = facts.files
    bases = sorted(facts.queue_bases[topic, queue_id])
    before = -1
    begun = False
    for number, base in enumerate(bases):
        path = files.queue_path(topic, queue_id, base)
        if base % files.queue_size:
            result.add(path, 0, f"the name is no multiple of the file size {files.queue_size}")
            continue
        if number and base != bases[number - 1] + files.queue_size:
            result.add(path, 0, f"the file before it begins at {bases[number - 1]}: one is missing")
        for position in range(0, files.queue_size, ENTRY_SIZE):
            unit = files.view(path)[position : position + ENTRY_SIZE]
            offset, size, _ = ENTRY.unpack(unit)
            if not begun and unit == BLANK_ENTRY:
                continue
            if offset < 0 or size <= 0:
                if number + 1 < len(bases):
                    result.add(path, position, "an empty entry, though a file follows")
                    continue
                break
            begun = True
            result.counts[ENTRIES] += 1
            if offset <= before:
                result.add(path, position, f"offset {offset} behind one of {before}")
            before = max(before, offset)
            if offset >= facts.first:
                if result.first_dispatched is None:
                    result.first_dispatched = offset
                at = (base + position) // ENTRY_SIZE
                place = (topic, queue_id, at)
                _check_entry(facts, result, (path, position), place, unit)
    return result


def _check_entry(
    facts: PlainFacts,
    result: PlainResult,
    where: tuple[str, int],
    entry: tuple[str, int, int],
    unit: memoryview,
) -> None:
    offset, size, _ = ENTRY.unpack(unit)
    if offset >= facts.end:
        # After a crash records that were not yet on disk may be missing. A bad record is a finding.
        if facts.redispatched < facts.end and _zeros(facts.files, offset, size):
            result.counts[BEHIND] += 1
        else:
            result.add(*where, f"points to {offset}, the log ends at {facts.end}")
        return
    why = _wrong_record(facts.files, offset, size, entry, facts.end)
    if why:
        result.add(*where, f"points to {offset}: {why}")


def _wrong_record(
    files: StoreFiles, offset: int, size: int, entry: tuple[str, int, int], end: int
) -> str:
    """Why the bytes at a log address are not the record of an entry; empty when they are."""
    base = offset - offset % files.log_size
    at = offset - base
    if base not in files.log_bases:
        return "there is no such file"
    view = files.log_view(base)
    if at + size > len(view) or size < MIN_RECORD_BYTES:
        return f"{size} bytes from there on do not lie in one file"
    head = head_of(view, at)
    if not head.is_record:
        return "no record begins there"
    if head.total_size != size:
        return f"the record there has {head.total_size} bytes, the entry says {size}"
    log = LogView(files)
    log.end = end
    record = log.record_at(offset)
    light = record is not None and light_queues(record.properties).get(entry[0]) == entry[2]
    topic = f" of topic {record.topic}" if record and record.topic != entry[0] else ""
    if ((head.queue_id, head.queue_offset) != entry[1:] or topic) and not light:
        return f"the record there is number {head.queue_offset} of queue {head.queue_id}{topic}"
    return ""


def _zeros(files: StoreFiles, offset: int, size: int) -> bool:
    base = offset - offset % files.log_size
    if base not in files.log_bases:
        return True
    return not any(files.log_view(base)[offset - base : offset - base + size])
