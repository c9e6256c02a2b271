"""Taking over: what a killed process, a store that ended, or RocketMQ has left of transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from ...store.commitlog.log import CommitLog
from ...store.names import TRANS_CHECK_MAX_TIME_TOPIC
from ...store.record.format import Record, decode_record
from ...store.transactions._finals import finals
from ...store.transactions.half import NotAHalf, read_half
from ...store.transactions.ops import read_op
from .queues import begin_at
from .reading import Reading
from .state import State

_STEP = 8 << 20
_GIVEN_UP = TRANS_CHECK_MAX_TIME_TOPIC.encode()


def take_over(
    reading: Reading,
    state: State,
    log: CommitLog,
    span: tuple[int, int],
    beat: Callable[[], bool],
) -> list[bytes] | None:
    """Fills the book from the queues. Returns the identities of transactions that have ended but
    for their op record: a killed process had put their final records. `span` is where the log
    begins and ends; all of it is in the queues. None if the process is to end first.
    """
    queues, book, progress = reading.queues, reading.book, state.progress
    assert queues.halves is not None
    book.following = begin_at(queues.halves, progress.half_next)
    named: set[int] = set()
    if queues.ops is not None:
        begin_at(queues.ops, progress.op_next)
        for place, offset, size in queues.read(queues.ops, queues.ops.end.load()):
            if beat():
                return None
            record = queues.record(offset, size)
            found = [] if record is None else read_op(record)
            state.op_seen(place, found)
            named.update(found)
    book.done.update(n for n in named if n >= book.following)
    if queues.decisions is not None:
        begin_at(queues.decisions, progress.decision_next)
    ended: list[bytes] = []
    more = True
    while more:
        if beat():
            return None
        copies, more = reading.halves(int(time.time() * 1000), named)
        ended += [half.identity for half in copies]
    overtaken = _overtaken(reading, named, beat)
    floor = book.floor
    if overtaken is None or floor is None:
        return None if overtaken is None else ended
    ended += overtaken
    least, end = span
    begin = max(progress.scan_from, floor, least)
    for half_offset, record in find_finals(log, begin, end, beat):
        # An earlier half has ended already. This is so for most of what RocketMQ has committed.
        identity = _ended(reading, half_offset, record, end) if half_offset >= floor else None
        if identity is not None:
            ended.append(identity)
    return None if beat() else ended


def _overtaken(reading: Reading, named: set[int], beat: Callable[[], bool]) -> list[bytes] | None:
    """The identities of open transactions of which an op record names a later half. RocketMQ names
    only the last one, and what it knew of the others dies with it. None if the process is to end
    first.
    """
    book, queues, ended = reading.book, reading.queues, list[bytes]()
    first = book.first
    for place in sorted(n for n in named if first <= n < book.following) if len(book) else ():
        if beat():
            return None
        entry = queues.entry(queues.halves, place)
        record = None if entry is None else queues.record(*entry)
        try:
            half = None if record is None else book.same(read_half(record))
        except NotAHalf:
            continue
        if half is not None and half.queue_offset < place:
            ended.append(half.identity)
    return ended


def _ended(reading: Reading, half_offset: int, record: Record, end: int) -> bytes | None:
    """The identity of the open transaction that a final record has ended. Any producer may write a
    number into its record, and a final of an older transaction ends no other that is like it.
    """
    source = reading.queues.record_at(half_offset, end)
    if source is None:
        return None
    try:
        named = read_half(source)
    except NotAHalf:
        return None
    half = reading.book.same(named)
    if half is None or named.queue_offset not in half.queue_offsets:
        return None
    same = (source.body_crc, source.born_timestamp, source.properties.get("UNIQ_KEY"))
    found = (record.body_crc, record.born_timestamp, record.properties.get("UNIQ_KEY"))
    goals = (half.topic, TRANS_CHECK_MAX_TIME_TOPIC)
    return half.identity if record.topic in goals and same == found else None


def find_finals(
    log: CommitLog, begin: int, end: int, beat: Callable[[], bool]
) -> Iterator[tuple[int, Record]]:
    """The records in the log from offset `begin` to `end` that were made of halves, each with the
    log offset of its half. Ends early if the process is to end.
    """
    position = begin
    while position < end:
        base = log.base_of(position)
        view = memoryview(log.open(base).mapping)
        stop = min(end - base, log.file_size)
        at = position - base
        while at < stop:
            if beat():
                return
            places, reached = finals(view, at, min(stop, at + _STEP), _GIVEN_UP)
            if reached == at:  # a record longer than the step, or the end of the file
                places, reached = finals(view, at, stop, _GIVEN_UP)
            for place, half in places:
                yield half, decode_record(view, place, check_crc=False)
            if reached == at:
                break
            at = reached
        position = base + log.file_size
