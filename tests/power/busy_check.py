"""What must be true of the busy store after a power cut, whatever was under way.

In the log of the image lies what was not cleaned away; it begins where clean had said at the
latest. Of that,

- what was acknowledged under SYNC_FLUSH is there, everything is there once, queues are dense;
- every queue goes on behind all offsets that were acknowledged, also if its messages are gone;
- each delayed message that is in the log was delivered, or will be: one of the two, and once. The
  next schedule process decides which, so it is asked. A cancel that was acknowledged holds;
- each transaction was committed, or will be, as it was decided, and once;
- a deleted topic is gone with all its messages, a topic of the same name has its own alone.
"""

from __future__ import annotations

import re
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from power.busy_store import DOOMED, LATER, Known, delayed_body, doomed_body
from power.busy_transactions import TOPICS, check_transactions
from support.checking.files import expected_entries, index_entries
from support.checking.messages import check_messages
from support.checking.stored import Stored
from support.twins import twin_dispatch

from silomq.actors.schedule.entering import Entering
from silomq.actors.schedule.state import State
from silomq.store.commitlog.log import CommitLog
from silomq.store.commitlog.log_reader import LogReader
from silomq.store.consumequeue.queue import QueueFiles
from silomq.store.delay.timers import Timers
from silomq.store.delay.waiting_queue import DelayedQueue
from silomq.store.disk.paths import StoreFolders
from silomq.store.names import SCHEDULE_TOPIC, TIMER_TOPIC
from silomq.store.topics.deletions import Deletions

if TYPE_CHECKING:
    from power.started_store import Started

    from silomq.store.record.format import Record

_DELAYED = re.compile(rb"delayed:(\d+):")
_DOOMED = re.compile(rb"doomed:(\d+):(\d+)")


def check_busy(store: Started, known: Known, begin: int, *, durable: bool) -> int:
    """The rules above. `begin` is the least offset of the log that clean had allowed itself until
    the cut. The number of messages.
    """
    first = store.control.load("min_offset")
    assert first <= begin, f"the log begins at {first}, and clean has said {begin}"
    records = [record for record in store.records() if record.physical_offset >= first]
    _check_sent(store, records, known, first, durable=durable)
    _check_delayed(records, _left(store), known, first, durable=durable)
    check_transactions(store, records, known.begun, known.decided, first, durable=durable)
    visible = _check_doomed(store, records, known, first, durable=durable)
    _check_queues(store, visible)
    return len(records)


def _check_sent(
    store: Started, records: list[Record], known: Known, first: int, *, durable: bool
) -> None:
    others = (LATER, DOOMED, SCHEDULE_TOPIC, TIMER_TOPIC, *TOPICS)
    found = [Stored.of_record(record) for record in records if record.topic not in others]
    # From 1 on: something may have been cleaned away even if the first file is there again.
    check_messages(found, known.sent, others=True, may_lose=not durable, start=max(1, first))
    if durable:
        for ack in known.sent.acks:
            slot = store.table.slot(ack.topic, ack.queue_id)
            assert slot >= 0, f"the queue is gone of {ack}"
            following = store.table.queue_word(slot, "next").load()
            assert following > ack.queue_offset, f"queue offset {following} will come again: {ack}"


def _left(store: Started) -> list[Record]:
    """The messages that the next schedule process of this store would deliver sooner or later."""
    settings = store.settings
    log: list[str] = []

    def noted(what: str, **about: object) -> None:
        # What was delivered and then cleaned away is no loss.
        if int(str(about.get("offset", 2**63))) >= store.control.load("min_offset"):
            log.append(f"{what}: {about}")

    logger: Any = SimpleNamespace(info=lambda *_, **__: None, warning=noted, error=noted)
    with StoreFolders(settings.store_path) as folders:
        files = QueueFiles(folders.consume_queue, settings.mapped_file_size_consume_queue)
        world: Any = SimpleNamespace(
            folders=folders,
            pool=None,
            settings=settings,
            log=CommitLog(folders, settings.mapped_file_size_commit_log),
        )
        queues = {}
        for name in (SCHEDULE_TOPIC, TIMER_TOPIC):
            topic = store.table.find(name)
            queues[name] = [
                DelayedQueue(files, store.table, store.control, name, queue_id, slot)
                for queue_id, slot in enumerate(topic.slots if topic else ())
            ]
        levels, timed = queues[SCHEDULE_TOPIC], next(iter(queues[TIMER_TOPIC]), None)
        timers = Timers(folders.ours)
        state = State(world, store.control, timers, logger, lambda: False)
        state.take_over(levels, timed)
        reader = LogReader(folders.commit_log, settings.mapped_file_size_commit_log)
        entering = Entering(timers, state, reader, logger)
        while entering.enter(timed, (), 0) != float("inf"):
            pass
        places = []
        for queue, following in zip(levels, state.progress.next, strict=False):
            queue.cursor = following
            while (entry := queue.peek()) is not None:
                places.append(entry[:2])
                queue.cursor += 1
        timers.look_ahead(2**61)
        places += [(entry.offset, entry.size) for entry in timers.near]
        found = [entering.record(*place) for place in places]
        left = [r for r in found if r is not None and state.delivered_at(r) < 0]
        timers.folder.close()
    assert not log, f"the schedule process has something to say: {log[:3]}"
    return left


