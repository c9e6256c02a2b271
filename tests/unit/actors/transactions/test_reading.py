"""Reading halves and decisions. Any client can write any bytes there, by the million."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from support.halves import HOST, half_record

from silomq.actors.transactions import reading as module
from silomq.actors.transactions.reading import TURN, Reading
from silomq.store.consumequeue.queue import ENTRY
from silomq.store.record.format import Record, decode_record, encode_record
from silomq.store.record.properties import encode_properties
from silomq.store.transactions.book import Book
from silomq.store.transactions.decisions import Decision, encode_decision
from silomq.store.transactions.half import Half, half_in
from silomq.store.transactions.refused import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator


class Queue:
    """A queue whose records are given."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.cursor = 0
        self.start: Any = SimpleNamespace(load=lambda: 0)
        self.end: Any = SimpleNamespace(load=lambda: len(self.records))

    def following(self, count: int) -> list[tuple[int, int, int]]:
        found = self.records[self.cursor : self.cursor + count]
        return [(one.physical_offset, one.total_size, 0) for one in found]


class Queues:
    """Like those of the process, without files. Record number n of the log lies at 1000 * n. Each
    record has a log file of its own.
    """

    def __init__(self) -> None:
        self.halves = Queue()
        self.decisions = Queue()
        self.log: dict[int, Record] = {}
        self.files: dict[int, bytes] = {}

    def put(self, queue: Queue, record: Record) -> Record:
        offset = 1000 * (1 + len(self.log))
        found = replace(record, queue_offset=len(queue.records), physical_offset=offset)
        self.files[offset] = encode_record(
            found.topic.encode(),
            found.body,
            encode_properties(found.properties),
            born_timestamp=found.born_timestamp,
            born_host=HOST,
            store_timestamp=found.store_timestamp,
        )
        found = replace(found, total_size=len(self.files[offset]))
        self.log[offset] = found
        queue.records.append(found)
        return found

    def read(self, queue: Queue, end: int) -> Iterator[tuple[int, int, int]]:
        while queue.cursor < end:
            queue.cursor += 1
            found = queue.records[queue.cursor - 1]
            yield found.queue_offset, found.physical_offset, found.total_size

    def entry(self, queue: Queue, queue_offset: int) -> tuple[int, int] | None:
        if not 0 <= queue_offset < len(queue.records):
            return None
        found = queue.records[queue_offset]
        return found.physical_offset, found.total_size

    def half(self, place: int, offset: int, size: int) -> Half | None:
        return half_in(memoryview(self.files[offset]), 0, (place, offset, size))

    def log_file(self, offset: int) -> tuple[int, bytes] | None:
        return (offset, self.files[offset]) if offset in self.files else None

    def halves_file(self, position: int) -> tuple[int, bytes]:
        packed = [ENTRY.pack(one.physical_offset, one.total_size, 0) for one in self.halves.records]
        return 0, b"".join(packed)


class Rig:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.queues = Queues()
        self.book = Book(0, 6000, 30_000)
        self.refused = Refused(SimpleNamespace(warning=self._note))
        queues: Any = self.queues
        self.stops = False
        self.reading = Reading(self.book, queues, self.refused, lambda: self.stops)

    def _note(self, _what: str, **about: object) -> None:
        self.said.append(str(about["reason"]))

    def half(self, key: str, **more: Any) -> Record:
        return self.queues.put(self.queues.halves, half_record(UNIQ_KEY=key, **more))

    def decide(self, half: Record, *, commit: bool = True, **more: Any) -> None:
        decision = Decision(commit, half.queue_offset, half.physical_offset, "pg", "")
        made = encode_decision(
            decision._replace(**more), born_ms=1, born_host=HOST, store_host=HOST, record_crc=False
        )
        self.queues.put(self.queues.decisions, decode_record(made))

    def turn(self, most: int = 256, taken: tuple[bytes, ...] = ()) -> list[tuple[int, bool]]:
        """The place and the kind of each decision to obey."""
        self.reading.halves(5000)
        found, _ = self.reading.decisions(taken, most)
        return [(one.place, one.commit) for one in found]

    def reasons(self) -> list[str]:
        self.refused._said_at = -10.0
        self.refused.say()
        said, self.said = self.said, []
        return said


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_the_first_decision_about_a_transaction_counts(rig: Rig) -> None:
    a, b = rig.half("a"), rig.half("b")
    rig.decide(a, commit=False)
    rig.decide(b)
    rig.decide(a)
    rig.decide(b, commit=False)
    assert rig.turn() == [(0, False), (1, True)]
    assert rig.reasons() == []
    rig.decide(a)
    identity = rig.book.at(a.physical_offset).identity  # type: ignore[union-attr]
    assert rig.turn(taken=(identity,)) == []


