"""What must be true of the busy store's transactions after a power cut: none is committed twice or
against its decision, and none that was acknowledged is lost. The next process `transactions`
decides what becomes of those that are open, so it is asked.
"""

from __future__ import annotations

import re
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from silomq.actors.transactions.queues import Queues
from silomq.actors.transactions.reading import Reading
from silomq.actors.transactions.state import State
from silomq.actors.transactions.take_over import take_over
from silomq.store.commitlog.log import CommitLog
from silomq.store.disk.paths import StoreFolders
from silomq.store.names import TRANS_HALF_TOPIC, TRANS_TOPICS
from silomq.store.transactions.book import Book
from silomq.store.transactions.refused import Refused

if TYPE_CHECKING:
    from power.started_store import Started

    from silomq.store.record.format import Record

#: Where committed messages go, and all topics that are checked here.
PAID = "paid"
TOPICS = (PAID, *TRANS_TOPICS)
COMMIT, ROLLBACK, OPEN = "commit", "rollback", "open"
_BODY = re.compile(rb"transaction:(\d+):")


def transaction_body(number: int) -> bytes:
    return b"transaction:%d:" % number + b"t" * (number * 31 % 150)


def _number(body: bytes) -> int:
    match = _BODY.match(body)
    assert match, f"nobody sent this: {body!r}"
    assert body == transaction_body(int(match[1]))
    return int(match[1])


def _coming(store: Started) -> tuple[Counter[int], Counter[int]]:
    """The transactions that the next process will commit, and those that are open."""
    settings = store.settings
    log: list[str] = []

    def noted(what: str, **about: object) -> None:
        log.append(f"{what}: {about}")

    logger: Any = SimpleNamespace(info=noted, warning=lambda *_, **__: None, error=noted)
    with StoreFolders(settings.store_path) as folders:
        world: Any = SimpleNamespace(
            folders=folders,
            pool=None,
            settings=settings,
            table=store.table,
            control=store.control,
            log=CommitLog(folders, settings.mapped_file_size_commit_log),
        )
        queues = Queues(world, logger, 1 << 20)
        queues.find()
        if queues.halves is None:
            return Counter(), Counter()
        book = Book(0, 1, 1)
        reading = Reading(book, queues, Refused(logger), lambda: False)
        state = State(world, store.control, logger)
        span = (store.control.load("min_offset"), store.control.load("wrote"))
        ended = take_over(reading, state, world.log, span, lambda: False)
        assert ended is not None
        taken, coming = dict.fromkeys(ended), Counter[int]()
        more = True
        while more:
            decided, more = reading.decisions(taken, 256)
            for one in decided:
                taken[one.identity] = None
                half = book.find(one.identity)
                if one.commit and half is not None:
                    record = queues.record(half.offset, half.size)
                    assert record is not None
                    coming[_number(record.body)] += 1
        left = [half for half in book if half.identity not in taken]
        records = [queues.record(half.offset, half.size) for half in left]
    assert not log, f"the process has something to say: {log[:3]}"
    return coming, Counter(_number(r.body) for r in records if r is not None)


def check_transactions(
    store: Started,
    records: list[Record],
    kinds: dict[int, str],
    decided: dict[int, int],
    first: int,
    *,
    durable: bool,
) -> None:
    """`kinds` are those that were begun. `decided` has the log offset of the half of each whose
    decision was acknowledged. The log begins at `first`.
    """
    halves = Counter(_number(r.body) for r in records if r.topic == TRANS_HALF_TOPIC)
    done = Counter(_number(record.body) for record in records if record.topic == PAID)
    coming, still_open = _coming(store)
    for found in (halves, done, coming, still_open):
        assert set(found) <= set(kinds), "nobody began these"
    for number in set(done) | set(coming):
        assert kinds[number] == COMMIT, f"transaction {number} was {kinds[number]}, and comes"
        times = done[number] + coming[number]
        assert times == 1, f"transaction {number} comes {times} times"
    for number, offset in decided.items():
        if durable and offset >= first:
            assert number not in still_open, f"the decision about {number} is lost"
            comes = number in done or number in coming
            assert comes == (kinds[number] == COMMIT), f"transaction {number} is lost"
