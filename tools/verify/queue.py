"""Checks one consume queue: that its files follow each other and each entry has its record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...store.consumequeue.queue import BLANK_ENTRY, ENTRY, ENTRY_SIZE
from ...store.record.fields import head_of
from ...store.record.format import MIN_RECORD_BYTES
from .findings import BEHIND, ENTRIES, Facts, Result

if TYPE_CHECKING:
    from ..raw.files import StoreFiles


def check_queue(facts: Facts, topic: str, queue_id: int) -> Result:
    """Checks one queue."""
    result = Result()
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
                index = (base + position) // ENTRY_SIZE
                _check_entry(facts, result, (path, position), (topic, queue_id, index), unit)
    return result


def _check_entry(
    facts: Facts,
    result: Result,
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
    why = _wrong_record(facts.files, offset, size, entry)
    if why:
        result.add(*where, f"points to {offset}: {why}")


def _wrong_record(files: StoreFiles, offset: int, size: int, entry: tuple[str, int, int]) -> str:
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
    if (head.queue_id, head.queue_offset) != entry[1:]:
        return f"the record there is number {head.queue_offset} of queue {head.queue_id}"
    return ""


def _zeros(files: StoreFiles, offset: int, size: int) -> bool:
    base = offset - offset % files.log_size
    if base not in files.log_bases:
        return True
    return not any(files.log_view(base)[offset - base : offset - base + size])
