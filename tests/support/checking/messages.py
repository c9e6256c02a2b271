"""The rules for the messages of a store, whoever read them and whatever was killed before.

- what was acknowledged is there exactly once, where the store said, every field as it was sent;
- what was published one-way is there exactly once;
- what was refused is not there, nor what nobody sent;
- queue offsets have no gap, a queue is in the order of the log, and each producer's messages are in
  a queue in the order in which they were sent.

Three things may excuse a store, and each caller that says so has a reason: messages whose fate is
unknown may be there (`others`: the store died under its producers), acknowledged ones may be
missing (`may_lose`: a power cut without SYNC_FLUSH), and what lies before `start` is not looked at
(cleaning removed it, or it was checked before).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from support.checking.files import check_index, log_records
from support.checking.stored import Known, Stored, content_of, known_of

from silomq import Admin, Consumer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from support.checking.sent import Key, Sent
    from support.harness import StoreProcess
    from support.twins import Queue

    from silomq import MessageView
    from silomq.store.record.format import Record


def one_at_least(messages: list[MessageView]) -> list[MessageView]:
    assert messages
    return messages


def read_topic(path: Path, topic: str) -> list[MessageView]:
    """Everything in a topic, by way of a consumer that starts at the earliest message."""
    found: list[MessageView] = []
    with Consumer(path, topic) as consumer:
        while (messages := consumer.poll(10_000)) or consumer.lag():
            # One may have come since. What lags must be there to be read.
            found += messages or one_at_least(consumer.poll(10_000, 30.0))
        assert consumer.missed == 0
    return found


def acknowledged(sent: Sent) -> list[Known]:
    """What must be read of the acknowledged messages. Each went to the queue it was sent to."""
    begun = {message.key: message for message in sent.begun}
    assert len(begun) == len(sent.begun), "a message was sent twice"
    for ack in sent.acks:
        asked = begun[ack.key]
        assert (ack.topic, ack.queue_id) == (asked.topic, asked.queue_id), ack
    return [known_of(begun[ack.key], ack, ack.message_id) for ack in sent.acks]


def unanswered(
    found: Iterable[Stored], known: Iterable[Known], sent: Sent, *, others: bool
) -> list[Known]:
    """The found messages that no answer names. Asserts that each was sent, may be there, and is
    there once.
    """
    places = {k.physical_offset for k in known}
    seen = {k.sha256 for k in known}
    strangers = [message for message in found if message.physical_offset not in places]
    if not strangers:
        return []
    begun = {content_of(message).sha256: message for message in sent.begun}
    refused, oneway = set(sent.refused), set(sent.oneway)
    more = []
    for stranger in strangers:
        assert stranger.sha256 in begun, f"nobody sent this: {stranger}"
        assert stranger.sha256 not in seen, f"is there twice: {stranger}"
        seen.add(stranger.sha256)
        message = begun[stranger.sha256]
        assert message.key not in refused, f"was refused, and is there: {stranger}"
        assert others or message.key in oneway, f"was neither answered nor one-way: {stranger}"
        more.append(known_of(message, stranger, stranger.unique_key))
    return more


def check_found(
    found: Sequence[Stored], known: Sequence[Known], *, may_lose: bool = False, start: int = 0
) -> None:
    """Asserts that exactly the known messages were read, every field right, in order."""
    found = [message for message in found if message.physical_offset >= start]
    by_place = {message.physical_offset: message for message in found}
    assert len(by_place) == len(found), "two messages were read in one place"
    keys = [message.unique_key for message in found if message.unique_key is not None]
    assert len(set(keys)) == len(keys), "a UNIQ_KEY is there twice"
    wanted = {k.physical_offset: k for k in known if k.physical_offset >= start}
    count = sum(k.physical_offset >= start for k in known)
    assert len(wanted) == count, "two messages were acknowledged for one place"
    missing = wanted.keys() - by_place.keys()
    if not may_lose:
        examples = [wanted[place] for place in sorted(missing)[:3]]
        assert not missing, f"{len(missing)} messages are lost, among them {examples}"
    extra = by_place.keys() - wanted.keys()
    assert not extra, f"{len(extra)} messages that nobody knows of: {sorted(extra)[:5]}"
    for place, message in by_place.items():
        wanted[place].check(message)
    _check_queues([wanted[place] for place in by_place], from_zero=start == 0)


def queues_of(known: Iterable[Known]) -> dict[Queue, list[Known]]:
    """Each queue's messages in the order of their queue offsets."""
    queues: dict[Queue, list[Known]] = defaultdict(list)
    for k in sorted(known, key=lambda k: k.queue_offset):
        queues[k.topic, k.queue_id].append(k)
    return queues


def _check_queues(known: Iterable[Known], *, from_zero: bool) -> None:
    """Queue offsets are dense, and log and producers agree with their order."""
    for queue, messages in queues_of(known).items():
        first = 0 if from_zero else messages[0].queue_offset
        offsets = [k.queue_offset for k in messages]
        assert offsets == list(range(first, first + len(messages))), f"queue offsets of {queue}"
        places = [k.physical_offset for k in messages]
        assert places == sorted(places), f"{queue} is not in the order of the log"
        last: dict[int, int] = {}
        for k in messages:
            if k.key is not None:
                producer, sequence = k.key
                assert sequence > last.get(producer, -1), f"{queue}: order of producer {producer}"
                last[producer] = sequence


def check_messages(
    found: Sequence[Stored],
    sent: Sent,
    *,
    others: bool = False,
    may_lose: bool = False,
    start: int = 0,
) -> list[Known]:
    """Holds what was read against what was sent, by the rules above; all that is known now."""
    assert sent.errors == []
    known = acknowledged(sent)
    known += unanswered(found, known, sent, others=others)
    if start == 0:
        gone = set(sent.oneway) - _keys(known)
        assert not gone, f"{len(gone)} one-way messages are lost, among them {sorted(gone)[:5]}"
    check_found(found, known, may_lose=may_lose, start=start)
    return known


def _keys(known: Iterable[Known]) -> set[Key]:
    return {k.key for k in known if k.key is not None}


def check_store(
    store: StoreProcess,
    sent: Sent,
    topics: Iterable[str],
    *,
    others: bool = False,
    may_lose: bool = False,
    beside: str = "",
    start: int = 0,
) -> list[Record]:
    """Holds a running store against what was sent: what consumers read, the log, the index. Its
    records, in the order of the log.

    The index is not looked at where something was removed: its files go later than the log's.
    `beside` is a topic whose messages are not of a load, and are the caller's to check.
    """
    store.await_dispatch()
    with Admin(store.path) as admin:
        there = [info.topic for info in admin.topics()]
    # A crash may come before a topic's first message; what was acknowledged is missed below.
    views = [view for topic in topics if topic in there for view in read_topic(store.path, topic)]
    consumed = [Stored.of_view(view) for view in views]
    known = check_messages(consumed, sent, others=others, may_lose=may_lose, start=start)
    records = log_records(store)
    logged = [Stored.of_record(record) for record in records if record.topic != beside]
    check_found(logged, known, may_lose=may_lose, start=start)
    assert {m.physical_offset for m in logged} == {m.physical_offset for m in consumed}
    if start == 0:
        check_index(store, records)
    return records
