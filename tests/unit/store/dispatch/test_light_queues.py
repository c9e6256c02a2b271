"""Dispatch into light queues (LMQ) against the twin: messages that name further queues, and the
offsets there.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from support.frames import Batch
from support.store_files import Store, message
from support.twins import Queue, twin_dispatch

from silomq.store.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("%LMQ%a", "%LMQ%b", "%LMQ%c", "%LMQ%" + "d" * 60)


def light(names: str, offsets: str, topic: str = "a", **properties: str) -> Batch:
    properties |= {"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": offsets}
    return message(topic, 0, **properties)


def mixed(seed: int, count: int = 400) -> list[Batch]:
    """Messages of which some are in up to four light queues, as RocketMQ numbers them."""
    rng = random.Random(seed)
    ends = dict.fromkeys(NAMES, 0)
    made = []
    for _ in range(count):
        names = rng.sample(NAMES, rng.choice((0, 0, 1, 2, 4)))
        if not names:
            made.append(message("topic-two", KEYS="k", TAGS="t"))
            continue
        made.append(light(",".join(names), ",".join(str(ends[n]) for n in names), KEYS="x y"))
        for name in names:
            ends[name] += 1
    return made


def adding(store: Store, **arguments: Any) -> Any:
    """A dispatcher that adds the queues which it does not know, as a start does."""

    def add(topic: str, queue_id: int, _: int) -> bool:
        store.table.add_topic(topic, write_nums=queue_id + 1, read_nums=queue_id + 1, perm=6)
        return True

    return store.dispatching(unknown_queue=add, **arguments)


def check(store: Store) -> None:
    counts = {queue: len(entries) for queue, entries in twin_dispatch(store.records).items()}
    store.next = counts
    store.check()


def dispatched(path: Path, *batches: Batch) -> dict[Queue, list[int]]:
    """The numbers of the messages to which each light queue leads, checked against the twin."""
    store = Store(path, batches)
    store.dispatch(None, adding(store))
    starts = store.ends[:-1]
    found = {}
    for queue, data in store.queue_bytes().items():
        entries = [data[at : at + 20] for at in range(0, len(data), 20)]
        places = [int.from_bytes(entry[:8], "big") for entry in entries if any(entry)]
        found[queue] = [starts.index(place) for place in places]
    assert store.control.load("dispatch_count") == sum(map(len, found.values()))
    del found["a", 0]
    return found


@pytest.mark.parametrize("seed", range(3))
def test_each_queue_has_its_messages_at_the_offsets_that_they_say(
    seed: int, tmp_path: Path
) -> None:
    store = Store(tmp_path, mixed(seed), file_size=9000, entries=70)
    store.dispatch(None, adding(store))
    check(store)
    lengths = [len(data) for queue, data in store.queue_bytes().items() if queue[0] in NAMES]
    assert max(lengths) > 2000, "no light queue needed a second file"


@pytest.mark.parametrize("seed", range(4))
def test_a_replacement_neither_doubles_nor_skips(seed: int, tmp_path: Path) -> None:
    """Reput dies behind any published state, and each queue's `max_offset` is ahead of it."""
    rng = random.Random(seed)
    store = Store(tmp_path, mixed(seed, 150), entries=5000)
    dispatching = adding(store)
    states = []
    for end in store.ends[1:]:
        store.dispatch(end, dispatching)
        states.append(store.control.progress())
    for _ in range(6):
        store.control.set_progress(rng.choice(states))
        store.dispatch(None, store.dispatching())
        check(store)


def test_windows_that_come_and_go_change_nothing(tmp_path: Path) -> None:
    """A message may be in more light queues than a process may map windows."""
    store = Store(tmp_path, mixed(5, 150), entries=9)
    dispatching = adding(store)
    dispatching._window_limit = 2
    store.dispatch(None, dispatching)
    check(store)


def test_the_first_entry_lies_where_the_message_says(tmp_path: Path) -> None:
    """The queue's earlier files, and their records, are gone."""
    store = Store(tmp_path, [light("%LMQ%a", "7"), light("%LMQ%a", "8")])
    store.dispatch(None, adding(store))
    data = store.queue_bytes()["%LMQ%a", 0]
    blank = (0).to_bytes(8, "big") + (2**31 - 1).to_bytes(4, "big") + bytes(8)
    assert data[:140] == 7 * blank
    assert [int.from_bytes(data[at : at + 8], "big") for at in (140, 160)] == store.ends[:2]
    assert store.table.queue_word(store.table.slot("%LMQ%a", 0), "max_offset").load() == 9


