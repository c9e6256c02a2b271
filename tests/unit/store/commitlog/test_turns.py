"""Fair turns of rings: the order in which append takes frames from producers."""

from __future__ import annotations

import random

import pytest
from support.append_rig import Rig, RingProducer
from support.frames import Batch, one

from silomq.store.commitlog import _append as kernel

BATCH = 16384
FILL = 512 * 1024


def turn(rig: Rig) -> None:
    """One batch."""
    if rig.kernel.run(0, 0) == kernel.ROLL:
        rig.open_file()
        rig.kernel.run(0, 0)


def fill(rig: Rig, producer: RingProducer, body: int, most: int = FILL) -> int:
    """Frames of one message each until the ring is full, or `most` bytes are in it."""
    count = 0
    frame = rig.frame(one(body=b"x" * body))
    while producer.room(len(frame)) and producer.head - producer.tail + len(frame) <= most:
        producer.place(frame)
        count += 1
    return count


@pytest.fixture
def rig() -> Rig:
    return Rig(file_size=1 << 23, batch_bytes=BATCH, max_sessions=64)


@pytest.mark.parametrize("flooders", [1, 6, 40])
@pytest.mark.parametrize("body", [10, 1000, 100_000])
def test_a_ring_with_little_work_waits_for_no_full_ring(rig: Rig, flooders: int, body: int) -> None:
    """Whatever others have published: its frame is in the next batch, alone."""
    full = [rig.new_ring(capacity=1 << 18) for _ in range(flooders)]
    small = rig.new_ring()
    for producer in full:
        fill(rig, producer, body)
    for _ in range(8):
        turn(rig)  # each of them has had turns
    for _ in range(10):
        before = rig.wrote
        begin = small.place(rig.frame(one(body=b"small")))
        turn(rig)
        assert small.tail == small.head
        assert small.result(begin).physical_offset == before
        for producer in full:
            fill(rig, producer, body)
        turn(rig)


def test_full_rings_share_the_log_evenly_by_bytes(rig: Rig) -> None:
    """Frames of different lengths, refused ones too: what counts is how much append reads."""
    rings = [rig.new_ring(capacity=1 << 18) for _ in range(4)]
    bodies = (10, 1000, 5000, 20_000)
    for _ in range(60):
        for producer, body in zip(rings, bodies, strict=True):
            fill(rig, producer, body)
        turn(rig)
    taken = [producer.tail for producer in rings]
    assert max(taken) - min(taken) <= 2 * (BATCH + 20_480)


def test_users_share_the_log_evenly_whatever_the_number_of_their_rings(rig: Rig) -> None:
    many = [rig.new_ring(capacity=1 << 17, uid=1000) for _ in range(12)]
    few = [rig.new_ring(capacity=1 << 17, uid=1001)]
    for _ in range(300):
        for producer in (*many, *few):
            fill(rig, producer, 1000)
        turn(rig)
        if rig.wrote > (6 << 20):
            break
    theirs = sum(producer.tail for producer in many)
    assert 0.7 < few[0].tail / theirs < 1.4
    assert all(abs(p.tail - theirs / 12) < 4 * BATCH for p in many)


def test_refused_frames_use_up_turns_as_others_do(rig: Rig) -> None:
    hostile, honest = rig.new_ring(capacity=1 << 18), rig.new_ring(capacity=1 << 18)
    bad = rig.frame(one(body=b"x" * 1000), crc=0)
    while hostile.room(len(bad)):
        hostile.place(bad)
    fill(rig, honest, 1000)
    turn(rig)
    turn(rig)
    assert 0 < hostile.tail <= 2 * BATCH + len(bad)
    assert honest.tail > 0


def test_a_pad_costs_no_turns(rig: Rig) -> None:
    producer, other = rig.new_ring(), rig.new_ring()
    long = rig.frame(one(body=b"x" * 30_000))
    for _ in range(8):
        producer.place(long)
        other.place(long)
        rig.run()
    assert producer.tail == producer.head
    assert other.tail == other.head


@pytest.mark.parametrize("seed", range(5))
def test_no_ring_starves_and_each_frame_is_appended_once(seed: int) -> None:
    rng = random.Random(seed)
    rig = Rig(file_size=1 << 23, batch_bytes=rng.choice([1, 4096, BATCH]), max_sessions=16)
    rings = [
        rig.new_ring(capacity=1 << 17, uid=rng.randrange(3)) for _ in range(rng.randrange(2, 12))
    ]
    placed: list[tuple[Batch, RingProducer, int]] = []
    for _ in range(40):
        for producer in rings:
            batch = one(body=rng.randbytes(rng.choice([1, 100, 3000])))
            frame = rig.frame(batch)
            if rng.random() < 0.6 and producer.room(len(frame)):
                placed.append((batch, producer, producer.place(frame)))
        if rng.random() < 0.7:
            turn(rig)
    rig.run()
    assert all(producer.tail == producer.head for producer in rings)
    assert rig.control.load("records") == len(placed)


@pytest.mark.parametrize("seed", range(5))
def test_the_rings_in_use_are_read_and_no_others(seed: int) -> None:
    """Whatever their numbers, and whichever come and go."""
    rng = random.Random(seed)
    rig = Rig(max_sessions=12)
    rings = [rig.new_ring() for _ in range(12)]
    in_use = set(range(12))
    for _ in range(60):
        number, producer = rng.choice([*enumerate(rings)])
        if number in in_use:
            rig.kernel.detach(number)
            in_use.remove(number)
        else:
            for _ in range(rng.choice([1, 2])):  # a ring that is attached twice is in use once
                rig.kernel.attach(number, producer.memory, producer.capacity, number, producer.uid)
            in_use.add(number)
        for ring in rings:
            if ring.head == ring.tail:
                ring.place(rig.frame(one()))
        rig.run()
        assert {n for n, ring in enumerate(rings) if ring.tail == ring.head} == in_use