def _numbers(records: list[Record]) -> Counter[int]:
    found: Counter[int] = Counter()
    for record in records:
        match = _DELAYED.match(record.body)
        assert match, f"nobody sent this: {record}"
        assert record.body == delayed_body(int(match[1]))
        found[int(match[1])] += 1
    return found


def _check_delayed(
    records: list[Record], left: list[Record], known: Known, first: int, *, durable: bool
) -> None:
    waiting = _numbers(
        [r for r in records if r.topic in {SCHEDULE_TOPIC, TIMER_TOPIC} and _DELAYED.match(r.body)]
    )
    delivered = _numbers([record for record in records if record.topic == LATER])
    coming = _numbers(left)
    for found in (waiting, delivered, coming):
        assert set(found) <= set(known.delayed), "nobody sent these"
        assert max(found.values(), default=1) == 1, f"twice: {found.most_common(3)}"
    assert not delivered.keys() & coming.keys(), "they would be delivered again"
    assert coming.keys() <= waiting.keys()
    if durable:
        acknowledged = {number for number, place in known.waiting.items() if place >= first}
        lost = acknowledged - waiting.keys()
        assert not lost, f"{len(lost)} delayed messages are lost: {sorted(lost)[:5]}"
    for number in waiting:
        times = delivered[number] + coming[number]
        how = known.delayed[number]
        if number in known.cancelled:
            assert delivered[number] == 0, f"{number} was delivered long before it was due"
            if durable and known.cancelled[number]:
                assert coming[number] == 0, f"{number} was cancelled, and would be delivered"
        else:
            assert times == 1, f"delayed message {number} ({how}) comes {times} times"
            assert how != "far" or coming[number], f"{number} was delivered long before it was due"


def _check_doomed(
    store: Started, records: list[Record], known: Known, first: int, *, durable: bool
) -> list[Record]:
    """The records without those of deleted topics."""
    with StoreFolders(store.settings.store_path) as folders:
        below = Deletions.read(folders.ours).below(DOOMED)
    there: dict[int, dict[int, int]] = {}
    for record in records:
        if record.topic == DOOMED:
            match = _DOOMED.match(record.body)
            assert match
            generation, number = int(match[1]), int(match[2])
            assert record.body == doomed_body(generation, number)
            assert number not in there.setdefault(generation, {}), f"{record.body!r} is there twice"
            there[generation][number] = record.physical_offset
            gone = record.physical_offset < below
            assert gone or generation > known.deleted or not durable, (
                f"a message of a deleted topic is back: {record.body!r}"
            )
            assert not gone or generation <= known.deleting, f"{record.body!r} was not deleted"
    if durable:
        for generation, messages in known.doomed.items():
            acked = {number: at for number, at in messages.items() if at >= first}
            found = there.get(generation, {})
            assert acked.items() <= found.items(), f"messages of generation {generation} are lost"
    if known.deleting == known.deleted and known.deleted + 1 not in known.doomed and durable:
        found_topic = store.table.find(DOOMED)
        assert found_topic is None or known.deleted < 0, "the deleted topic is there again"
        folder = store.settings.store_path / "consumequeue" / DOOMED
        assert not folder.exists(), "the deleted topic's queues are there again"
    return [r for r in records if r.topic != DOOMED or r.physical_offset >= below]


def _check_queues(store: Started, records: list[Record]) -> None:
    """Queues and index lead to all records in the log, and to nothing else in it."""
    settings, table, control = store.settings, store.table, store.control
    assert control.load("dispatched") == control.load("wrote")
    expected = twin_dispatch(records, tuple(settings.message_delay_level))
    with StoreFolders(settings.store_path) as folders:
        files = QueueFiles(folders.consume_queue, settings.mapped_file_size_consume_queue)
        for topic in table.topics():
            for queue_id, slot in enumerate(topic.slots):
                wanted = expected.pop((topic.name, queue_id), {})
                least, end = (
                    table.queue_word(slot, w).load() for w in ("min_offset", "max_offset")
                )
                assert table.queue_word(slot, "next").load() == end
                assert sorted(wanted) == list(range(least, end)), f"{topic.name} {queue_id}"
                for queue_offset, entry in wanted.items():
                    assert files.entry(topic.name, queue_id, queue_offset) == entry
    assert not expected, f"queues are missing: {sorted(expected)}"
    keys = expected_entries(records)
    places = {record.physical_offset for record in records}
    found = index_entries(settings.store_path, settings.max_hash_slot_num)
    assert Counter({e: n for e, n in found.items() if e[1] in places}) == keys, "the index"
