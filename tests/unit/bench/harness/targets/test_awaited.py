"""Futures of the store's client: their fates are told when answers are seen, then when the disk has
the messages.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from support.memory_store import MemoryStore, connect

from silomq.bench.harness.load._counts import Counts
from silomq.bench.harness.load._fates import Fates
from silomq.bench.harness.targets._awaited import Answers, Unsynced
from silomq.client.producing._sender import session_of
from silomq.store.status import PutMessageStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

ILLEGAL = int(PutMessageStatus.MESSAGE_ILLEGAL)
#: The store in memory puts message n there in its log.
STEP = 1000


class Waiting:
    """A window of four messages over a store in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self.sender = connect(store)
        self.flushed = store.control.own("flushed")
        self.publish, self.durable = Counts(), Counts()
        self.errors: list[Exception | str] = []
        self.fates = Fates(self.publish, self.durable, self.errors.append)
        self.unsynced = Unsynced(self.fates, self.flushed)
        self.answers = Answers(self.fates, self.unsynced, 4)

    def begin(self, late_ms: int) -> None:
        due = time.monotonic_ns() - late_ms * 1_000_000
        self.answers.add(self.sender.send_async("t", bytes(32), queue=0), due)


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    found = MemoryStore()
    yield found
    found.close()


@pytest.fixture
def waiting(store: MemoryStore) -> Iterator[Waiting]:
    found = Waiting(store)
    yield found
    session_of(found.sender).close()


def test_answers_are_taken_when_something_is_sent_or_awaited(
    store: MemoryStore, waiting: Waiting
) -> None:
    waiting.answers.wait(1.0)  # for nothing
    for _ in range(4):
        waiting.begin(0)
    began = time.monotonic()
    waiting.answers.wait(0.05)
    assert time.monotonic() - began >= 0.05
    assert waiting.publish.total == 0
    store.answer(0, ILLEGAL, 0)
    assert waiting.publish.total == 0, "nobody has looked"
    waiting.answers.wait(1.0)
    assert waiting.publish.total == 2
    assert len(waiting.errors) == 1
    assert "the store refused" in str(waiting.errors[0])
    # The places of those that were answered are used again.
    for late_ms in (10, 20):
        waiting.begin(late_ms)
    assert waiting.publish.total == 2
    store.answer(0, 0)
    waiting.begin(40)
    assert waiting.publish.total == 4
    store.answer(0, 0)
    waiting.answers.wait(1.0)
    assert waiting.publish.total == 6
    assert waiting.publish.percentiles((100,))[0] >= 40_000
    assert len(waiting.errors) == 1


def test_what_is_durable_is_told_in_the_order_of_the_log(
    store: MemoryStore, waiting: Waiting
) -> None:
    for _ in range(3):
        waiting.begin(5)
    store.answer(0, 0, 0)
    waiting.answers.wait(1.0)
    assert (waiting.publish.total, waiting.durable.total) == (3, 0)
    waiting.flushed.store(STEP)  # between the first record and the second
    waiting.unsynced.tell()
    assert waiting.durable.total == 1
    waiting.flushed.store(2 * STEP + 32)  # the body of the third, not the whole record
    waiting.unsynced.tell()
    assert waiting.durable.total == 2
    waiting.flushed.store(3 * STEP)
    waiting.unsynced.tell()
    waiting.unsynced.tell()
    assert waiting.durable.total == 3
    assert waiting.durable.percentiles((1,))[0] >= 5000


def test_sends_and_batches_that_were_acknowledged(waiting: Waiting) -> None:
    flushed = 0
    now = time.monotonic_ns()
    body = (now - 3_000_000).to_bytes(8, "big") + bytes(92)
    # More than there is room for at first, while the first of them become durable.
    for n in range(5000):
        waiting.unsynced.add(body, n * 100)
        if n % 3 == 0:
            flushed += 100
            waiting.flushed.store(flushed)
    assert waiting.durable.total == flushed // 100
    waiting.unsynced.add_batch([body] * 3, 500_000)
    waiting.flushed.store(500_299)
    waiting.unsynced.tell()
    assert waiting.durable.total == 5000
    waiting.flushed.store(500_300)
    waiting.unsynced.tell()
    assert waiting.durable.total == 5003
    assert 3000 <= waiting.durable.percentiles((1,))[0] < 10_000_000
