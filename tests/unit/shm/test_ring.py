"""The sealed memory of rings, and who may write which of its words."""

from __future__ import annotations

import fcntl
import os

import pytest

from silomq.actors.actor import OWN_SESSIONS
from silomq.shm._memory import Mapping
from silomq.shm._words import OwnedWord, Word
from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import READER, STARTUP, NotTheWriter
from silomq.shm.ring import DATA, MAGIC, MIN_CAPACITY, RING, WRITERS, Ring, create, largest_frame
from silomq.shm.ringwriter import RingWriter


@pytest.mark.parametrize("capacity", [MIN_CAPACITY, MIN_CAPACITY + 4096, 1 << 20])
def test_a_ring_can_neither_shrink_nor_grow(capacity: int) -> None:
    fd = create(capacity, 7)
    try:
        assert os.fstat(fd).st_size == DATA + capacity
        for size in (0, DATA, DATA + capacity - 1, DATA + capacity + 1, 2 * capacity + DATA):
            with pytest.raises(PermissionError):
                os.ftruncate(fd, size)
        with pytest.raises(PermissionError):
            os.posix_fallocate(fd, DATA + capacity, 4096)
        with pytest.raises(PermissionError):
            os.pwrite(fd, b"x", DATA + capacity)
        with pytest.raises(PermissionError):
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        assert not os.get_inheritable(fd)
        memory = Mapping(fd, 0, DATA + capacity)
        words = {name: Word(memory, at).load() for name, (at, _) in RING.items()}
        known = {"magic": MAGIC, "capacity": capacity, "session": 7}
        assert words == dict.fromkeys(RING, 0) | known
    finally:
        os.close(fd)


@pytest.mark.parametrize("capacity", [-4096, 0, 4096, MIN_CAPACITY - 4096, MIN_CAPACITY + 64])
def test_a_ring_of_another_size_is_refused(capacity: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError, match="ring capacity"):
        create(capacity, 1)
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_largest_frame_always_fits_an_empty_ring() -> None:
    for capacity in (MIN_CAPACITY, MIN_CAPACITY + 4096, 1 << 20):
        largest = largest_frame(capacity)
        assert largest % 64 == 0
        for at in range(0, capacity, 64):
            rest = capacity - at
            assert largest <= rest or rest + largest <= capacity


def ring_memory() -> Mapping:
    fd = create(MIN_CAPACITY, 7)
    try:
        return Mapping(fd, 0, DATA + MIN_CAPACITY)
    finally:
        os.close(fd)


def test_the_two_sides_of_a_ring_have_their_own_words() -> None:
    memory = ring_memory()
    for role in ("producer", "append", "registry", READER):
        ring = Ring(memory, role)
        for field in RING:
            writer = WRITERS["ring"].get(field, STARTUP)
            if writer == role:
                assert type(ring.own(field)) is OwnedWord
            else:
                with pytest.raises(NotTheWriter, match=f"{field} is written by {writer} alone"):
                    ring.own(field)


@pytest.mark.parametrize("owner", OWN_SESSIONS)
@pytest.mark.parametrize("role", [*OWN_SESSIONS, "append", "registry", "supervisor", READER])
def test_only_its_process_writes_a_ring_of_the_store(owner: str, role: str) -> None:
    memory = ring_memory()
    control = Control(bytearray(SIZE), role)
    if role == owner:
        assert RingWriter(memory, MIN_CAPACITY, -1, control, owner).head == 0
    else:
        with pytest.raises(NotTheWriter, match=f"by {owner} alone, and {role} asked"):
            RingWriter(memory, MIN_CAPACITY, -1, control, owner)
