"""`Book`: the transactions that are open, as the half queue and the op queue tell.

It holds plain values and reads no file. The process `transactions` fills it from the queues, asks
it what is to be done, and tells it what was done. `silo transactions` fills one to list it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from .half import Half


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
        self._by_offset: dict[int, Half] = {}
        #: Queue offsets behind `following` of halves that are done already.
        self.done: set[int] = set()
        self._due: list[tuple[int, int, bytes]] = []
        self._firsts: list[tuple[int, bytes]] = []

    def __len__(self) -> int:
        return len(self._by_identity)

    def __iter__(self) -> Iterator[Half]:
        """The open transactions, those with the oldest halves first."""
        return iter(sorted(self._by_identity.values(), key=lambda half: half.queue_offsets[0]))

    def add(self, half: Half) -> None:
        """Adds the half that was read last. A known transaction takes it as its newest half: its
        older ones are to be called done with it.
        """
        known = self._by_identity.get(half.identity)
        if known is not None:
            if half.queue_offset <= known.queue_offset:
                if half.queue_offset not in known.queue_offsets:
                    known.older = sorted([*known.older, half.queue_offset])
                    self._note_first(half.queue_offset, known)
                return
            self._by_offset.pop(known.offset, None)
            half.older = known.queue_offsets
        wait = self._check_every_ms if half.checks else half.immunity_ms or self._first_check_ms
        half.due_ms = half.stored_ms + wait
        self._by_identity[half.identity] = self._by_offset[half.offset] = half
        heapq.heappush(self._due, (half.due_ms, half.queue_offset, half.identity))
        self._note_first(half.queue_offset, half)

    def _note_first(self, queue_offset: int, half: Half) -> None:
        heapq.heappush(self._firsts, (queue_offset, half.identity))

    def at(self, offset: int) -> Half | None:
        """The transaction whose newest half lies at a log offset."""
        return self._by_offset.get(offset)

    def same(self, half: Half) -> Half | None:
        """The open transaction to which a half belongs."""
        return self._by_identity.get(half.identity)

    def superseded(self, half: Half, done: Iterable[int]) -> None:
        """Notes that op records call these older halves of an open transaction done."""
        gone = set(done)
        self.done.update(n for n in gone if n >= self.following)
        half.older = [queue_offset for queue_offset in half.older if queue_offset not in gone]

    def end(self, half: Half) -> None:
        """Removes a transaction: op records call all its halves done."""
        self._by_identity.pop(half.identity, None)
        self._by_offset.pop(half.offset, None)
        self.done.update(n for n in half.queue_offsets if n >= self.following)

    def put_off(self, half: Half, due_ms: int) -> None:
        """Sets another time (epoch ms) for the next check."""
        half.due_ms = due_ms
        heapq.heappush(self._due, (due_ms, half.queue_offset, half.identity))

    def due(self, now_ms: int, most: int) -> list[Half]:
        """Takes up to `most` transactions whose check is due. Each must be put off, added again
        with its new half, or ended.
        """
        found: list[Half] = []
        while self._due and len(found) < most:
            due_ms, queue_offset, identity = self._due[0]
            half = self._by_identity.get(identity)
            current = half is not None and (half.due_ms, half.queue_offset) == (
                due_ms,
                queue_offset,
            )
            if current and due_ms > now_ms:
                break
            heapq.heappop(self._due)
            if current and half is not None:
                found.append(half)
        return found

    @property
    def next_due_ms(self) -> float:
        """When the next check is due, epoch ms. It may be earlier than any, never later."""
        return self._due[0][0] if self._due else float("inf")

    @property
    def first(self) -> int:
        """All halves below this queue offset are done."""
        while self._firsts:
            queue_offset, identity = self._firsts[0]
            half = self._by_identity.get(identity)
            if half is not None and queue_offset in half.queue_offsets:
                return min(queue_offset, self.following)
            heapq.heappop(self._firsts)
        return self.following

    @property
    def floor(self) -> int | None:
        """The log offset of the first half that is needed, None without open transactions."""
        return min(self._by_offset, default=None)
