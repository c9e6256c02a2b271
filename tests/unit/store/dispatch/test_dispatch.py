"""The dispatch kernel, through its files, against the twins: queues and index byte for byte."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest
from support.frames import LONG_TOPIC, Batch
from support.store_files import DAY_MS, Store, batches, message
from support.twins import DELAY_LEVELS_MS

from silomq.conf.settings import Settings
from silomq.store.dispatch import _dispatch as kernel
from silomq.store.errors import Corrupt, StoreError
from silomq.store.index.file import HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize("seed", range(6))
def test_queues_and_index_are_the_twins(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    store = Store(
        tmp_path,
        batches(seed),
        file_size=rng.choice((2500, 6000, 1 << 20)),
        slots=rng.choice((1, 7, 500)),
        entries=rng.choice((3, 17, 60, 5000)),
    )
    store.dispatch()
    store.check()


@pytest.mark.parametrize("seed", range(3))
def test_in_small_steps_the_same(seed: int, tmp_path: Path) -> None:
    store = Store(tmp_path, batches(seed, 60), entries=9)
    dispatching = store.dispatching()
    for end in store.ends:
        store.dispatch(end, dispatching)
        assert store.control.load("dispatched") == end
    store.check()


@pytest.mark.parametrize("seed", range(4))
def test_a_replacement_writes_the_same_again(seed: int, tmp_path: Path) -> None:
    """Reput dies anywhere behind a published state: what it wrote on is undone or written again."""
    rng = random.Random(seed)
    store = Store(tmp_path, batches(seed, 80), entries=rng.choice((5, 23, 400)))
    for _ in range(15):
        # Published states of this round: an earlier one's index files may be gone.
        states = []
        dispatching = store.dispatching()
        for end in [end for end in store.ends if end > dispatching.position]:
            store.dispatch(end, dispatching)
            states.append(store.control.progress())
        store.check()
        store.control.set_progress(rng.choice(states))
        again = store.dispatching()
        assert store.control.load("dispatched") == again.position
        for end in sorted(rng.choices(store.ends[1:-1], k=2)):
            if end > again.position:
                store.dispatch(end, again)
        store.control.set_progress(states[0])
    store.dispatch()
    store.check()


def test_every_published_state_is_one_to_go_on_from(tmp_path: Path) -> None:
    """Also when an index file is full in the middle of a record's keys."""
    store = Store(tmp_path, [message(KEYS="a b c") for _ in range(30)], entries=12)
    store.control.own("wrote").store(store.ends[-1])
    states = [store.control.progress()]
    dispatching = store.dispatching()
    while not dispatching.step(10**9):
        states.append(store.control.progress())
    store.check()
    assert len(states) > 30 * 3 / 11
    for state in reversed(states):
        assert state.dispatched in store.ends
        store.control.set_progress(state)
        store.dispatch()
        store.check()


def test_what_readers_have_seen_stays_while_it_is_dispatched_again(tmp_path: Path) -> None:
    store = Store(tmp_path, [message() for _ in range(80)])
    begin = store.control.progress()
    store.dispatch()
    store.control.set_progress(begin)
    store.dispatch(store.ends[40])
    slot = store.table.slot("a", 0)
    assert store.table.queue_word(slot, "max_offset").load() == 80


@pytest.mark.parametrize("seed", range(4))
def test_undo_gives_back_the_published_index(seed: int, tmp_path: Path) -> None:
    store = Store(tmp_path, batches(seed, 60), slots=5, entries=1000)
    dispatching = store.dispatching()
    for end in store.ends[1:31]:
        store.dispatch(end, dispatching)
    published, progress = store.index_bytes(), store.control.progress()
    store.dispatch()
    after = store.control.progress()
    store.control.set_progress(progress)
    undone = store.dispatching().undone
    assert undone == after.index.count - progress.index.count
    assert undone > 20
    assert store.index_bytes() == published


@pytest.mark.parametrize("slot_written", [False, True])
def test_a_put_that_was_cut_short_is_undone(slot_written: bool, tmp_path: Path) -> None:
    store = Store(tmp_path, [message(KEYS=key) for key in "abcabc"], slots=2, entries=50)
    store.dispatch()
    (published,) = store.index_bytes()
    (name,) = store.index.names()
    count = store.control.progress().index.count
    mapping = memoryview(store.index.open(name))
    slot = HEADER_SIZE + 4 * (12345 % 2)
    (previous,) = struct.unpack_from(">i", mapping, slot)
    at = HEADER_SIZE + 4 * 2 + 20 * count
    struct.pack_into(">iqii", mapping, at, 12345, 10**6, 1, previous)
    if slot_written:
        struct.pack_into(">i", mapping, slot, count)
    assert store.dispatching().undone == 1
    assert store.index_bytes() == [published]


