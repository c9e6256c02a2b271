"""A garbage ring harms neither append nor other producers: thousands of hostile clients.

Each case has an honest ring and a hostile one before one append kernel. Whatever the hostile client
writes, afterwards every honest message is in the log once and in order, the log reads clean from
end to end, what it holds of the hostile client are whole records of its own queues, and nothing
lies behind `wrote`. A case is a number: a failure names it, and `case(number)` plays it again.
"""

from __future__ import annotations

import os
import random
import signal
import struct
from typing import TYPE_CHECKING

import pytest
from property.hostile import GRANTED, MUTATIONS, reseal
from support.append_rig import Rig, RingProducer
from support.frames import Batch, Result, random_batch
from support.record_check import check_record

from silomq.shm.ring import DATA
from silomq.store.commitlog import _scan as scan
from silomq.store.record.format import Record, decode_record
from silomq.store.record.properties import light_queues, trailing_crc
from silomq.store.status import PutMessageStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = 2_000
LONG_CASES = 100_000
FIRST = 1_000_000
MARK = b"honest-%06d-"


class Case:
    """One honest and one hostile session; `play` and `check`."""

    def __init__(self, number: int) -> None:
        self.rng = rng = random.Random(number)
        self.rig = Rig(
            file_size=rng.choice((3000, 1 << 15)),
            batch_bytes=rng.choice((1, 1000, 1 << 20)),
            append_crc=rng.random() < 0.2,
            light=rng.random() < 0.3,
            max_body=rng.choice((4 << 20, 250)),
        )
        first = rng.random() < 0.5
        self.hostile = RingProducer()
        if first:
            self.rig.attach(self.hostile, GRANTED)
        self.honest = self.rig.new_ring()
        if not first:
            self.rig.attach(self.hostile, GRANTED)
        self.sent: list[tuple[Batch, int]] = []
        self.results: list[Result] = []
        self.trace: list[str] = []

    def send(self) -> None:
        """Frames of the honest client; it takes the results out before the ring wraps."""
        for _ in range(self.rng.randrange(3)):
            batch = random_batch(self.rng, largest_body=100, light=self.rig.light)
            messages = [
                {**message, "body": MARK % len(self.sent) + message["body"]}
                for message in batch.messages
            ]
            batch = Batch(batch.topic, batch.queue_id, messages)
            frame = self.rig.frame(batch)
            assert self.honest.room(len(frame))
            self.sent.append((batch, self.honest.place(frame)))

    def run(self) -> None:
        bad = self.rig.run()
        assert all(self.rig.rings[index] is self.hostile for index in bad)
        self.collect()

    def collect(self) -> None:
        for _, begin in self.sent[len(self.results) :]:
            assert self.honest.tail > begin
            self.results.append(self.honest.result(begin))

    def play(self) -> None:
        for _ in range(self.rng.randrange(1, 4)):
            self.send()
            for _ in range(self.rng.randrange(1, 3)):
                mutation = self.rng.choice(MUTATIONS)
                self.trace.append(mutation.__name__)
                mutation(self.rng, self.rig, self.hostile)
            self.send()
            if self.rng.random() < 0.1:
                self.trace.append("take_over")
                self.rig.take_over()
            self.run()

    def check(self) -> None:
        records = list(self.log())
        mine = [record for record in records if record.body.startswith(b"honest-")]
        expected = [message for batch, _ in self.sent for message in batch.messages]
        assert [record.body for record in mine] == [message["body"] for message in expected]
        for record, message in zip(mine, expected, strict=True):
            assert record.flag == message["flag"]
            # Append fills in what follows.
            kept = message["properties"].partition(b"\x02INNER_MULTI_QUEUE_OFFSET")[0]
            assert record.properties_raw.startswith(kept)
        for (batch, _), result in zip(self.sent, self.results, strict=True):
            assert result.status == PutMessageStatus.PUT_OK
            found = next(r for r in mine if r.physical_offset == result.physical_offset)
            assert (found.topic, found.queue_id) == (batch.topic, batch.queue_id)
            assert found.body == batch.messages[0]["body"]
        for record in records:
            if not record.body.startswith(b"honest-"):
                assert record.queue_id in range(GRANTED[record.topic])
        self.check_queues(records)
        assert self.rig.control.load("records") == len(records)

    def check_queues(self, records: list[Record]) -> None:
        """Queue offsets go up by one, without holes, in the order of the log; those in light queues
        too.
        """
        counts: dict[tuple[str, int], int] = {}
        for record in records:
            if record.sys_flag & 0xC not in (0x4, 0xC):
                queue = (record.topic, record.queue_id)
                assert record.queue_offset == counts.get(queue, 0)
                counts[queue] = record.queue_offset + 1
            for name, offset in light_queues(record.properties).items():
                assert offset == counts.get((name, 0), 0)
                counts[name, 0] = offset + 1
        assert self.rig.next_offsets() == counts

    def log(self) -> Iterator[Record]:
        """The records below `wrote`, after the kernel and RocketMQ's rules found them good."""
        rig = self.rig
        for base, data in sorted(rig.files.items()):
            end = min(rig.wrote - base, rig.file_size)
            position, count, _, why = scan.scan(data[: max(end, 1)], 0, base, True)
            assert position == end
            assert why in (scan.FULL, scan.END_OF_FILE) or end == 0
            assert not any(data[max(end, 0) :])
            yield from self.records(bytes(data[:end]), base, count)

    def records(self, data: bytes, base: int, count: int) -> Iterator[Record]:
        at = found = 0
        while at < len(data):
            check = check_record(data, at)
            assert check.ok, check.why
            if check.size == 0:
                break
            record = decode_record(data, at)
            assert record.physical_offset == base + at
            assert not self.rig.append_crc or trailing_crc(record.properties_raw) is not None
            yield record
            at += check.size
            found += 1
        assert found == count


