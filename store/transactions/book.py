"""`Book`: the transactions that are open, as the half queue and the op queue tell.

It holds plain values and reads no file. The process `transactions` fills it from the queues, asks
it what is to be done, and tells it what was done. `silo transactions` fills one to list it.

Both heaps may hold entries of transactions that have ended or have a newer half. They go when they
come to the top, or when they are more than the open transactions.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Final

from .half import Half

#: A start reads so many halves at most, besides two for each open transaction.
MOST_BEHIND: Final = 100_000
#: So many entries of a heap are no reason to look through it.
_FEW: Final = 1024
#: A clock that goes back by less than this was only adjusted.
_STEP_MS: Final = 1000


class Book:
    """All open transactions from queue offset `following` of the half queue on.

    `following` is the next half to read. `first_check_ms` and `check_every_ms` say when the
    producers of a transaction are asked: so long after the first half was stored (unless the
    message has an immunity time), and after each check.
    """

    def __init__(self, following: int, first_check_ms: int, check_every_ms: int) -> None:
        self.following = following
        self._first_check_ms = first_check_ms
        self._check_every_ms = check_every_ms
        self._by_identity: dict[bytes, Half] = {}
        #: By the log offset of its newest half.
        self.newest: dict[int, Half] = {}
        #: How many open transactions have this token. A half with another one belongs to none.
        self.tokens: dict[int, int] = {}
        #: Queue offsets behind `following` of halves that are done already.
        self.done: set[int] = set()
        #: Transactions with halves that an op record must name now.
        self._stale: dict[bytes, None] = {}
        self._due: list[tuple[int, int, bytes]] = []
        # Queue offset and log offset of halves, and their transactions.
        self._firsts: list[tuple[int, int, bytes]] = []
        self._looked_ms = 0

    def __len__(self) -> int:
        return len(self._by_identity)

    def __iter__(self) -> Iterator[Half]:
        """The open transactions, those with the oldest halves first."""
        return iter(sorted(self._by_identity.values(), key=lambda half: half.queue_offsets[0]))

    # -- halves come and go

    def add(self, half: Half, now_ms: int | None = None) -> None:
        """Adds a half. A known transaction takes the one with the greatest queue offset as its
        newest. No check is later than its waiting time from `now_ms` on: the clock that stamped
        the half may have been wrong.
        """
        known = self._by_identity.get(half.identity)
        if known is not None and half.queue_offset <= known.queue_offset:
            if half.queue_offset != known.queue_offset and half.queue_offset not in known.older:
                known.older.append(half.queue_offset)
                self._note(half.queue_offset, half.offset, known)
            return
        half.due_ms = self._first_due(half, now_ms)
        if known is not None:
            self.newest.pop(known.offset, None)
            half.older = known.older
            half.older.append(known.queue_offset)
            if half.checks == known.checks and known.copy_of < 0 <= known.due_ms:
                half.due_ms = min(half.due_ms, known.due_ms) if half.due_ms else 0
        else:
            self.tokens[half.token] = self.tokens.get(half.token, 0) + 1
        self._by_identity[half.identity] = self.newest[half.offset] = half
        self._push_due(half)
        self._note(half.queue_offset, half.offset, half)

    def _note(self, queue_offset: int, offset: int, half: Half) -> None:
        heapq.heappush(self._firsts, (queue_offset, offset, half.identity))
        if half.older:
            self._stale[half.identity] = None

    def _wait_ms(self, half: Half) -> int:
        return self._check_every_ms if half.checks else half.immunity_ms or self._first_check_ms

    def _first_due(self, half: Half, now_ms: int | None) -> int:
        """When a new half is due. A copy of RocketMQ's is due at once, to be put once more."""
        if half.copy_of >= 0:
            return 0
        since = half.stored_ms if half.checks else half.first_ms or half.stored_ms
        return (since if now_ms is None else min(since, now_ms)) + self._wait_ms(half)

    def at(self, offset: int) -> Half | None:
        """The transaction whose newest half lies at a log offset."""
        return self.newest.get(offset)

    def same(self, half: Half) -> Half | None:
        """The open transaction to which a half belongs."""
        return self._by_identity.get(half.identity)

    def find(self, identity: bytes) -> Half | None:
        """The open transaction with this identity."""
        return self._by_identity.get(identity)

    def stale(self) -> list[Half]:
        """The open transactions with older halves, which op records must name now. An op record
        that names the half before a copy of RocketMQ's would end its transaction.
        """
        found = [self._by_identity.get(identity) for identity in self._stale]
        return [half for half in found if half is not None and half.older and half.copy_of < 0]

    def superseded(self, half: Half, done: Iterable[int]) -> None:
        """Notes that op records call these older halves of an open transaction done."""
        gone = set(done)
        self.done.update(n for n in half.older if n in gone and n >= self.following)
        half.older = [queue_offset for queue_offset in half.older if queue_offset not in gone]
        if not half.older:
            self._stale.pop(half.identity, None)

    def end(self, half: Half) -> None:
        """Removes a transaction: op records call all its halves done."""
        if self._by_identity.pop(half.identity, None) is not None:
            left = self.tokens.pop(half.token) - 1
            if left:
                self.tokens[half.token] = left
        self.newest.pop(half.offset, None)
        self._stale.pop(half.identity, None)
        self.done.update(n for n in half.queue_offsets if n >= self.following)

    # -- checks

    def _push_due(self, half: Half) -> None:
        heapq.heappush(self._due, (half.due_ms, half.queue_offset, half.identity))
        if len(self._due) > 2 * len(self._by_identity) + _FEW:
            self._sort_due()

    def _sort_due(self) -> None:
        found = self._by_identity.items()
        self._due = [(half.due_ms, half.queue_offset, identity) for identity, half in found]
        heapq.heapify(self._due)

    def put_off(self, half: Half, due_ms: int) -> None:
        """Sets another time (epoch ms) for the next check."""
        half.due_ms = due_ms
        self._push_due(half)

    def due(self, now_ms: int, most: int) -> list[Half]:
        """Takes up to `most` transactions whose check is due. Each must be put off, added again
        with its new half, or ended.
        """
        if now_ms < self._looked_ms - _STEP_MS:
            for one in self._by_identity.values():
                one.due_ms = min(one.due_ms, now_ms + self._wait_ms(one))
            self._sort_due()
        self._looked_ms = now_ms
        found: list[Half] = []
        while self._due and len(found) < most:
            due_ms, queue_offset, identity = self._due[0]
            half = self._by_identity.get(identity)
            if half is not None and (half.due_ms, half.queue_offset) == (due_ms, queue_offset):
                if due_ms > now_ms:
                    break
                # Another entry of the same time must not give it out again.
                half.due_ms = -1
                found.append(half)
            heapq.heappop(self._due)
        return found

    @property
    def next_due_ms(self) -> float:
        """When the next check is due, epoch ms. It may be earlier than any, never later."""
        return self._due[0][0] if self._due else float("inf")

    # -- progress

    def behind(self, most: int) -> list[Half]:
        """Up to `most` transactions that hold the progress back too far: their halves must be put
        once more at the end of the queue. A start reads all halves from the first open one on.
        """
        limit = self.following - MOST_BEHIND - 2 * len(self)
        if self.first >= limit:
            return []
        found: dict[bytes, Half] = {}
        for queue_offset, _, identity in heapq.nsmallest(2 * most, self._firsts):
            one = self._by_identity.get(identity)
            if one is not None and one.queue_offset == queue_offset < limit:
                found[identity] = one
        return list(found.values())[:most]

    @property
    def first(self) -> int:
        """All halves below this queue offset are done."""
        self._drop_firsts()
        return min(self._firsts[0][0], self.following) if self._firsts else self.following

    @property
    def floor(self) -> int | None:
        """The log offset of the first half that is not done, None without open transactions."""
        self._drop_firsts()
        return self._firsts[0][1] if self._firsts else None

    def _drop_firsts(self) -> None:
        while self._firsts:
            queue_offset, _, identity = self._firsts[0]
            half = self._by_identity.get(identity)
            if half is not None and (
                queue_offset == half.queue_offset or queue_offset in half.older
            ):
                return
            heapq.heappop(self._firsts)