def test_a_decision_may_name_any_half_of_the_transaction(rig: Rig) -> None:
    first = rig.half("a")
    rig.half("a", TRANSACTION_CHECK_TIMES="1")
    rig.decide(first)
    assert rig.turn() == [(0, True)]
    assert len(rig.book) == 1


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"group": "other"}, "the half is of another group"),
        ({"queue_offset": 1}, "the half is not at this queue offset"),
        ({"queue_offset": 99}, "the half is not at this queue offset"),
        ({"offset": 2000, "queue_offset": 1}, "there is no half"),
        ({"offset": 2000, "queue_offset": 0}, "there is no half"),  # another half lies there
        ({"offset": 1010}, "there is no half"),  # within the record
        ({"offset": 10**15, "queue_offset": 10**15}, "there is no half"),
        ({"offset": 0}, "there is no half"),
    ],
    ids=str,
)
def test_forged_decisions_move_nothing(rig: Rig, more: dict[str, Any], reason: str) -> None:
    half = rig.half("a")
    rig.queues.put(rig.queues.decisions, half_record(topic="other"))
    rig.decide(half, **more)
    assert rig.turn() == []
    assert set(rig.reasons()) == {"no decision", reason}
    assert len(rig.book) == 1


def test_a_decision_about_what_has_ended_moves_nothing(rig: Rig) -> None:
    half = rig.half("a")
    rig.decide(half)
    assert rig.turn() == [(0, True)]
    rig.book.end(rig.book.at(half.physical_offset))  # type: ignore[arg-type]
    rig.decide(half)
    assert rig.turn() == []
    assert rig.reasons() == ["the transaction has ended"]


def test_halves_without_a_group_belong_to_nobody(rig: Rig) -> None:
    half = rig.half("a", PGROUP=None)
    rig.decide(half)
    (decision,) = rig.queues.decisions.records
    named = {name: text for name, text in decision.properties.items() if name != "PGROUP"}
    rig.queues.put(rig.queues.decisions, replace(decision, properties=named))
    assert rig.turn() == []
    assert rig.reasons() == ["the half is of another group"]


def test_garbage_is_read_in_portions(rig: Rig) -> None:
    """So that checks, and the end of the process, do not wait for all of it."""
    garbage = half_record(topic="other")
    for _ in range(TURN + 10):
        rig.queues.put(rig.queues.halves, garbage)
        rig.queues.put(rig.queues.decisions, garbage)
    assert rig.reading.halves(0) == ([], True)
    assert rig.reading.decisions((), 256) == ([], True)
    assert rig.queues.halves.cursor == rig.queues.decisions.cursor == TURN
    assert rig.reading.halves(0) == ([], False)
    assert rig.reading.decisions((), 256) == ([], False)
    assert len(rig.book) == 0
    assert rig.book.first == TURN + 10
    assert sorted(rig.reasons()) == ["no decision", "no half"]


def test_a_decision_waits_until_its_half_has_been_read(rig: Rig) -> None:
    *_, last = [rig.half(str(i)) for i in range(TURN + 1)]
    rig.decide(last)
    assert rig.turn() == []
    assert rig.queues.decisions.cursor == 0
    assert rig.turn() == [(0, True)]


def test_as_many_as_are_asked_for(rig: Rig) -> None:
    for i in range(10):
        rig.decide(rig.half(str(i)))
    assert rig.turn(4) == [(n, True) for n in range(4)]
    assert rig.turn(100) == [(n, True) for n in range(4, 10)]


def test_the_end_of_the_process_loses_nothing(rig: Rig) -> None:
    rig.decide(rig.half("a"))
    rig.stops = True
    assert rig.turn() == []
    assert rig.queues.halves.cursor == rig.queues.decisions.cursor == rig.book.following == 0
    rig.stops = False
    assert rig.turn() == [(0, True)]


def test_too_many_open_transactions(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more are read. One that is decided all the same is obeyed, and then not read again."""
    monkeypatch.setattr(module, "MOST_OPEN", 3)
    found = [rig.half(str(i)) for i in range(6)]
    rig.decide(found[5])
    assert rig.turn() == [(0, True)]
    assert rig.book.following == 3
    assert len(rig.book) == 4
    rig.book.end(rig.book.at(found[5].physical_offset))  # type: ignore[arg-type]
    rig.decide(found[5])
    assert rig.turn() == []
    assert rig.reasons() == ["the transaction has ended"]
    for half in found[:3]:
        rig.book.end(rig.book.at(half.physical_offset))  # type: ignore[arg-type]
    assert rig.turn() == []
    assert [one.queue_offset for one in rig.book] == [3, 4]
    assert rig.book.done == set()


def test_copies_of_rocketmqs_end_with_what_they_are_copies_of(rig: Rig) -> None:
    rig.half("a")
    rig.half("a", TRAN_PREPARED_QUEUE_OFFSET="0")
    rig.half("b", TRAN_PREPARED_QUEUE_OFFSET="9")
    rig.book.done.add(0)
    ended, more = rig.reading.halves(0, {0})
    assert [one.queue_offset for one in ended] == [1]
    assert not more
    assert len(rig.book) == 2


def test_one_line_a_second(rig: Rig) -> None:
    rig.refused.note("r", "here")
    rig.refused.note("r", "there")
    rig.refused.say()
    rig.refused.note("r", "later")
    rig.refused.say()
    assert rig.said == ["r"]
