"""A killed append, state by state: whatever its successor finds, each frame is appended once.

The states are put together by hand from memory before and after one batch: which words of it had
been written when the process died. `tests/crash/` kills real processes at the same places.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import faulthandler
import os
import random
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from support.append_rig import Rig, RingProducer
from support.frames import NO_RESULT, Batch, Result, one, random_batch

from silomq.shm.control import CONTROL, SIZE
from silomq.shm.ring import DATA, MIN_CAPACITY, RING
from silomq.store.commitlog import _append as kernel
from silomq.store.status import PutMessageStatus

if TYPE_CHECKING:
    from collections.abc import Callable

PUT_OK = PutMessageStatus.PUT_OK


@dataclass
class Image:
    """A copy of all that a batch changes."""

    control: bytes
    table: bytes
    files: dict[int, bytes]
    rings: list[bytes]

    @classmethod
    def take(cls, rig: Rig) -> Image:
        files = {base: bytes(data) for base, data in rig.files.items()}
        rings = [bytes(producer.view) for producer in rig.rings]
        return cls(bytes(rig.control.memory), bytes(rig.table.view), files, rings)

    def put(self, rig: Rig) -> None:
        rig.control.memory[:] = self.control  # type: ignore[index]
        rig.table.view[:] = self.table
        for base, data in self.files.items():
            rig.files[base][:] = data
        for producer, data in zip(rig.rings, self.rings, strict=True):
            producer.view[:] = data


@dataclass
class Scene:
    """A batch before and after, its frames in the order of the log, refused ones left out."""

    rig: Rig
    before: Image
    after: Image
    frames: list[tuple[Batch, RingProducer, int]]
    results: list[Result]
    earlier: list[tuple[Batch, Result]]
    refused: list[tuple[RingProducer, int]]

    def tails(self, image: Image) -> list[int]:
        at = RING["tail"][0]
        return [int.from_bytes(data[at : at + 8], "little") for data in image.rings]

    def set_wrote(self, image: Image) -> None:
        for name in ("wrote", "records", "store_time_ms", "rejected"):
            at = CONTROL[name][0]
            value = int.from_bytes(image.control[at : at + 8], "little")
            self.rig.control.own(name).store(value)

    def set_tails(self, values: list[int]) -> None:
        for producer, value in zip(self.rig.rings, values, strict=True):
            producer.set_word("tail", value)

    def erase_results(self, first: int) -> None:
        for _, producer, begin in self.frames[first:]:
            producer.set_result(begin, NO_RESULT)

    def check(self) -> None:
        """Takes over and lets append finish; everything must be there once, and right."""
        rig = self.rig
        rig.run()
        answered = list(self.earlier)
        for batch, producer, begin in self.frames:
            result = producer.result(begin)
            assert result.status == PUT_OK
            answered.append((batch, result))
        for producer, begin in self.refused:
            assert producer.result(begin).status == PutMessageStatus.MESSAGE_ILLEGAL
        log, wrote, table = rig.twin(answered)
        assert rig.wrote == wrote
        assert rig.log[:wrote] == log[:wrote]
        assert not any(rig.log[wrote:])
        assert rig.next_offsets() == table
        assert all(producer.tail == producer.head for producer in rig.rings)
        assert rig.control.load("records") == sum(len(batch.messages) for batch, _ in answered)


def scene(seed: int) -> Scene:
    """Some published batches, then one whose before and after are kept."""
    rng = random.Random(seed)
    rig = Rig(append_crc=seed % 2 == 1, light=seed % 3 == 0)
    for _ in range(rng.randrange(1, 4)):
        rig.new_ring()
    earlier = []
    for _ in range(rng.randrange(4)):
        placed = [
            (b, p, p.place(rig.frame(b)))
            for p in rig.rings
            for b in [random_batch(rng, light=rig.light)]
        ]
        rig.run()
        earlier += [(b, p.result(begin)) for b, p, begin in placed]
    rig.take_over()  # to a new append all rings are equal: it takes them in one batch
    frames: list[tuple[Batch, RingProducer, int]] = []
    refused = []
    for producer in rig.rings:
        for _ in range(rng.randrange(1, 6)):
            batch = random_batch(rng, light=rig.light)
            if frames and rng.random() < 0.2:
                refused.append((producer, producer.place(rig.frame(batch, crc=0))))
            else:
                frames.append((batch, producer, producer.place(rig.frame(batch))))
    before = Image.take(rig)
    rig.run()
    after = Image.take(rig)
    frames.sort(key=lambda frame: frame[1].result(frame[2]).physical_offset)
    results = [producer.result(begin) for _, producer, begin in frames]
    return Scene(rig, before, after, frames, results, earlier, refused)


def died_before_results(scene: Scene) -> None:
    """Records are copied and patched, nothing else happened."""
    scene.before.put(scene.rig)
    for base, data in scene.after.files.items():
        scene.rig.files[base][:] = data


def died_before_wrote(scene: Scene) -> None:
    """Table and results are written, `wrote` is not."""
    scene.after.put(scene.rig)
    scene.set_wrote(scene.before)
    scene.set_tails(scene.tails(scene.before))


def died_in_the_middle(scene: Scene) -> None:
    """Half of the frames have results; their queues moved, one of them not yet."""
    died_before_wrote(scene)
    half = len(scene.frames) // 2
    scene.erase_results(half)
    table = scene.rig.table
    untouched = {table.slot(batch.topic, batch.queue_id) for batch, _, _ in scene.frames[half:]} - {
        table.slot(batch.topic, batch.queue_id) for batch, _, _ in scene.frames[:half]
    }
    for slot in sorted(untouched)[1:]:
        at = table._queue_at(slot)
        table.view[at : at + 256] = scene.before.table[at : at + 256]


def died_after_wrote(scene: Scene) -> None:
    """`wrote` is published, no tail is."""
    scene.after.put(scene.rig)
    scene.set_tails(scene.tails(scene.before))


def died_after_one_tail(scene: Scene) -> None:
    """`wrote` and the first ring's tail are published."""
    scene.after.put(scene.rig)
    scene.set_tails([*scene.tails(scene.after)[:1], *scene.tails(scene.before)[1:]])


