"""`Reading`: reads halves into the book, and decisions about them. Both are checked here."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final

from ...store.transactions._parts import ENDED, OTHER_GROUP, screen
from ...store.transactions.book import Book
from ...store.transactions.decisions import KINDS, RAW_NAMES, Decision
from ...store.transactions.half import RAW_KEYS, Half, NotAHalf
from ...store.transactions.refused import Refused
from .queues import Queues
from .waiting import Decided

#: So many entries of a queue are read in one turn, so that garbage does not hold up the rest.
TURN: Final = 4096
#: With more open transactions no further halves are read, until some end or are given up.
MOST_OPEN: Final = 1_000_000
_BATCH: Final = 256
_BEAT_EVERY: Final = 64
#: So many identities of halves that decisions have named are kept: each hashes the whole body.
_MOST_KNOWN: Final = 65_536
#: What the verdicts of `screen` are called in the store's log.
_VERDICTS: Final = (
    "no decision",
    "there is no half",
    "the half is of another group",
    "the transaction has ended",
)


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
        self._identities: dict[int, bytes] = {}

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
            if (place % _BEAT_EVERY == 0 and self._beat()) or self.full:
                queue.cursor = place
                break
            book.following = place + 1
            if place in book.done:
                book.done.discard(place)
                continue
            half = self._half(place, offset, size)
            if half is not None:
                book.add(half, now_ms)
                if half.copy_of in ended:
                    found.append(half)
        book.following = queue.cursor
        return found, queue.cursor < end and not self.full

    def _half(self, place: int, offset: int, size: int) -> Half | None:
        try:
            return self.queues.half(place, offset, size)
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
        stop = min(end, queue.cursor + TURN)
        while queue.cursor < stop and len(found) < most and not self._beat():
            entries = queue.following(min(_BATCH, stop - queue.cursor))
            if not entries:
                break
            decisions, looked_at = self._screened(entries, queue.cursor, most - len(found))
            behind = queue.cursor + looked_at
            for place, commit, queue_offset, offset, group in decisions:
                queue.cursor = place
                try:
                    decision = Decision(commit, queue_offset, offset, group, "")
                    half = self._transaction(decision)
                except Unread:  # the next turns read it
                    return list(found.values()), True
                if half is not None and half.identity not in found and half.identity not in taken:
                    found[half.identity] = Decided(place, half.identity, commit)
            queue.cursor = behind
        return list(found.values()), queue.cursor < end

    def _screened(
        self, entries: list[tuple[int, int, int]], place: int, most: int
    ) -> tuple[list[tuple[int, bool, int, int, str]], int]:
        """The decisions among `entries`, which begin at queue offset `place`, that may be about an
        open transaction, and how many entries were looked at.
        """
        queues, book = self.queues, self.book
        halves = queues.halves
        bounds = (0, 0, 0)
        if halves is not None:
            bounds = (halves.start.load(), book.following, halves.end.load())
        found, looked_at, counts, first = screen(
            entries, place, most, newest=book.newest, tokens=book.tokens, bounds=bounds,
            log=queues.log_file, queue=queues.halves_file,
            decision=RAW_NAMES, half=RAW_KEYS, kinds=KINDS,
        )  # fmt: skip
        for why, count, offset in zip(_VERDICTS, counts, first, strict=True):
            if count:
                self._refused.note(why, f"log offset {offset}", count)
        return found, looked_at

    def _transaction(self, decision: Decision) -> Half | None:
        """The open transaction that a decision is about. None, with a line in the log, if there is
        none, or the decision is not its producers'. Raises Unread.
        """
        half = self.book.at(decision.offset)
        if half is None:
            return self._older(decision)
        why = ""
        if not decision.group or half.group != decision.group:
            why = _VERDICTS[OTHER_GROUP]
        elif half.queue_offset != decision.queue_offset:
            why = "the half is not at this queue offset"
        if why:
            where = f"log offset {decision.offset}, group {decision.group[:255]!a}"
            self._refused.note(why, where)
            return None
        return half

    def _older(self, decision: Decision) -> Half | None:
        """The same for a decision that names another half than the newest one of a transaction. It
        has been screened: there is such a half, and its producers have decided.
        """
        book, place = self.book, decision.queue_offset
        unread = place >= book.following and place not in book.done
        if unread and not self.full:
            raise Unread
        identity = None if unread else self._identities.get(decision.offset)
        if identity is None:
            self._beat()  # a body may be long
            entry = self.queues.entry(self.queues.halves, place)
            named = None if entry is None else self._half(place, *entry)
            if named is None:
                return None
            if unread and book.same(named) is None:
                book.add(named)
                return named
            identity = named.identity
            while len(self._identities) >= _MOST_KNOWN:
                del self._identities[next(iter(self._identities))]
            self._identities[decision.offset] = identity
        half = book.find(identity)
        if half is None:
            self._refused.note(_VERDICTS[ENDED], f"log offset {decision.offset}")
        return half
