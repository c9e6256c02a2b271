"""`Reading`: reads halves into the book, and decisions about them. Both are checked here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container
from typing import Final

from ...store.record.format import Record
from ...store.transactions.book import Book
from ...store.transactions.decisions import Decision, read_decision
from ...store.transactions.half import Half, NotAHalf, read_half
from ...store.transactions.refused import Refused
from .queues import Queues
from .waiting import Decided

#: So many entries of a queue are read in one turn, so that garbage does not hold up the rest.
TURN: Final = 4096
#: With more open transactions no further halves are read, until some end or are given up.
MOST_OPEN: Final = 1_000_000


class Unread(Exception):
    """A decision names a half that has not been read."""


class Reading:
    """Reads on at the cursors of `queues`. `beat` is the process's heartbeat, and says whether it
    is to end.
    """

    def __init__(
        self, book: Book, queues: Queues, refused: Refused, beat: Callable[[], bool]
    ) -> None:
        self.book = book
        self.queues = queues
        self._refused = refused
        self._beat = beat

    @property
    def full(self) -> bool:
        """Whether there are too many open transactions to read of more."""
        return len(self.book) >= MOST_OPEN

    # -- halves

    def halves(self, now_ms: int, ended: Container[int] = ()) -> tuple[list[Half], bool]:
        """Reads up to 4,096 halves. Returns those that have ended although no op record names them,
        and whether there are more to read. `ended` are queue offsets in op records: RocketMQ names
        there the half of which another one is a copy.
        """
        queue, book = self.queues.halves, self.book
        assert queue is not None
        found: list[Half] = []
        end = queue.end.load()  # SYNC: queue-max observe
        for place, offset, size in self.queues.read(queue, min(end, queue.cursor + TURN)):
            if self._beat() or self.full:
                queue.cursor = place
                break
            book.following = place + 1
            if place in book.done:
                book.done.discard(place)
                continue
            record = self.queues.record(offset, size)
            half = None if record is None else self._half(record)
            if half is not None:
                half = dataclasses.replace(half, queue_offset=place, offset=offset, size=size)
                book.add(half, now_ms)
                if half.copy_of in ended:
                    found.append(half)
        book.following = queue.cursor
        return found, queue.cursor < end and not self.full

    def _half(self, record: Record) -> Half | None:
        try:
            return read_half(record)
        except NotAHalf as error:
            self._refused.note("no half", error.why)
            return None

    # -- decisions

    def decisions(self, taken: Container[bytes], most: int) -> tuple[list[Decided], bool]:
        """Up to `most` decisions that are to be obeyed, and whether there are more to read. The
        first about a transaction counts; those in `taken` have one.
        """
        queue = self.queues.decisions
        if queue is None:
            return [], False
        found: dict[bytes, Decided] = {}
        end = queue.end.load()  # SYNC: queue-max observe
        for place, offset, size in self.queues.read(queue, min(end, queue.cursor + TURN)):
            if self._beat() or len(found) == most:
                queue.cursor = place
                break
            record = self.queues.record(offset, size)
            decision = None if record is None else read_decision(record)
            if decision is None:
                self._refused.note("no decision", f"the record at offset {offset}")
                continue
            try:
                half = self._transaction(decision)
            except Unread:  # the next turns read it
                queue.cursor = place
                break
            if half is not None and half.identity not in found and half.identity not in taken:
                found[half.identity] = Decided(place, half.identity, decision.commit)
        return list(found.values()), queue.cursor < end

    def _transaction(self, decision: Decision) -> Half | None:
        """The open transaction that a decision is about. None, with a line in the log, if there is
        none, or the decision is not its producers'. Raises Unread.
        """
        half = self.book.at(decision.offset)
        where = f"log offset {decision.offset}, group {decision.group[:255]!a}"
        named = self._named(decision) if half is None else half
        if named is None:
            self._refused.note("there is no half", where)
            return None
        if not decision.group or named.group != decision.group:
            self._refused.note("the half is of another group", where)
            return None
        if named.queue_offset != decision.queue_offset:
            self._refused.note("the half is not at this queue offset", where)
            return None
        half = half or self.book.same(named)
        unread = named.queue_offset >= self.book.following
        if half is None and unread and named.queue_offset not in self.book.done:
            if not self.full:
                raise Unread
            half = named
            self.book.add(half)
        if half is None:
            self._refused.note("the transaction has ended", where)
        return half

    def _named(self, decision: Decision) -> Half | None:
        """The half that a decision names, if the half queue has it at that place."""
        queues = self.queues
        entry = queues.entry(queues.halves, decision.queue_offset)
        if entry is None or entry[0] != decision.offset:
            return None
        record = queues.record(*entry)
        half = None if record is None else self._half(record)
        if half is None:
            return None
        return dataclasses.replace(
            half, queue_offset=decision.queue_offset, offset=entry[0], size=entry[1]
        )