def died_after_all(scene: Scene) -> None:
    """The batch is over."""
    scene.after.put(scene.rig)


STATES = [
    died_before_results,
    died_before_wrote,
    died_in_the_middle,
    died_after_wrote,
    died_after_one_tail,
    died_after_all,
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("seed", range(12))
def test_each_frame_is_appended_once(seed: int, state: Callable[[Scene], None]) -> None:
    made = scene(seed)
    state(made)
    published = made.rig.wrote == made.results[-1].physical_offset + len(
        made.frames[-1][0].records(record_crc=made.rig.append_crc)
    )
    touched, settled = made.rig.take_over()
    if published:
        assert touched == 0
        for (_, producer, begin), result in zip(made.frames, made.results, strict=True):
            assert producer.result(begin) == result
            assert begin < producer.tail
    else:
        assert settled == 0
        assert all(p.result(begin) == NO_RESULT for _, p, begin in made.frames)
    made.check()


@pytest.mark.parametrize("seed", range(6))
def test_dying_again_while_taking_over_changes_nothing(seed: int) -> None:
    for state in STATES:
        made = scene(seed)
        state(made)
        made.rig.boot()
        made.rig.kernel.roll_back()
        made.rig.take_over()
        made.rig.take_over()
        made.check()


def test_a_stale_result_is_not_believed_later() -> None:
    """A result of a dead batch must not fall below a `wrote` that other frames have moved."""
    rig = Rig()
    first, second = rig.new_ring(), rig.new_ring()
    stale = first.place(rig.frame(one()))
    rig.run()
    dead = first.result(stale)
    fresh = Rig()
    fresh.attach(first)
    fresh.attach(second)
    first.set_word("tail", 0)
    assert fresh.take_over() == (0, 0)
    assert first.result(stale) == NO_RESULT
    kept = first.head
    first.set_word("head", 0)
    second.place(fresh.frame(one()))
    fresh.run()
    assert fresh.wrote > dead.physical_offset
    first.set_word("head", kept)
    assert fresh.take_over() == (0, 0)
    fresh.run()
    assert first.result(stale).queue_offset == 1


def test_a_half_closed_file_is_closed_again() -> None:
    rig = Rig(file_size=391)
    producer = rig.new_ring()
    begins = [producer.place(rig.frame(one())) for _ in range(4)]
    while rig.kernel.run(0, 10**9) != kernel.ROLL:
        assert rig.wrote < 391
    assert rig.wrote == 391
    # Killed after the end-of-file record was written and before its end was published.
    rig.control.own("wrote").store(producer.result(begins[2]).physical_offset + 96)
    rig.take_over()
    assert not any(rig.files[0][288:])
    rig.run()
    assert [producer.result(begin).physical_offset for begin in begins] == [0, 96, 192, 391]
    assert rig.files[0][288:296] == bytes.fromhex("00000067cbd43194")


def test_refused_frames_are_counted_on() -> None:
    rig = Rig()
    producer = rig.new_ring()
    for _ in range(2):
        producer.place(rig.frame(one(), crc=0))
    rig.run()
    rig.take_over()
    producer.place(rig.frame(one(), crc=0))
    rig.run()
    assert producer.word("rejected") == 3


def memory_before_a_hole(size: int) -> ctypes.Array[ctypes.c_ubyte]:
    """`size` bytes of memory, a multiple of 4096, behind which nothing may be read."""
    libc = ctypes.CDLL(ctypes.util.find_library("c"))
    libc.mmap.restype = ctypes.c_void_p
    start = libc.mmap(None, ctypes.c_size_t(size + 4096), 3, 0x22, -1, ctypes.c_long(0))
    assert libc.munmap(ctypes.c_void_p(start + size), ctypes.c_size_t(4096)) == 0
    return (ctypes.c_ubyte * size).from_address(start)


@pytest.mark.parametrize("short", [4, 20])
def test_a_tail_near_the_end_of_the_ring_is_not_followed_out_of_it(short: int) -> None:
    """The tail is the client's to write before append attaches, and while append is replaced."""
    pid = os.fork()
    if pid == 0:
        faulthandler.disable()
        code = 1
        try:
            memory = memory_before_a_hole(DATA + MIN_CAPACITY)
            view = memoryview(memory).cast("B")
            tail = MIN_CAPACITY - short
            view[RING["tail"][0] : RING["tail"][0] + 8] = tail.to_bytes(8, "little")
            view[RING["head"][0] : RING["head"][0] + 8] = (tail + 64).to_bytes(8, "little")
            rig = Rig()
            rig.kernel.attach(0, memory, MIN_CAPACITY, 0, 0)
            rig.kernel.settle(0)
            rig.kernel.run(0, 10**9)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV)
    assert os.waitstatus_to_exitcode(status) == 0


def test_sizes_of_the_states() -> None:
    made = scene(1)
    assert len(made.before.control) == SIZE
    assert made.before.rings != made.after.rings
    assert made.before.table != made.after.table
