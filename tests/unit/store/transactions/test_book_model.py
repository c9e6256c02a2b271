"""The book against a plain list of the half queue, whatever is read, put, named and ended."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.halves import half

from silomq.store.transactions.book import Book

KEYS = st.sampled_from("abcde")


class Model(RuleBasedStateMachine):
    """`queue` has the key and the checks of each half, `done` what op records name. `known` are the
    places that the process knows: it has read them, or put them itself.
    """

    checks: ClassVar[int] = 3

    def __init__(self) -> None:
        super().__init__()
        self.queue: list[tuple[str, int]] = []
        self.done: set[int] = set()
        self.known: set[int] = set()
        self.book = Book(0, 100, 200)

    def half_at(self, place: int) -> object:
        key, checks = self.queue[place]
        return half(place, key, checks=checks)

    @rule(key=KEYS)
    def a_producer_puts_a_half(self, key: str) -> None:
        self.queue.append((key, 0))

    @rule(count=st.integers(1, 4))
    def the_process_reads(self, count: int) -> None:
        for place in range(self.book.following, min(len(self.queue), self.book.following + count)):
            self.book.following = place + 1
            if place in self.book.done:
                assert place in self.done
                self.book.done.discard(place)
                continue
            self.known.add(place)
            self.book.add(self.half_at(place))  # type: ignore[arg-type]

    @rule(key=KEYS)
    def a_check_puts_a_half_once_more(self, key: str) -> None:
        known = self.book.same(half(0, key))
        if known is not None:
            self.queue.append((key, known.checks + 1))
            self.known.add(len(self.queue) - 1)
            self.book.add(self.half_at(len(self.queue) - 1))  # type: ignore[arg-type]

    @rule()
    def op_records_name_older_halves(self) -> None:
        for one in self.book.stale():
            self.done.update(one.older)
            self.book.superseded(one, list(one.older))

    @rule(key=KEYS)
    def a_transaction_ends(self, key: str) -> None:
        known = self.book.same(half(0, key))
        if known is not None:
            self.done.update(known.queue_offsets)
            self.book.end(known)

    @rule()
    def a_successor_reads_it_all_again(self) -> None:
        following = self.book.following
        self.book = Book(self.book.first, 100, 200)
        self.book.done.update(n for n in self.done if n >= self.book.following)
        self.known = {n for n in self.known if n < self.book.following}
        self.the_process_reads(max(1, following - self.book.following))

    @invariant()
    def the_book_says_what_is_open(self) -> None:
        open_ = sorted(self.known - self.done)
        keys = {self.queue[place][0] for place in open_}
        assert len(self.book) == len(keys)
        assert sorted(n for one in self.book for n in one.queue_offsets) == open_
        first = min([*open_, self.book.following])
        assert self.book.first == first
        assert self.book.floor == (1000 * open_[0] if open_ else None)
        for one in self.book:
            mine = [n for n in open_ if self.queue[n][0] == self.queue[one.queue_offset][0]]
            assert one.queue_offset == max(mine)
            assert self.book.at(one.offset) is one


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
