"""The append kernel against its twin: random batches of many kinds through real rings."""

from __future__ import annotations

import random
import threading
import time

import pytest
from support.append_rig import Rig, RingProducer
from support.frames import NO_RESULT, TOPICS, Batch, Result, make_frame, one, random_batch

from silomq.shm.ring import RING, RingClosed
from silomq.store.commitlog import _append as kernel
from silomq.store.commitlog import _scan as scan
from silomq.store.record.format import decode_record
from silomq.store.record.ids import Host
from silomq.store.status import PutMessageStatus

pytestmark = pytest.mark.usefixtures("each_way_of_writing")

ILLEGAL = PutMessageStatus.MESSAGE_ILLEGAL


def fill_rings(
    rng: random.Random, rig: Rig, rounds: int
) -> tuple[list[tuple[Batch, RingProducer, Result]], int]:
    """Lets every ring take random frames, and append run in between: batches, frames refused."""
    answered, refused = [], 0
    for _ in range(rounds):
        placed = []
        for producer in rig.rings:
            for _ in range(rng.randrange(12)):
                batch = random_batch(rng, largest_body=rng.choice((100, 900)), light=rig.light)
                frame = rig.frame(batch)
                if producer.room(len(frame)):
                    placed.append((batch, producer, producer.place(frame)))
        assert rig.run() == []
        for batch, producer, begin in placed:
            result = producer.result(begin)
            if result.status == PutMessageStatus.PUT_OK:
                answered.append((batch, producer, result))
            else:
                refused += 1
                assert result == (ILLEGAL, -1, -1, -1)
                assert len(batch.records()) + 8 + 20 * len(batch.messages) > rig.file_size
    return answered, refused


def test_nothing_is_stored_before_it_is_born() -> None:
    """Also what comes into one ring while append is busy with a long batch of another."""
    rig = Rig(file_size=32 << 20, batch_bytes=32 << 20)
    busy, quick = rig.new_ring(capacity=8 << 20), rig.new_ring(capacity=1 << 20)
    large = rig.frame(one(body=bytes(1 << 20)))
    born: dict[int, int] = {}
    stopping = threading.Event()

    def produce() -> None:
        while not stopping.is_set():
            now = time.time_ns() // 1_000_000
            frame = rig.frame(one(born_timestamp=now))
            if quick.room(len(frame)):
                born[quick.place(frame)] = now
            time.sleep(0.0002)

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        for _ in range(12):
            while busy.room(len(large)):
                busy.place(large)
            assert rig.run() == []
    finally:
        stopping.set()
        producer.join()
    assert rig.run() == []
    stored = {begin: quick.result(begin).store_timestamp for begin in born}
    assert len(stored) > 12
    assert [now for begin, now in born.items() if stored[begin] < now] == []


