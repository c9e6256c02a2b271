"""The producer's side of a ring, against a plain ring in memory: room, pads, results, waiting."""

from __future__ import annotations

import os
import struct
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.append_rig import RingProducer as PlainRing
from support.frames import make_frame
from support.memory_store import MemoryStore, connect, in_thread
from tidy.imports import graph

from silomq import SendTimeout
from silomq.client.producing._ring import Ring
from silomq.client.producing._sender import session_of
from silomq.shm import ring
from silomq.shm.ring import RingClosed
from silomq.store.record.format import encode_record
from silomq.store.status import AckLevel

if TYPE_CHECKING:
    from collections.abc import Iterator

CAPACITY = ring.MIN_CAPACITY


def record_of(length: int) -> bytes:
    """A record of that many bytes, at least 92."""
    return encode_record(b"t", bytes(length - 92))


def bind(ring_: Ring, store: MemoryStore, level: int = 0) -> Ring:
    ring_.bind(
        store.ring,
        store.capacity,
        store.control.memory,
        store.bell,
        level=level,
        spin_ns=1000,
        sync_timeout_ns=10**9,
    )
    return ring_


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    found = MemoryStore(CAPACITY)
    yield found
    found.close()


@pytest.fixture
def mine(store: MemoryStore) -> Ring:
    return bind(Ring(), store)


