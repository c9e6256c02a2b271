"""Mappings: shared, unmapped when closed, and safe to hold."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import resource
from typing import TYPE_CHECKING

import pytest

from silomq.shm._memory import Mapping
from silomq.shm._words import OwnedWord, Word

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = 4096


@pytest.fixture
def fd() -> Iterator[int]:
    made = os.memfd_create("test-mapping", os.MFD_CLOEXEC)
    os.ftruncate(made, 8 * PAGE)
    yield made
    os.close(made)


def mapped(name: str = "test-mapping") -> int:
    """How many mappings of the memfd this process has."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        return sum(f"memfd:{name}" in line for line in maps)


def test_two_mappings_share_their_bytes(fd: int) -> None:
    whole, part = Mapping(fd, 0, 8 * PAGE), Mapping(fd, PAGE, 2 * PAGE)
    memoryview(whole)[PAGE + 5] = 7
    assert memoryview(part)[5] == 7
    memoryview(part)[6:9] = b"abc"
    assert os.pread(fd, 3, PAGE + 6) == b"abc"
    assert (len(part), part.length, part.writable, part.closed) == (2 * PAGE, 2 * PAGE, True, False)


def test_no_descriptor_is_kept(fd: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    mappings = [Mapping(fd, 0, PAGE) for _ in range(10)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert all(len(mapping) == PAGE for mapping in mappings)


def test_close_waits_for_its_views(fd: int) -> None:
    mapping = Mapping(fd, 0, PAGE)
    view = memoryview(mapping)
    part = view[10:20]
    with pytest.raises(BufferError):
        mapping.close()
    assert part[0] == 0
    part.release()
    view.release()
    assert mapped() == 1
    mapping.close()
    assert mapped() == 0
    assert mapping.closed
    mapping.close()


def test_a_word_keeps_its_memory(fd: int) -> None:
    mapping = Mapping(fd, 0, PAGE)
    word = Word(mapping, 8)
    with pytest.raises(BufferError):
        mapping.close()
    del mapping
    gc.collect()
    assert word.load() == 0
    assert mapped() == 1
    del word
    gc.collect()
    assert mapped() == 0


def test_a_closed_mapping_says_so(fd: int) -> None:
    mapping = Mapping(fd, 0, PAGE)
    mapping.close()
    with pytest.raises(ValueError, match="closed"):
        memoryview(mapping)
    for call in (mapping.populate, mapping.lock, mapping.sync):
        with pytest.raises(ValueError, match="closed"):
            call(0, PAGE)


def test_a_read_only_mapping_refuses_to_be_written(fd: int) -> None:
    mapping = Mapping(fd, 0, PAGE, False)
    view = memoryview(mapping)
    assert view.readonly
    assert not mapping.writable
    with pytest.raises(TypeError):
        view[0] = 1
    with pytest.raises(TypeError):
        OwnedWord(mapping, 0)
    with pytest.raises(OSError, match="populate"):
        mapping.populate(0, PAGE)
    os.pwrite(fd, b"x", 0)
    assert view[0] == ord("x")


def test_a_descriptor_for_reading_gives_no_writable_mapping(fd: int) -> None:
    reading = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="cannot map") as caught:
            Mapping(reading, 0, PAGE)
        assert caught.value.errno == errno.EACCES
        assert len(Mapping(reading, 0, PAGE, False)) == PAGE
    finally:
        os.close(reading)


@pytest.mark.parametrize(("offset", "length"), [(1, PAGE), (0, 0)])
def test_what_cannot_be_mapped_is_an_error(fd: int, offset: int, length: int) -> None:
    with pytest.raises(OSError, match="cannot map"):
        Mapping(fd, offset, length)


def test_populate_and_huge_folios_for_more_than_one_step(tmp_path: Path) -> None:
    size = (300 << 10) + 5
    with open(tmp_path / "file", "w+b") as file:
        os.posix_fallocate(file.fileno(), 0, size)
        mapping = Mapping(file.fileno(), 0, size)
        mapping.advise_huge()
        mapping.populate(0, size)
        with open("/proc/self/smaps", encoding="ascii") as maps:
            lines = iter(maps)
            assert any(str(tmp_path) in line for line in lines)
            resident = next(line for line in lines if line.startswith("Rss:"))
        assert int(resident.split()[1]) == 304, "every page of it"
        mapping.close()


def test_what_is_let_go_stays_in_the_file(fd: int) -> None:
    with contextlib.closing(Mapping(fd, 0, 8 * PAGE)) as mapping:
        with memoryview(mapping) as view:
            view[:] = bytes(range(256)) * (8 * PAGE // 256)
            mapping.let_go(2 * PAGE, 3 * PAGE)
            assert os.pread(fd, 8 * PAGE, 0) == bytes(view) == bytes(range(256)) * (8 * PAGE // 256)
        with pytest.raises(ValueError, match="behind the mapping"):
            mapping.let_go(9 * PAGE, PAGE)


def test_populate_takes_space(fd: int) -> None:
    mapping = Mapping(fd, 0, 8 * PAGE)
    assert os.fstat(fd).st_blocks == 0
    try:
        mapping.populate(PAGE + 1, PAGE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        pytest.skip("this kernel does not know MADV_POPULATE_WRITE")
    assert os.fstat(fd).st_blocks == 2 * PAGE // 512
    mapping.populate(6 * PAGE, 100 * PAGE)
    assert os.fstat(fd).st_blocks == 4 * PAGE // 512
    mapping.populate(8 * PAGE, PAGE)
    with pytest.raises(ValueError, match="behind"):
        mapping.populate(8 * PAGE + 1, 1)


def test_locked_pages_are_counted(fd: int) -> None:
    mapping = Mapping(fd, 0, 8 * PAGE)
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft < 64 * PAGE and soft != resource.RLIM_INFINITY:
        pytest.skip("this process may not lock memory")
    assert hard
    mapping.lock(0, 4 * PAGE)
    assert kernel_says("memfd:test-mapping", "Locked") == "16 kB"


def kernel_says(name: str, field: str) -> str:
    """What /proc says of the mapping of a file."""
    with open("/proc/self/smaps", encoding="utf-8") as smaps:
        text = smaps.read().partition(name)[2]
    return text.partition(f"\n{field}:")[2].partition("\n")[0].strip()


def test_sync_writes_the_pages_that_hold_its_range(tmp_path: Path) -> None:
    path = tmp_path / "synced"
    with path.open("wb+") as file:
        file.truncate(8 * PAGE)
        mapping = Mapping(file.fileno(), 0, 8 * PAGE)
        view = memoryview(mapping)

        def dirty_pages() -> int:
            fields = ("Private_Dirty", "Shared_Dirty")
            return sum(int(kernel_says(str(path), field).split()[0]) for field in fields) // 4

        def write(*pages: int) -> None:
            for page in pages:
                view[page * PAGE] += 1

        write(0)
        os.fsync(file.fileno())
        if dirty_pages():
            pytest.skip("this file system has no disk")
        write(*range(8))
        assert dirty_pages() == 8
        mapping.sync(PAGE + 7, 3)
        assert dirty_pages() == 7
        mapping.sync(2 * PAGE - 1, 2)
        assert dirty_pages() == 6, "the range ends in the next page"
        mapping.sync(8 * PAGE, 1)
        mapping.sync(3 * PAGE, 0)
        assert dirty_pages() == 6, "an empty range"
        mapping.sync(0, 9 * PAGE)
        assert dirty_pages() == 0
        view.release()
        mapping.close()


def test_advice_holds_from_its_offset_on(fd: int) -> None:
    mapping = Mapping(fd, 0, 8 * PAGE)
    assert "rr" not in kernel_says("memfd:test-mapping", "VmFlags").split()
    mapping.advise_random(4 * PAGE)
    assert mapped() == 2, "the kernel tells two parts apart"
    mapping.advise_random()
    assert mapped() == 1
    assert "rr" in kernel_says("memfd:test-mapping", "VmFlags").split()