@pytest.mark.parametrize("append_crc", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_log_results_and_table_are_the_twins(seed: int, append_crc: bool) -> None:
    rng = random.Random(seed)
    host = Host.parse(rng.choice(("10.9.8.7:10911", "[2001:db8::1]:1")))
    rig = Rig(
        file_size=rng.choice((1200, 3000, 9001, 1 << 20)),
        batch_bytes=rng.choice((1, 700, 1 << 20)),
        append_crc=append_crc,
        light=seed % 2 == 1,
        store_host=host,
    )
    for _ in range(rng.randrange(1, 4)):
        rig.new_ring()
    answered, refused = fill_rings(rng, rig, 12)
    log, wrote, table = rig.twin((batch, result) for batch, _, result in answered)
    assert rig.wrote == wrote
    assert rig.log.ljust(len(log), b"\0") == log.ljust(len(rig.log), b"\0")
    assert rig.next_offsets() == table
    for producer in rig.rings:
        assert producer.tail == producer.head == producer.word("head")
        mine = [result.physical_offset for _, owner, result in answered if owner is producer]
        assert mine == sorted(mine)
    records = sum(len(batch.messages) for batch, _, _ in answered)
    assert rig.control.load("records") == records
    assert rig.control.load("rejected") == refused
    assert sum(producer.word("rejected") for producer in rig.rings) == refused
    for _, _, result in answered:
        first = decode_record(log, result.physical_offset)
        assert first.queue_offset == result.queue_offset
        assert first.store_host == host


@pytest.mark.parametrize("sys_flag", [0x4, 0xC])
def test_result_of_a_message_without_a_place_in_its_queue(sys_flag: int) -> None:
    rig = Rig()
    producer = rig.new_ring()
    producer.place(rig.frame(one()))
    begin = producer.place(rig.frame(one(sys_flag=sys_flag)))
    rig.run()
    assert producer.result(begin).queue_offset == 0


def test_frames_wrap_around_the_ring() -> None:
    rig = Rig()
    producer = rig.new_ring()
    for total, size in enumerate(range(0, 32_000, 997)):
        frame = rig.frame(one(body=bytes(size)))
        while not producer.room(len(frame)):
            rig.run()
        begin = producer.place(frame)
        rig.run()
        assert producer.result(begin).queue_offset == total
    assert producer.head > 3 * producer.capacity


def test_every_ring_gets_its_turn() -> None:
    rig = Rig(batch_bytes=1)
    producers = [rig.new_ring() for _ in range(3)]
    begins = [[p.place(rig.frame(one(queue_id=p.session))) for _ in range(20)] for p in producers]
    rig.run()
    offsets = [
        [p.result(begin).physical_offset for begin in mine]
        for p, mine in zip(producers, begins, strict=True)
    ]
    size = len(one().records())
    for turn in range(20):
        assert {mine[turn] // (3 * size) for mine in offsets} == {turn}


def test_it_is_crowded_while_append_and_the_rings_with_work_are_more_than_the_cores() -> None:
    rig = Rig(cores=3)
    rings = [rig.new_ring() for _ in range(3)]
    for busy, crowded in ((3, 1), (2, 0), (3, 1), (0, 0)):
        for ring in rings[:busy]:
            ring.place(rig.frame(one()))
        time.sleep(0.002)  # a census takes 1 ms, and ends when append looks next
        rig.run()
        assert rig.control.load("crowded") == crowded, f"{busy} of 3 rings had work"


def test_a_successor_begins_uncrowded() -> None:
    rig = Rig(cores=1)
    rig.new_ring().place(rig.frame(one()))
    rig.run()
    assert rig.control.load("crowded") == 1
    rig.take_over()
    assert rig.control.load("crowded") == 0


def test_a_record_may_end_8_bytes_before_the_end_of_a_file() -> None:
    size = len(one().records())
    for spare, fits in ((8, True), (7, False)):
        rig = Rig(file_size=3 * size + spare)
        producer = rig.new_ring()
        begins = [producer.place(rig.frame(one())) for _ in range(4)]
        rig.run()
        third, fourth = (producer.result(begin).physical_offset for begin in begins[2:])
        assert (third == 2 * size) is fits
        assert fourth == (rig.file_size if fits else rig.file_size + size)


@pytest.mark.parametrize(
    ("changes", "grant"),
    [
        ({"kind": 3}, ["a"]),
        ({"kind": 0}, ["a"]),
        ({"count": 0}, ["a"]),
        ({"count": 2}, ["a"]),
        ({"count": 2**32 - 1}, ["a"]),
        ({"record_bytes": 0}, ["a"]),
        ({"record_bytes": 90}, ["a"]),
        ({"record_bytes": 2**32 - 1}, ["a"]),
        ({"queue_slot": 1}, ["a"]),
        ({"queue_slot": 3}, None),
        ({"queue_slot": 8}, None),
        ({"queue_slot": 2**32 - 1}, None),
        ({"crc": 1}, ["a"]),
        ({}, ["topic-two"]),
    ],
)
def test_a_frame_that_lies_is_refused(changes: dict[str, int], grant: list[str] | None) -> None:
    rig = Rig()
    producer = rig.new_ring(grant)
    begin = producer.place(rig.frame(one(), **changes))
    assert rig.run() == []
    assert producer.result(begin) == (ILLEGAL, -1, -1, -1)
    assert producer.tail == producer.head
    assert rig.wrote == 0
    assert not any(rig.log)
    assert producer.word("rejected") == rig.control.load("rejected") == 1


@pytest.mark.parametrize("at", range(4))
def test_a_damaged_body_is_refused(at: int) -> None:
    """The frame's checksum omits the bodies, which have their own."""
    rig = Rig()
    producer = rig.new_ring()
    frame = rig.frame(one(body=b"body"))
    frame[frame.index(b"body") + at] ^= 1
    begin = producer.place(frame)
    assert rig.run() == []
    assert producer.result(begin) == (ILLEGAL, -1, -1, -1)
    assert rig.wrote == 0
    assert not any(rig.log)


@pytest.mark.parametrize("length", [0, 1, 32, 63, 65, 192, 256, 65536 + 64, 2**32 - 64])
def test_a_frame_outside_what_was_published_closes_the_ring(length: int) -> None:
    rig = Rig()
    honest, hostile = rig.new_ring(), rig.new_ring()
    frame = rig.frame(one())
    assert len(frame) == 192
    hostile.place(frame)
    hostile.view[4096:4100] = length.to_bytes(4, "little")
    if length == len(frame):
        hostile.set_word("head", 128)
    begin = honest.place(rig.frame(one()))
    assert rig.run() == [1]
    assert hostile.word("closed") == RingClosed.BAD_FRAME
    assert honest.result(begin).status == PutMessageStatus.PUT_OK


@pytest.mark.parametrize("head", [1, 63, 64, 65, 65537, 65536 + 64, 2**63, 2**64 - 64])
def test_an_absurd_head_closes_the_ring(head: int) -> None:
    rig = Rig()
    hostile = rig.new_ring()
    hostile.set_word("head", head)
    assert rig.run() == [0]
    assert rig.wrote == 0


def test_a_head_that_moves_back_closes_the_ring() -> None:
    """What is behind a head below the tail is no work, and must not keep append awake."""
    rig = Rig()
    hostile = rig.new_ring()
    hostile.place(rig.frame(one()))
    rig.run()
    hostile.set_word("head", 0)
    assert rig.run() == [0]
    assert hostile.word("closed") == RingClosed.BAD_FRAME
    assert rig.kernel.announce_sleep()


def test_properties_above_32767_bytes_have_their_own_status() -> None:
    rig = Rig()
    producer = rig.new_ring()
    long = one(properties=b"k\x01" + b"v" * 32765).records()[:-1]
    record = bytearray(long + b"vv")
    record[0:4] = len(record).to_bytes(4, "big")
    at = len(record) - 32768 - 2
    record[at : at + 2] = (32768).to_bytes(2, "big")
    sealed = make_frame(b"", 1, 0, record_bytes=len(record))
    frame = bytearray(64 + (len(record) + 63) // 64 * 64)
    frame[:64] = sealed[:64]
    frame[0:4] = len(frame).to_bytes(4, "little")
    frame[64 : 64 + len(record)] = record
    begin = producer.place(frame)
    rig.run()
    assert producer.result(begin).status == PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
    assert not any(rig.log)


def test_a_body_above_the_limit_is_refused() -> None:
    rig = Rig(max_body=100)
    producer = rig.new_ring()
    begins = [producer.place(rig.frame(one(body=bytes(size)))) for size in (100, 101)]
    rig.run()
    assert [producer.result(begin).status for begin in begins] == [PutMessageStatus.PUT_OK, ILLEGAL]


def test_without_room_for_its_checksum_a_record_is_refused() -> None:
    rig = Rig(append_crc=True)
    producer = rig.new_ring()
    slot = rig.table.slot("a", 0)
    begin = producer.place(make_frame(one().records(), 1, slot))
    rig.run()
    assert producer.result(begin).status == ILLEGAL


def test_the_checksums_pair_must_end_as_a_pair() -> None:
    """Without its end the pair is none: readers would find a record without a checksum."""
    rig = Rig(append_crc=True)
    producer = rig.new_ring()
    records = bytearray(one().records(record_crc=True))
    assert records[-1] == 2
    records[-1] = ord("x")
    begin = producer.place(make_frame(bytes(records), 1, rig.table.slot("a", 0)))
    rig.run()
    assert producer.result(begin).status == ILLEGAL


def test_a_store_that_refuses_answers_with_its_status() -> None:
    rig = Rig()
    producer = rig.new_ring()
    rig.kernel.no_file()
    rig.kernel.refuse_status = PutMessageStatus.CREATE_MAPPED_FILE_FAILED
    begin = producer.place(rig.frame(one()))
    rig.run()
    assert producer.result(begin).status == PutMessageStatus.CREATE_MAPPED_FILE_FAILED
    rig.kernel.refuse_status = PutMessageStatus.PUT_OK
    rig.open_file()
    begin = producer.place(rig.frame(one()))
    rig.run()
    assert producer.result(begin).physical_offset == 0


def test_without_a_file_frames_wait() -> None:
    rig = Rig()
    producer = rig.new_ring()
    rig.kernel.no_file()
    begin = producer.place(rig.frame(one()))
    assert rig.kernel.run(0, 10**9) == kernel.ROLL
    assert producer.result(begin) == NO_RESULT
    assert not rig.kernel.drained(0)
    rig.open_file()
    rig.run()
    assert rig.kernel.drained(0)


def test_mail_and_sleep() -> None:
    rig = Rig()
    producer = rig.new_ring()
    assert rig.kernel.announce_sleep()
    assert rig.control.load("append_asleep") == 1
    rig.kernel.announce_awake()
    rig.control.own("append_mail").add(1)
    assert not rig.kernel.announce_sleep()
    assert rig.control.load("append_asleep") == 0
    assert rig.kernel.run(10**9, 10**9) == kernel.MAIL
    producer.place(rig.frame(one()))
    assert not rig.kernel.announce_sleep()
    rig.run()
    assert rig.kernel.announce_sleep()


def test_a_detached_ring_is_read_no_more() -> None:
    rig = Rig()
    first, second = rig.new_ring(), rig.new_ring()
    rig.kernel.detach(0, RingClosed.STORE_STOPPED)
    assert first.word("closed") == RingClosed.STORE_STOPPED
    for producer in (first, second):
        producer.place(rig.frame(one()))
    rig.run()
    assert (first.tail, second.tail) == (0, second.head)
    rig.kernel.detach(0)
    assert first.memory.length == second.memory.length
    assert RING["closed"] == (512, 8)


def test_the_log_scans_clean() -> None:
    rng = random.Random(5)
    rig = Rig(file_size=5000)
    producer = rig.new_ring(list(TOPICS))
    placed = 0
    for _ in range(40):
        batch = random_batch(rng)
        producer.place(rig.frame(batch))
        placed += len(batch.messages)
        rig.run()
    found = 0
    for base, data in sorted(rig.files.items()):
        position, records, _, why = scan.scan(data, 0, base, True)
        found += records
        last = base == max(rig.files)
        assert why == (scan.NOTHING if last else scan.END_OF_FILE)
        assert base + position == (rig.wrote if last else base + rig.file_size)
    assert found == placed
