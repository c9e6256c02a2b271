"""Counting the entries of queues at a start: the right numbers, and few reads."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from silomq.store.consumequeue.queue import (
    BLANK_ENTRY,
    ENTRY,
    ENTRY_SIZE,
    QueueFiles,
    count_entries,
)
from silomq.store.disk.files import Folder
from silomq.store.disk.paths import file_bases, file_name

if TYPE_CHECKING:
    from pathlib import Path

PAGE = 4096
LIBC = ctypes.CDLL(None, use_errno=True)
BIG = 6_000_000


def make(folder: Path, file_size: int, files: list[list[bytes]], first: int = 0) -> None:
    """A queue whose files hold these entries, then zeros."""
    folder.mkdir(parents=True)
    for number, entries in enumerate(files, first):
        path = folder / file_name(number * file_size)
        path.write_bytes(b"".join(entries))
        os.truncate(path, file_size)


def count_slowly(files: list[list[bytes]], per_file: int, limit: int, first: int) -> int:
    """How many entries lead below `limit`, as the formats say: one entry after the other."""
    for number in reversed(range(len(files))):
        below = 0
        for entry in files[number]:
            offset, size, _ = ENTRY.unpack(entry)
            if size <= 0 or offset >= limit:
                break
            below += 1
        if below:
            return (first + number) * per_file + below
    return 0


@st.composite
def queues(draw: st.DrawFn) -> tuple[int, int, int, int, int, int]:
    """(entries of a file, blank entries, entries, files before the first one, two limits)."""
    per_file = draw(st.sampled_from([1, 2, 100, 203, 204, 205, 500, 1000]))
    blank = draw(st.integers(0, min(300, per_file - 1)))
    entries = draw(st.integers(0, min(2500, 12 * per_file)))
    limit = draw(st.integers(-5, 2600))
    return per_file, blank, entries, draw(st.integers(0, 3)), limit, draw(st.integers(-5, 2600))


@settings(max_examples=40)
@given(queues())
@example((204, 0, 204, 0, 204, 204))
@example((500, 0, 1500, 1, 1400, 700))
@example((500, 200, 300, 0, 300, 10))
def test_every_queue_is_counted_as_entry_by_entry(
    tmp_path_factory: pytest.TempPathFactory, queue: tuple[int, int, int, int, int, int]
) -> None:
    """Record i lies at log offset 10 i. A queue may begin with blank entries or in a later file."""
    per_file, blank, entries, skipped, limit, low = queue
    root = tmp_path_factory.mktemp("queues")
    rows = [BLANK_ENTRY] * blank + [ENTRY.pack(10 * i, 7, 0) for i in range(entries)]
    files = [rows[at : at + per_file] for at in range(0, len(rows), per_file)]
    limit, low = 10 * limit, max(0, min(10 * low, 10 * limit))
    make(root / "t" / "3", per_file * ENTRY_SIZE, files, skipped)
    with Folder.open(root) as folder:
        found = list(QueueFiles(folder, per_file * ENTRY_SIZE).counts(limit, low))
        below = count_slowly(files, per_file, limit, skipped)
        expired = count_slowly(files, per_file, low, skipped) if low else 0
        least = max(expired, skipped * per_file if files else 0)
        assert [one[:4] for one in found] == [("t", 3, below, least)]
        with folder.folder("t") as topic, topic.folder("3") as queue_folder:
            bases = file_bases(queue_folder)
            assert count_entries(queue_folder, bases, per_file * ENTRY_SIZE, limit) == below


@pytest.mark.parametrize("entries", [0, 1, 203, 204, 1000])
def test_counting_reads_only_pages_that_were_written(tmp_path: Path, entries: int) -> None:
    """Reading a hole of a sparse file takes a page of the page cache."""
    make(tmp_path / "t" / "0", BIG, [[ENTRY.pack(10 * i, 7, 0) for i in range(entries)]])
    path = tmp_path / "t" / "0" / file_name(0)
    with Folder.open(tmp_path) as folder:
        assert list(QueueFiles(folder, BIG).counts(1 << 62, 0)) == [("t", 0, entries, 0, "")]
        with QueueFiles(folder, BIG).folder("t", 0) as queue:
            assert count_entries(queue, [0], BIG, 1 << 62) == entries
    assert pages_in_memory(path) <= 2 * (entries * ENTRY_SIZE // PAGE) + (8 if entries > 203 else 1)


def pages_in_memory(path: Path) -> int:
    """How many pages of a file are in the page cache (mincore)."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        found = (ctypes.c_ubyte * (len(mapping) // PAGE + 1))()
        at = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        assert LIBC.mincore(ctypes.c_void_p(at), ctypes.c_size_t(len(mapping)), found) == 0
        return sum(page & 1 for page in found)


def test_names_that_are_no_queues_are_passed_over(tmp_path: Path) -> None:
    entry = [[ENTRY.pack(0, 7, 0)]]
    for name in ("7", "007", "x", "-1", "+2", "1e1", "²", "2147483648", "9" * 25, "2147483647"):
        make(tmp_path / "t" / name, 2000, entry)
    (tmp_path / "t" / "8").write_bytes(b"a file")
    (tmp_path / "t" / "9").symlink_to(tmp_path / "t" / "7")
    make(tmp_path / "t" / "5", 2000, [])
    (tmp_path / "t" / "5" / "0000000000000000000x").touch()
    (tmp_path / "t" / "5" / "99999999999999999999").touch()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "t")
    make(tmp_path / os.fsdecode(b"\xff\xfe") / "0", 2000, entry)
    with Folder.open(tmp_path) as folder:
        queues = QueueFiles(folder, 2000)
        found = list(queues.counts(100, 0))
        assert [one[:4] for one in found] == [
            ("t", 5, 0, 0),
            ("t", 7, 1, 0),
            ("t", 2147483647, 1, 0),
        ]
        assert [(topic, queue) for topic, queue, _ in queues.queues()] == [
            ("t", 5), ("t", 7), ("t", 2147483647),
        ]  # fmt: skip
        topics = {topic for topic, _, _ in queues.queues()}
    assert topics == {"t"}


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    make(tmp_path / "t" / "0", 2000, [])
    file = tmp_path / "t" / "0" / file_name(0)
    file.mkdir()
    with Folder.open(tmp_path) as folder, pytest.raises(OSError, match=str(file)) as error:
        list(QueueFiles(folder, 2000).counts(100, 0))
    assert error.value.errno == errno.EISDIR