def case(number: int) -> None:
    """Plays one case; raises what went wrong, with the case's number and what was done."""
    made = Case(number)
    try:
        made.play()
        made.check()
    except Exception as error:
        error.add_note(f"case({number}): {' '.join(made.trace)}")
        raise
    finally:
        for producer in made.rig.rings:
            producer.close()


def test_a_garbage_ring_harms_nobody() -> None:
    for number in range(CASES):
        case(number)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_garbage_rings_harm_nobody(long_forms: bool) -> None:
    if not long_forms:
        pytest.skip("the long form: SILOMQ_LONG=1")
    for number in range(FIRST, FIRST + LONG_CASES):
        case(number)


def disturb(ring: RingProducer, places: list[int]) -> int:
    """Forks a process that turns bytes of the ring back and forth until it is killed: its pid."""
    pid = os.fork()
    if pid == 0:
        view = ring.view
        try:
            while True:
                for at in places:
                    view[at] = 1
                    view[at] = 0
        finally:
            os._exit(1)
    return pid


def test_a_ring_that_changes_while_it_is_read() -> None:
    """Another process changes large records while the kernel reads them.

    What append takes must be what it checked: good in the log. The first frame of each turn lies at
    the ring's beginning, the second behind it, and a pad fills the rest.
    """
    rig = Rig(file_size=1 << 22)
    ring = rig.new_ring(capacity=1 << 22)
    frame = rig.frame(Batch("a", 0, [{"body": bytes(1_500_000)}]))
    middle = DATA + len(frame) // 2
    pid = disturb(ring, [middle, middle + len(frame)])
    try:
        for _ in range(150):
            begin = ring.place(frame)
            assert rig.run() == []
            result = ring.result(begin)
            if result.status == PutMessageStatus.PUT_OK:
                base = result.physical_offset - result.physical_offset % rig.file_size
                decode_record(rig.files[base], result.physical_offset - base)
            for base in [base for base in rig.files if base + rig.file_size <= rig.wrote]:
                del rig.files[base]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.parametrize("damage", ["port", "utf-8", "version"])
def test_a_record_that_readers_refuse(damage: str) -> None:
    """A whole record of a granted queue, sealed by a client that wants its readers to fail."""
    rig = Rig()
    ring = rig.new_ring()
    topic = next(name for name in GRANTED if (len(name) > 127) == (damage == "version"))
    frame = rig.frame(Batch(topic, 0, [{"body": b"", "properties": b"k\x01v\x02"}]))
    if damage == "port":
        struct.pack_into(">i", frame, 64 + 52, 65536)
    elif damage == "utf-8":
        frame[64 + 88 + 2 + 2 + 2] = 0xFF
    else:
        total = int.from_bytes(frame[64:68], "big") - 1
        struct.pack_into(">iI", frame, 64, total, 0xDAA320A7)
        del frame[64 + 88]
        frame += b"\0"
        struct.pack_into("<I", frame, 12, total)
    reseal(frame)
    begin = ring.place(frame)
    rig.run()
    assert ring.result(begin).status == PutMessageStatus.MESSAGE_ILLEGAL
    assert not any(rig.log)