def test_an_empty_ring(mine: Ring) -> None:
    assert (mine.head, mine.tail, mine.capacity, mine.largest) == (0, 0, CAPACITY, CAPACITY // 2)
    assert (mine.generation, mine.holds, mine.watched, mine.synced) == (1, 0, 0, True)
    assert (mine.closed_by_store, mine.rejected) == (0, 0)
    assert mine.take_told() == mine.take_open() == []
    assert mine.take_unanswered() == []
    assert mine.wait_progress(), "there is nothing to wait for"


def test_frames_are_whole_lines(store: MemoryStore, mine: Ring) -> None:
    assert mine.put(record_of(100), 1, 5)
    assert mine.head == 192
    assert mine.put(record_of(128), 1, 6, wait=True)
    assert mine.head == 192 + 192
    assert store.memory.word("head") == mine.head
    first, second = store.frames()
    assert (first.length, first.kind, first.number, first.slot, first.flags) == (192, 1, 1, 5, 0)
    assert (second.slot, second.flags) == (6, 1)
    assert store.memory.result(0) == (-1, -1, -1, -1)


def test_append_is_woken_if_it_sleeps(store: MemoryStore, mine: Ring) -> None:
    assert mine.put(record_of(100), 1, 0)
    assert os.eventfd_read(store.bell) == 1
    store.control.own("append_asleep").store(0)
    assert mine.put(record_of(100), 1, 0)
    with pytest.raises(BlockingIOError):
        os.eventfd_read(store.bell)


def test_the_largest_frame_always_fits_an_empty_ring(mine: Ring) -> None:
    longest = mine.largest - ring.FRAME_HEADER
    assert mine.fits(longest)
    assert not mine.fits(longest + 1)
    assert not mine.put(record_of(longest + 1), 1, 0)
    assert mine.head == 0
    assert mine.put(record_of(longest), 1, 0)
    assert mine.put(record_of(longest), 1, 0)
    assert mine.head == CAPACITY
    assert not mine.put(record_of(100), 1, 0), "full"


def test_room_comes_back_with_answers_that_were_looked_at(store: MemoryStore, mine: Ring) -> None:
    count = 0
    while mine.put(record_of(1000), 1, 0):
        count += 1
    assert count == CAPACITY // 1088
    store.answer(0)
    assert not mine.put(record_of(1000), 1, 0), "nobody has looked"
    mine.look()
    assert mine.tail == 1088
    # The end of the ring is too short for another frame, and its begin is free.
    assert mine.put(record_of(1000), 1, 0)
    assert mine.head - mine.tail <= CAPACITY
    kinds = [frame.kind for frame in store.frames()[-2:]]
    assert kinds == [ring.KIND_PAD, ring.KIND_RECORDS]


def test_a_frame_is_not_a_line_longer_than_the_room(store: MemoryStore, mine: Ring) -> None:
    for length in (*[1000] * (CAPACITY // 1088), CAPACITY % 1088 - ring.FRAME_HEADER):
        assert mine.put(record_of(length), 1, 0)
    assert mine.head == CAPACITY
    store.answer(0)
    mine.look()
    assert mine.tail == 1088
    assert not mine.put(record_of(1088), 1, 0)
    assert mine.put(record_of(1024), 1, 0)
    assert mine.head - mine.tail == CAPACITY


def test_a_pad_is_published_while_its_frame_waits(store: MemoryStore, mine: Ring) -> None:
    while mine.put(record_of(1000), 1, 0):
        pass
    published = store.memory.word("head")
    rest = CAPACITY - published
    assert 0 < rest < 1088
    assert mine.head == CAPACITY, "the pad fills the ring"
    assert not mine.wait_room(), "no progress"
    assert store.memory.word("head") == CAPACITY
    assert store.frames()[-1][1:3] == (rest, ring.KIND_PAD)
    assert os.eventfd_read(store.bell) >= 1, "append is woken"


@given(
    steps=st.lists(
        st.integers(92, CAPACITY // 2 - 64) | st.integers(92, 3000) | st.just(0), max_size=60
    )
)
@example(steps=[32000, 92, 32000, 32000, 0, 92, 0, 0, 32000])
@example(steps=[92, 32671, 0, 0, 32641, 92])
@example(steps=[20000, 20000, 20000, 0, 0, 30000, 5000, 32000])
def test_the_ring_is_the_plain_ring(steps: list[int]) -> None:
    """A length puts a frame, 0 answers the oldest. Both rings take the same and look the same."""
    store, plain = MemoryStore(CAPACITY), PlainRing(CAPACITY)
    mine = bind(Ring(), store)
    open_frames: list[tuple[int, int, int]] = []
    for number, length in enumerate(steps):
        if length:
            frame = make_frame(record_of(length), 1, number, flags=1)
            fits = plain.room(len(frame))
            assert mine.put(record_of(length), 1, number, wait=True) == fits
            if fits:
                stamp = ring.DATA + (mine.head - len(frame)) % CAPACITY + 28
                sent_us = int.from_bytes(store.memory.view[stamp : stamp + 4], "little")
                frame = make_frame(record_of(length), 1, number, flags=1, sent_us=sent_us)
                open_frames.append((plain.place(frame), len(frame), ring.FRAME_HEADER + length))
            else:
                pad_early(plain, len(frame))
        elif open_frames:
            begin, size, _ = open_frames.pop(0)
            plain.set_word("tail", begin + size)
            store.memory.set_word("tail", begin + size)
            mine.look()
        assert store.memory.word("head") == plain.word("head")
        assert mine.head == plain.head
        assert mine.tail == plain.tail
        for begin, _, used in open_frames:  # what fills up the last line is not cleared
            at = ring.DATA + begin % CAPACITY
            assert store.memory.view[at : at + used] == plain.view[at : at + used]
    assert sum(frame.kind == ring.KIND_PAD for frame in store.frames(plain.tail)) <= 1
    store.close()


def pad_early(plain: PlainRing, length: int) -> None:
    """A frame that finds no room leaves its pad, if there is room for that: it will be the next."""
    rest = CAPACITY - plain.head % CAPACITY
    if rest < length and CAPACITY - (plain.head - plain.tail) >= rest:
        at = ring.DATA + plain.head % CAPACITY
        plain.view[at : at + 64] = struct.pack("<2I", rest, ring.KIND_PAD) + bytes(56)
        plain.head += rest


def test_rejected_and_closed_are_the_stores_words(store: MemoryStore, mine: Ring) -> None:
    store.memory.set_word("rejected", 3)
    store.memory.set_word("closed", RingClosed.BAD_HEAD)
    assert (mine.rejected, mine.closed_by_store) == (3, RingClosed.BAD_HEAD)


def test_holds_are_a_set(mine: Ring) -> None:
    mine.hold(1)
    mine.hold(4)
    mine.hold(4)
    assert mine.holds == 5
    mine.release(1)
    assert mine.holds == 4


def test_the_ring_knows_nobody_above_it() -> None:
    used = {name for name in graph()["client/producing/_ring.pyx"] if not name.endswith(".h")}
    assert used == {"client/_bell.pyx"}


# -- results


def test_only_what_lies_below_the_tail_is_answered(store: MemoryStore) -> None:
    sender = connect(store)
    futures = [sender.send_async("t", b"%d" % i, queue=0) for i in range(4)]
    frames = store.write_results(0, 0, 0)
    assert not futures[0].done(), "a result counts when the tail has passed it"
    store.memory.set_word("tail", frames[0].end - 1)
    assert not futures[0].done()
    store.memory.set_word("tail", frames[1].end)
    assert [future.done() for future in futures] == [True, True, False, False]
    assert [future.result().queue_offset for future in futures[:2]] == [0, 1]


@pytest.mark.parametrize("durable", [False, True])
def test_a_result_that_the_tail_has_not_passed_is_not_read(durable: bool) -> None:
    """Append writes results before it publishes the log's end. If it is killed between the two, its
    successor appends the frame again, perhaps elsewhere. Nobody may have seen the first result:
    neither who looks, nor who waits, nor a callback, nor a flush.
    """
    store = MemoryStore(level=int(AckLevel.DURABLE if durable else AckLevel.APPENDED))
    store.control.own("flushed").store(1 << 40)
    sender = connect(store)
    called: list[object] = []
    futures = [sender.send_async("t", b"x", queue=0) for _ in range(2)]
    store.write_results(0, 0)
    for future in futures:
        assert not future.done()
        with pytest.raises(SendTimeout):
            future.result(0.06)
    with pytest.raises(SendTimeout):
        session_of(sender).flush(0.06)
    futures[0].add_done_callback(called.append)
    with pytest.raises(SendTimeout):
        futures[0].result(0.06)
    assert called == []
    store.write_results(0, 0)  # the successor's: other offsets
    store.memory.set_word("tail", store.frames()[0].end)
    assert futures[0].result(30).queue_offset == 2
    assert not futures[1].done()
    with pytest.raises(SendTimeout):
        futures[1].result(0.06)
    assert [records for records, _, _ in session_of(sender).ring.take_unanswered()] == [
        store.frames()[1].records
    ]
    session_of(sender).close()


def test_unanswered_frames_are_taken_in_order_with_what_awaits_them(store: MemoryStore) -> None:
    sender = connect(store)
    mine = session_of(sender).ring
    sent: list[object] = []
    for i in range(300):  # more than once around the ring
        body = b"%d" % i * 100
        if i % 3:
            sent.append(sender.send_async("t", body, queue=0))
        else:
            sender.send_oneway("t", body, queue=0)
            sent.append(None)
        if len(store.records()) > 20:
            store.answer(*[0] * 15)
            mine.look()
    left = store.records()
    assert 5 < len(left) < 21
    store.answer(0, 0)  # not looked at
    found = mine.take_unanswered()
    assert [records for records, _, _ in found] == left[2:]
    assert [pending for _, _, pending in found] == sent[-len(found) :]
    assert all(count == 1 for _, count, _ in found)
    assert mine.take_open() == [], "nothing is awaited here any more"


def test_what_waits_for_a_sync_outlives_a_session(store: MemoryStore) -> None:
    sender = connect(store_of_level := MemoryStore(level=1))
    mine = session_of(sender).ring
    appended, published = (sender.send_async("t", b"x") for _ in range(2))
    store_of_level.answer(0)
    assert not appended.done()
    assert not mine.synced
    assert [pending for _, _, pending in mine.take_unanswered()] == [published]
    bind(mine, store, level=1)
    assert (mine.generation, mine.head, mine.tail) == (2, 0, 0)
    assert not appended.done()
    store.control.own("flushed").store(1 << 20)
    assert appended.done()
    assert mine.synced


# -- waiting


def test_a_wait_ends_when_the_tail_moves(store: MemoryStore, mine: Ring) -> None:
    assert mine.put(record_of(100), 1, 0)
    began = time.monotonic()
    assert not mine.wait_progress(), "no progress"
    assert time.monotonic() - began >= 0.04
    assert store.memory.word("producer_asleep") == 0, "awake again"

    def answer_soon() -> None:
        time.sleep(0.01)
        store.answer(0)

    thread = in_thread(answer_soon)
    deadline = time.monotonic() + 30
    while not mine.wait_room():
        assert time.monotonic() < deadline
    thread.join()
    mine.look()
    assert mine.tail == mine.head
