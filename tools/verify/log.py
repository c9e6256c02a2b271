"""Checks one commit-log file: its records, and that queues and index have each of them."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from ...store.consumequeue.queue import BLANK_ENTRY, ENTRY, ENTRY_SIZE
from ...store.record.format import TRANSACTION_ROLLBACK
from ...store.record.properties import index_keys
from ..raw.walk import Kind, walk_file
from ..rocketmq.view import entry_code, is_queued
from .findings import BEFORE_QUEUES, PENDING, RECORDS, TAIL_BYTES, Facts, Result

if TYPE_CHECKING:
    from ...store.record.format import Record

_NOTHING = bytes(ENTRY_SIZE)


def check_log_file(facts: Facts, base: int) -> Result:
    """Checks the file at log address `base`."""
    result = Result()
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


def _note_time(result: Result, stored_ms: int, wanted: set[int]) -> None:
    result.counts[RECORDS] += 1
    if stored_ms in wanted:
        result.times_seen.add(stored_ms)
    if result.oldest_ms is None or result.newest_ms is None:
        result.oldest_ms = result.newest_ms = stored_ms
    result.oldest_ms = min(result.oldest_ms, stored_ms)
    result.newest_ms = max(result.newest_ms, stored_ms)


def _check_record(facts: Facts, result: Result, record: Record) -> None:
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


def _check_entry(facts: Facts, result: Result, record: Record, *, pending: bool) -> bool:
    """Checks a record's queue entry. Returns whether it is missing and the next start will write
    it.
    """
    offset = record.physical_offset
    queue = (record.topic, record.queue_id)
    position = record.queue_offset * ENTRY_SIZE
    base = position - position % facts.files.queue_size
    wanted = ENTRY.pack(offset, record.total_size, entry_code(record))
    path = facts.files.queue_path(*queue, base)
    stands = _NOTHING
    if base in facts.queue_bases.get(queue, ()):
        stands = bytes(facts.files.view(path)[position - base : position - base + ENTRY_SIZE])
    if stands == wanted:
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