def test_a_slot_whose_entry_was_lost_keeps_its_chain(tmp_path: Path) -> None:
    """After a power cut: the page with the slot reached the disk, that with the entry did not."""
    store = Store(tmp_path, [message(KEYS="key") for _ in range(4)], slots=3, entries=50)
    store.dispatch(store.ends[2])
    (published,) = store.index_bytes()
    progress = store.control.progress()
    store.dispatch()
    (name,) = store.index.names()
    mapping = memoryview(store.index.open(name))
    at = HEADER_SIZE + 4 * 3 + 20 * progress.index.count
    mapping[at : at + 40] = bytes(40)
    store.control.set_progress(progress)
    store.dispatching(power_lost=True)
    assert store.index_bytes() == [published]


@pytest.mark.parametrize("seed", range(8))
def test_an_index_of_which_any_part_was_lost_is_the_published_one(
    seed: int, tmp_path: Path
) -> None:
    """Behind what is durable each byte of slots and entries may be old or new."""
    rng = random.Random(seed)
    store = Store(tmp_path, batches(seed, 60), slots=rng.choice((5, 97)), entries=1000)
    store.dispatch(store.ends[rng.randrange(5, 40)])
    (published,), progress = store.index_bytes(), store.control.progress()
    store.dispatch()
    (name,) = store.index.names()
    mapping = memoryview(store.index.open(name))
    for at in range(HEADER_SIZE, len(published), 4):
        if rng.random() < 0.5:
            mapping[at : at + 4] = published[at : at + 4]
    store.control.set_progress(progress)
    store.dispatching(power_lost=True)
    assert store.index_bytes() == [published]


def test_index_files_behind_the_published_one_go(tmp_path: Path) -> None:
    store = Store(tmp_path, [message(KEYS="a b c") for _ in range(10)], entries=8)
    store.dispatch(store.ends[2])
    progress = store.control.progress()
    store.dispatch()
    assert len(store.index.names()) == 5
    store.control.set_progress(progress)
    dispatching = store.dispatching()
    assert len(store.index.names()) == 1
    assert dispatching.undone == 1
    store.dispatch(None, dispatching)
    store.check()


@pytest.mark.parametrize(
    ("delay", "code"),
    [
        ("1", DAY_MS + 1000),
        ("3", DAY_MS + 10_000),
        ("18", DAY_MS + 7_200_000),
        ("19", DAY_MS + 7_200_000),
        ("007", DAY_MS + 180_000),
        ("0", 2598919),
        ("-1", 2598919),
    ],
)
def test_delayed_messages_carry_their_time(delay: str, code: int, tmp_path: Path) -> None:
    topic = "SCHEDULE_TOPIC_XXXX"
    store = Store(tmp_path, [message(topic, DELAY=delay, TAGS="TagA"), message(TAGS="TagA")])
    store.dispatch()
    store.check()
    entries = {queue: data[:20] for queue, data in store.queue_bytes().items()}
    assert int.from_bytes(entries[topic, 0][12:], "big", signed=True) == code
    assert int.from_bytes(entries["a", 0][12:], "big", signed=True) == 2598919


@pytest.mark.parametrize("delay", ["+3", "0000000003", "2147483647"])
def test_delay_levels_are_parsed_as_java_does(delay: str, tmp_path: Path) -> None:
    store = Store(tmp_path, [message("SCHEDULE_TOPIC_XXXX", DELAY=delay, TAGS="TagA")])
    store.dispatch()
    store.check()


def test_prepared_and_rolled_back_messages(tmp_path: Path) -> None:
    flags = (0, 0x4, 0x8, 0xC, 0)
    store = Store(tmp_path, [message(sys_flag=flag, KEYS=f"k{flag}") for flag in flags])
    store.dispatch()
    store.check()
    assert store.control.load("dispatch_count") == 3
    (index,) = store.index_bytes()
    assert int.from_bytes(index[36:40], "big") == 5


