"""Each sync of the disk seam is one in the kernel: the call is made, for these bytes, and its
failure is raised. And where the kernel shows it, the pages are clean afterwards.
"""

from __future__ import annotations

import ast
import ctypes
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.refused_calls import is_made

import silomq
from silomq.store.disk import files as disk
from silomq.store.disk.copying import sync_folders
from silomq.store.disk.replacing import own_file
from silomq.store.disk.sparse import clear_behind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from silomq.shm._memory import Mapping

PAGE = 4096
PAGES = 8
SIZE = PAGES * PAGE
MS_SYNC = 4
SEAM = Path(silomq.__file__).parent / "store" / "disk"
#: What of the seam makes something durable, and is asked for below.
ASKED = {
    *("sync", "sync_data", "sync_range", "sync_file_system", "sync_folders"),
    *("write_back", "clear_behind", "own_file"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[disk.Folder]:
    with disk.Folder.open(tmp_path) as opened:
        yield opened


@pytest.fixture
def fd(folder: disk.Folder) -> Iterator[int]:
    with folder.file("file", write=True, create=True) as opened:
        disk.write_at(opened, os.urandom(SIZE), 0)
        yield opened


def address_of(mapping: Mapping) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


# -- the call is made


def test_a_sync_of_a_folder_is_one(folder: disk.Folder) -> None:
    assert is_made("fsync", (folder.fd,), folder.sync)


def test_a_sync_of_a_file_is_one(fd: int) -> None:
    assert is_made("fdatasync", (fd,), lambda: disk.sync_data(fd))


@pytest.mark.parametrize(
    ("offset", "length", "first", "pages"),
    [(0, SIZE, 0, PAGES), (PAGE, PAGE, 1, 1), (PAGE + 100, PAGE, 1, 2), (7 * PAGE + 1, 5, 7, 1)],
)
def test_a_sync_of_a_range_is_one_of_its_pages(
    offset: int, length: int, first: int, pages: int, fd: int
) -> None:
    mapping = disk.map_file(fd, 0, SIZE, writable=True)
    start, end = offset // PAGE * PAGE, offset + length
    assert (start, -(-(end - start) // PAGE)) == (first * PAGE, pages)
    wanted = (address_of(mapping) + start, end - start, MS_SYNC)
    assert is_made("msync", wanted, lambda: disk.sync_range(mapping, offset, length))


def test_a_sync_of_the_file_system_is_one(folder: disk.Folder) -> None:
    assert is_made("syncfs", (folder.fd,), lambda: disk.sync_file_system(folder))


def test_writing_back_begins_to_write_all_of_a_range(fd: int) -> None:
    for at in range(0, SIZE, PAGE):
        wanted = (fd, at, PAGE, 2)
        assert is_made("sync_file_range", wanted, lambda: disk.write_back(fd, 0, SIZE, PAGE))


def test_what_was_cleared_is_synced(fd: int) -> None:
    assert is_made("fdatasync", (fd,), lambda: clear_behind(fd, PAGE))


def test_the_entries_of_all_folders_are_synced(folder: disk.Folder) -> None:
    assert is_made("fsync", (folder.fd,), lambda: sync_folders(folder))


def test_a_file_that_is_its_own_again_has_its_name_durably(fd: int, folder: disk.Folder) -> None:
    os.link("file", "shared", src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
    assert is_made("fsync", (folder.fd,), lambda: own_file(folder, "file"))


def test_a_call_that_is_not_made_is_told(fd: int, folder: disk.Folder) -> None:
    """The test can fail: another call, another file, no call."""
    assert not is_made("fsync", (folder.fd,), lambda: disk.sync_data(fd))
    assert not is_made("fdatasync", (fd + 1,), lambda: disk.sync_data(fd))
    assert not is_made("msync", (), lambda: None)


def test_all_syncs_of_the_seam_are_asked_for() -> None:
    asking = {"fsync", "fdatasync", "syncfs", "sync_file_range", "sync", "sync_data"}
    functions = [
        node
        for path in SEAM.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]
    inside = {
        function.name
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in asking
    }
    # These call them, and are held against the simulator of power cuts (tests/power).
    assert inside - {"replace_file", "copy_file", "keep_durable", "__init__"} == ASKED


# -- the pages are clean

_PRESENT, _FRAME = 1 << 63, (1 << 55) - 1
_DIRTY = 1 << 4


def dirty_pages(mapping: Mapping) -> list[int]:
    """The numbers of the file's pages that are dirty in the page cache."""
    found = []
    first = address_of(mapping) // PAGE
    try:
        with (
            open("/proc/self/pagemap", "rb", 0) as frames,
            open("/proc/kpageflags", "rb", 0) as all_,
        ):
            for page in range(PAGES):
                assert memoryview(mapping)[page * PAGE] >= 0  # now the page is there
                (entry,) = struct.unpack("Q", os.pread(frames.fileno(), 8, (first + page) * 8))
                frame = entry & _FRAME if entry & _PRESENT else 0
                if not frame:
                    pytest.skip("the kernel does not say where pages lie")
                (flags,) = struct.unpack("Q", os.pread(all_.fileno(), 8, frame * 8))
                if flags & _DIRTY:
                    found.append(page)
    except OSError as error:
        pytest.skip(f"the kernel does not show which pages are dirty: {error}")
    return found


def make_dirty(mapping: Mapping) -> None:
    """Writes all pages, and again if the kernel has just written them back by itself."""
    for _ in range(100):
        memoryview(mapping)[:] = os.urandom(SIZE)
        if len(dirty_pages(mapping)) == PAGES:
            return
    raise AssertionError("the kernel writes pages back at once")


@pytest.fixture
def mapping(fd: int) -> Mapping:
    """A file of which all pages are dirty."""
    made = disk.map_file(fd, 0, SIZE, writable=True)
    disk.in_small_folios(made)
    memoryview(made)[:] = os.urandom(SIZE)
    os.fsync(fd)
    if dirty_pages(made):
        pytest.skip("this file system keeps its files in memory alone")
    make_dirty(made)
    return made


def test_a_sync_of_a_range_leaves_none_of_its_pages_dirty(mapping: Mapping) -> None:
    disk.sync_range(mapping, 2 * PAGE + 100, 2 * PAGE)
    assert not {2, 3, 4} & set(dirty_pages(mapping))


def test_a_sync_of_a_file_leaves_none_of_its_pages_dirty(fd: int, mapping: Mapping) -> None:
    disk.sync_data(fd)
    assert dirty_pages(mapping) == []


def test_a_sync_of_the_file_system_leaves_none_of_a_files_pages_dirty(
    folder: disk.Folder, mapping: Mapping
) -> None:
    disk.sync_file_system(folder)
    assert dirty_pages(mapping) == []
