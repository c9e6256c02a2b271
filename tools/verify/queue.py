"""Checks one consume queue: that its files follow each other and each entry has its record.

The survey looks at the entries alone. The check of the log counts how many of them are the right
ones of records. Only if that are not all, or the survey found something odd, the full check looks
up each entry's record. The kernel (`_queue.pyx`) passes over good entries; what it stops at is
explained here.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ...store.consumequeue.queue import BLANK_ENTRY, ENTRY, ENTRY_SIZE
from ...store.record.fields import head_of
from ...store.record.format import MIN_RECORD_BYTES
from ...store.record.properties import light_queues
from ..rocketmq.logs import LogView
from . import _queue as kernel
from .findings import BEHIND, ENTRIES, Facts, Result

if TYPE_CHECKING:
    from ..raw.files import StoreFiles


def survey_queue(facts: Facts, topic: str, queue_id: int) -> Result:
    """Counts the entries of a queue, and looks whether they ascend without a gap."""
    result, files = Result(), facts.files
    bases = sorted(facts.queue_bases[topic, queue_id])
    result.odd = any(base % files.queue_size for base in bases) or any(
        base != before + files.queue_size for before, base in pairwise(bases)
    )
    before, begun = -1, False
    for number, base in enumerate(bases):
        view = files.map(files.queue_path(topic, queue_id, base))
        at = 0 if begun else _first_entry(view)
        end, before, live, least = kernel.ascending(view, at, before, facts.first)
        begun = begun or end > at
        result.counts[ENTRIES] += (end - at) // ENTRY_SIZE
        if live:
            result.live[topic, queue_id, base] = live
            if result.first_dispatched is None:
                result.first_dispatched = least
        if end < files.queue_size:
            offset, size, _ = ENTRY.unpack_from(view, end)
            last = number + 1 == len(bases)
            result.odd = result.odd or not last or (offset >= 0 and size > 0)
    return result


def _first_entry(view: memoryview) -> int:
    """The position of the first entry that is not blank."""
    at = 0
    while at < len(view) and view[at : at + ENTRY_SIZE] == BLANK_ENTRY:
        at += ENTRY_SIZE
    return at


def check_queue(facts: Facts, topic: str, queue_id: int) -> Result:
    """Checks one queue in full."""
    check = _QueueCheck(facts, topic, queue_id)
    check.run()
    return check.result


class _QueueCheck:
    def __init__(self, facts: Facts, topic: str, queue_id: int) -> None:
        self.facts, self.topic, self.queue_id = facts, topic, queue_id
        self.result = Result()
        self.before = -1
        self.begun = False

    def run(self) -> None:
        files, result = self.facts.files, self.result
        bases = sorted(self.facts.queue_bases[self.topic, self.queue_id])
        for number, base in enumerate(bases):
            path = files.queue_path(self.topic, self.queue_id, base)
            if base % files.queue_size:
                result.add(path, 0, f"the name is no multiple of the file size {files.queue_size}")
                continue
            if number and base != bases[number - 1] + files.queue_size:
                what = f"the file before it begins at {bases[number - 1]}: one is missing"
                result.add(path, 0, what)
            self._check_file(path, base, last=number + 1 == len(bases))

    def _check_file(self, path: str, base: int, *, last: bool) -> None:
        view, result = self.facts.files.map(path), self.result
        position = 0
        while position < len(view):
            unit = view[position : position + ENTRY_SIZE]
            if not self.begun and unit == BLANK_ENTRY:
                position += ENTRY_SIZE
                continue
            behind = self._confirm(view, base, position)
            if behind > position:
                self.begun = True
                result.counts[ENTRIES] += (behind - position) // ENTRY_SIZE
                position = behind
                continue
            offset, size, _ = ENTRY.unpack(unit)
            if offset < 0 or size <= 0:
                if last:
                    break
                result.add(path, position, "an empty entry, though a file follows")
            else:
                self.begun = True
                self._check_entry(path, base, position, unit)
            position += ENTRY_SIZE

    def _confirm(self, view: memoryview, base: int, position: int) -> int:
        """Passes over good entries whose records lie in one log file. Returns the position behind
        them.
        """
        facts = self.facts
        offset = ENTRY.unpack_from(view, position)[0]
        log_base = offset - offset % facts.files.log_size
        if log_base not in facts.files.log_bases:
            return position
        behind, self.before = kernel.confirm(
            view,
            position,
            self.before,
            facts.files.log_view(log_base),
            log_base,
            facts.end,
            self.topic.encode(),
            self.queue_id,
            (base + position) // ENTRY_SIZE,
        )
        if behind > position and self.result.first_dispatched is None:
            self.result.first_dispatched = offset
        return behind

    def _check_entry(self, path: str, base: int, position: int, unit: memoryview) -> None:
        facts, result = self.facts, self.result
        offset, size, _ = ENTRY.unpack(unit)
        result.counts[ENTRIES] += 1
        if offset <= self.before:
            result.add(path, position, f"offset {offset} behind one of {self.before}")
        self.before = max(self.before, offset)
        if offset < facts.first:
            return
        if result.first_dispatched is None:
            result.first_dispatched = offset
        if offset >= facts.end:
            # After a crash records that were not yet on disk may be missing. A bad record is a
            # finding.
            if facts.redispatched < facts.end and _zeros(facts.files, offset, size):
                result.counts[BEHIND] += 1
            else:
                result.add(path, position, f"points to {offset}, the log ends at {facts.end}")
            return
        why = self._wrong_record(offset, size, (base + position) // ENTRY_SIZE)
        if why:
            result.add(path, position, f"points to {offset}: {why}")

    def _wrong_record(self, offset: int, size: int, index: int) -> str:
        """Why the bytes at a log address are not the record of an entry; empty when they are."""
        files = self.facts.files
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
        log.end = self.facts.end
        record = log.record_at(offset)
        # The check of the log has a finding for a record that cannot be decoded, and compares the
        # tags code of an entry that leads to its own record.
        is_other = record is not None and record.topic != self.topic
        if (head.queue_id, head.queue_offset) == (self.queue_id, index) and not is_other:
            return ""
        # The record may lie in the queue of another topic, and name this one as a light queue.
        if record is not None and light_queues(record.properties).get(self.topic) == index:
            return ""
        topic = f" of topic {record.topic}" if record is not None and is_other else ""
        return f"the record there is number {head.queue_offset} of queue {head.queue_id}{topic}"


def _zeros(files: StoreFiles, offset: int, size: int) -> bool:
    base = offset - offset % files.log_size
    if base not in files.log_bases:
        return True
    return not any(files.log_view(base)[offset - base : offset - base + size])