TEXTS = (
    "",
    "a",
    "abc",
    "abcd",
    "abcde",
    "TagA||TagB",
    "äöü",
    "größe",
    "鍵",
    "𝄞",
    "a𝄞b鍵c",
    "x" * 99,
)
RAW_PROPERTIES = (
    b"",
    b"TAGS\x01a",
    b"TAGS\x01\x02",
    b"\x01a\x02TAGS\x01b\x02",
    b"TAGS\x01a\x02TAGS\x01b\x02",
    b"TAGS\x01a\x02TAGS\x01\x02",
    b"TAGS\x02KEYS\x01k\x02",
    b"\x02\x02TAGS\x01a\x01b\x02",
    b"TAGSX\x01a\x02XTAGS\x01b\x02tags\x01c\x02",
    b"KEYS\x01 a  b \x02UNIQ_KEY\x01u v\x02",
    b"UNIQ_KEY\x01u\x02KEYS\x01u u\x02UNIQ_KEY\x01w",
    b"KEYS\x01" + b"k " * 16_000 + b"\x02",
    b"TAG",
    b"\x01\x02\x01\x02",
)


@pytest.mark.parametrize("topic", ["a", LONG_TOPIC])
def test_hashes_are_javas(topic: str, tmp_path: Path) -> None:
    store = Store(tmp_path, [message(topic, TAGS=t, KEYS=t) for t in TEXTS if t], slots=9973)
    store.dispatch()
    store.check()


@pytest.mark.parametrize("raw", RAW_PROPERTIES, ids=range(len(RAW_PROPERTIES)))
def test_properties_are_found_by_rocketmqs_rules(raw: bytes, tmp_path: Path) -> None:
    batch = Batch("a", 0, [{"body": b"", "properties": raw}])
    store = Store(tmp_path, [batch] * 2, file_size=1 << 17, slots=101, entries=40_000)
    store.dispatch()
    store.check()


def test_random_properties_and_hashes(tmp_path: Path) -> None:
    rng = random.Random(8)
    pieces = ["TAGS", "KEYS", "UNIQ_KEY", "\x01", "\x02", " ", "x", "ß", "鍵", "𝄞", "KEY"]
    made = []
    for _ in range(400):
        raw = "".join(rng.choices(pieces, (2, 2, 2, 6, 5, 3, 3, 1, 1, 1, 1), k=rng.randrange(20)))
        made.append(Batch("a", 0, [{"body": b"", "properties": raw.encode()}]))
    store = Store(tmp_path, made, file_size=1 << 20, slots=997, entries=5000)
    store.dispatch()
    store.check()


def test_an_unknown_queue_stops_or_is_added(tmp_path: Path) -> None:
    store = Store(tmp_path, [message(), message("topic-two"), message()], topics={"a": 1})
    with pytest.raises(StoreError, match="topic-two"):
        store.dispatch()
    assert store.control.load("dispatched") == store.ends[1]

    def add(topic: str, queue_id: int, offset: int) -> bool:
        assert offset == store.ends[1]
        store.table.add_topic(topic, write_nums=queue_id + 1, read_nums=1, perm=6)
        return True

    store.dispatch(None, store.dispatching(unknown_queue=add))
    store.check()


def damage_magic(data: bytearray, at: int) -> None:
    data[at + 4] ^= 1


def damage_length(data: bytearray, at: int) -> None:
    data[at + 3] ^= 1


@pytest.mark.parametrize("damage", [damage_magic, damage_length])
def test_what_is_no_record_is_an_error(
    damage: Callable[[bytearray, int], None], tmp_path: Path
) -> None:
    store = Store(tmp_path, [message() for _ in range(9)])
    mapping = store.log.open(0, writable=True).mapping
    data = bytearray(memoryview(mapping))
    damage(data, store.ends[5])
    memoryview(mapping)[:] = data
    with pytest.raises(Corrupt) as caught:
        store.dispatch()
    assert caught.value.offset == store.ends[5] == store.control.load("dispatched")


def test_readers_of_a_queue_that_grew_are_told(tmp_path: Path) -> None:
    store = Store(tmp_path, [message(), message("topic-two")])
    store.dispatch(store.ends[1])
    words = [store.control.arrival(store.table.slot(name, 0)) for name in ("a", "topic-two")]
    assert [word.load() for word in words] == [1, 0]
    store.dispatch()
    assert [word.load() for word in words] == [1, 1]


def test_delay_levels_are_the_twins() -> None:
    assert Settings().message_delay_level == DELAY_LEVELS_MS
    assert kernel.CAUGHT_UP == 0