@pytest.mark.parametrize(
    ("names", "offsets", "found"),
    [
        ("%LMQ%a,%LMQ%b", "0,0", {"%LMQ%a": [0], "%LMQ%b": [0]}),
        ("%LMQ%a,%LMQ%b,,", "0,0,", {"%LMQ%a": [0], "%LMQ%b": [0]}),
        ("%LMQ%a,%LMQ%b", "0", {}),
        ("%LMQ%a", "0,0", {}),
        ("%LMQ%a,x", "0,", {}),
        ("x,%LMQ%a", "0,0", {"x": [0], "%LMQ%a": [0]}),
        ("%LMQ%a,%LMQ%a", "0,0", {"%LMQ%a": [0]}),
        ("%LMQ%a/b,%LMQ%a", "0,0", {"%LMQ%a": [0]}),
        ("..,%LMQ%a", "0,0", {"%LMQ%a": [0]}),
        ("%LMQ%a,%LMQ%b", "x,0", {"%LMQ%b": [0]}),
        ("%LMQ%a", "-1", {}),
        ("%LMQ%a", "9999999999999999999", {}),
        ("%LMQ%a", "0000000000000000000", {"%LMQ%a": [0]}),
        ("%LMQ%" + "a" * 251, "0", {}),
        (",", ",", {}),
    ],
)
def test_lists_are_read_as_rocketmq_does(
    names: str, offsets: str, found: dict[str, list[int]], tmp_path: Path
) -> None:
    assert dispatched(tmp_path, light(names, offsets)) == {(n, 0): at for n, at in found.items()}


@pytest.mark.parametrize("topic", ["%RETRY%g", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX"])
def test_messages_of_some_topics_are_in_no_light_queue(topic: str, tmp_path: Path) -> None:
    found = dispatched(tmp_path, light("%LMQ%a", "0", topic), message())
    assert set(found) == {(topic, 0)}


@pytest.mark.parametrize(
    ("said", "found"),
    [("0,1,2", [0, 1, 2]), ("0,2,3", [0, 1, 2]), ("0,0,1", [0, 1]), ("0,1,1", [0, 1])],
)
def test_what_says_another_place_lies_where_rocketmq_puts_it(
    said: str, found: list[int], tmp_path: Path
) -> None:
    """RocketMQ 5.3 counts on in the light queues of a message that it does not dispatch. The next
    message says a later place then, and lies at the queue's end.
    """
    made = [light("%LMQ%a", number) for number in said.split(",")]
    assert dispatched(tmp_path, *made)["%LMQ%a", 0] == found


def test_what_says_another_place_is_not_doubled(tmp_path: Path) -> None:
    store = Store(tmp_path, [light("%LMQ%a", number) for number in "0356"])
    store.dispatch(store.ends[1], adding(store))
    before = store.control.progress()
    store.dispatch()
    first = store.queue_bytes()
    for _ in range(2):
        store.control.set_progress(before)
        store.dispatch()
        assert store.queue_bytes() == first
    check(store)


def test_half_messages_are_in_no_light_queue(tmp_path: Path) -> None:
    half = Batch("a", 0, [{**light("%LMQ%a", "0").messages[0], "sys_flag": 0x4}])
    assert dispatched(tmp_path, half, light("%LMQ%a", "0"))["%LMQ%a", 0] == [1]


def test_an_unknown_light_queue_stops_or_is_passed(tmp_path: Path) -> None:
    store = Store(tmp_path, [light("%LMQ%a,%LMQ%b", "0,0", KEYS="k")])
    with pytest.raises(StoreError, match="light queue %LMQ%a"):
        store.dispatch()
    store.dispatch(None, store.dispatching(unknown_queue=lambda *_: False))
    assert set(store.queue_bytes()) == {("a", 0)}
    assert store.control.load("dispatch_count") == 1


def test_readers_of_light_queues_are_told(tmp_path: Path) -> None:
    store = Store(tmp_path, [light("%LMQ%a", "0")])
    dispatch = partial(store.dispatch, None, adding(store))
    dispatch()
    assert store.control.arrival(store.table.slot("%LMQ%a", 0)).load() == 1
