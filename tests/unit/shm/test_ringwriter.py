"""A ring of the store's own: no answer is overwritten before its process has read it."""

from __future__ import annotations

import os

from support.append_rig import RingProducer

from silomq.shm.control import SIZE, Control
from silomq.shm.ring import FRAME_HEADER, MIN_CAPACITY
from silomq.shm.ringwriter import RingWriter


def writer_of(ring: RingProducer, bell: int) -> RingWriter:
    control = Control(bytearray(SIZE), "schedule")
    return RingWriter(ring.memory, MIN_CAPACITY, bell, control, "schedule")


def test_a_full_ring_takes_more_once_answers_are_read() -> None:
    ring, bell = RingProducer(), os.eventfd(0)
    try:
        writer = writer_of(ring, bell)
        record = bytes(1000)
        frames = []
        while (frame := writer.put(record, (0, 0), 3)) is not None:
            frames.append(frame)
        assert len(frames) == MIN_CAPACITY // (-(-(FRAME_HEADER + 1000) // 64) * 64)
        for number, (at, _) in enumerate(frames):
            ring.set_result(at, (0, 100 * number, number, 1))
        ring.set_word("tail", writer.head)
        assert writer.put(record, (0, 0), 3) is None, "nobody has read the answers"
        assert [writer.result(at) for at, _ in frames] == [
            (0, 100 * number, number) for number in range(len(frames))
        ]
        writer.reaped = frames[2][1]
        assert writer.put(record, (0, 0), 3) is not None
        assert [writer.result(at) for at, _ in frames[3:]] == [
            (0, 100 * number, number) for number in range(3, len(frames))
        ]
    finally:
        ring.close()
        os.close(bell)


def test_a_successor_goes_on_behind_what_was_answered() -> None:
    ring, bell = RingProducer(), os.eventfd(0)
    try:
        first = writer_of(ring, bell)
        for _ in range(3):
            assert first.put(bytes(500), (0, 0), 3) is not None
        ring.set_word("tail", first.head // 3)
        second = writer_of(ring, bell)
        assert (second.head, second.reaped) == (first.head, first.head // 3)
    finally:
        ring.close()
        os.close(bell)
