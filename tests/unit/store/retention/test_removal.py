"""Cleaning's hands: what they find in real files, against plain lists."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from silomq.store.consumequeue.queue import BLANK_ENTRY, ENTRY, ENTRY_SIZE, QueueFiles
from silomq.store.disk import files as disk
from silomq.store.disk.files import Folder
from silomq.store.disk.paths import file_name
from silomq.store.index.file import HEADER, IndexFiles
from silomq.store.retention import removal
from silomq.store.retention.rules import UNKNOWN

if TYPE_CHECKING:
    from pathlib import Path

PER_FILE = 5
MIDNIGHT = 20260101000000000


def make_queue(path: Path, offsets: list[int | None], *, first_file: int = 0) -> QueueFiles:
    """Queue 0 of topic `t` with these records, None being a blank entry; a spare file follows."""
    queues = QueueFiles(Folder.open(path), PER_FILE * ENTRY_SIZE)
    folder = queues.folder("t", 0, create=True)
    for name in folder.names():
        folder.unlink(name)
    entries = [BLANK_ENTRY if at is None else ENTRY.pack(at, 10, 7) for at in offsets]
    for number in range(first_file, len(entries) // PER_FILE + 1):
        part = b"".join(entries[PER_FILE * number : PER_FILE * (number + 1)])
        with folder.file(file_name(number * queues.file_size), write=True, create=True) as fd:
            disk.write_at(fd, part.ljust(queues.file_size, b"\0"), 0)
    folder.close()
    return queues


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(st.integers(1, 30), max_size=24),
    st.integers(0, 4),
    st.tuples(st.integers(0, 400), st.integers(0, 400)),
    st.integers(0, 30),
)
def test_queue(
    tmp_path: Path, gaps: list[int], blanks: int, limits: tuple[int, int], least: int
) -> None:
    """The least offset is that of the first record at or above the minimum; whole files below it
    go, if the next one begins with a durable entry.
    """
    minimum, durable = limits
    places = [sum(gaps[: i + 1]) for i in range(len(gaps))]
    offsets: list[int | None] = [*([None] * blanks if gaps else []), *places]
    end = len(offsets)
    least = min(least, end)
    queues = make_queue(tmp_path, offsets)
    found = removal.QueueCleaner(queues, minimum, durable).look("t", 0, least, end)
    first = [i for i, at in enumerate(offsets) if at is not None and at >= minimum]
    assert found.min_offset == max(least, first[0] if first else end)
    expected = []
    for number in range(end // PER_FILE):
        last = offsets[PER_FILE * (number + 1) - 1]
        behind = offsets[PER_FILE * (number + 1)] if PER_FILE * (number + 1) < end else None
        if behind is None or behind >= durable or (last is not None and last >= minimum):
            break
        expected.append(number * queues.file_size)
    assert list(found.files) == expected


def test_queue_whose_first_files_are_gone(tmp_path: Path) -> None:
    queues = make_queue(tmp_path, list(range(0, 160, 10)), first_file=2)
    found = removal.QueueCleaner(queues, 0, 1000).look("t", 0, 0, 16)
    assert found == removal.QueueCleaning(10, ())
    found = removal.QueueCleaner(queues, 125, 1000).look("t", 0, 10, 16)
    assert found == removal.QueueCleaning(13, ())
    found = removal.QueueCleaner(queues, 9999, 9999).look("t", 0, 10, 16)
    assert found == removal.QueueCleaning(16, (200,))


def test_queue_without_a_folder(tmp_path: Path) -> None:
    queues = QueueFiles(Folder.open(tmp_path), 100)
    found = removal.QueueCleaner(queues, 100, 100).look("nowhere", 0, 3, 9)
    assert found == removal.QueueCleaning(3, ())


def make_index(path: Path, ends: list[int]) -> IndexFiles:
    """Index files named MIDNIGHT + 1, 2, ... whose last records lie at these offsets."""
    index = IndexFiles(Folder.open(path), 1, 2)
    for number, end in enumerate(ends, 1):
        (path / str(MIDNIGHT + number)).write_bytes(HEADER.pack(0, 0, 0, end, 0, 1))
    return index


@pytest.mark.parametrize(
    ("ends", "minimum", "in_use", "left"),
    [
        ([50, 60, 70], 65, 3, [3]),
        ([50, 60, 70], 100, 3, [3]),
        ([50, 60, 70], 100, 9, [3]),  # never the last, whatever the record says
        ([50, 60, 70], 100, 2, [2, 3]),
        ([50, 60, 70], 50, 3, [1, 2, 3]),
    ],
)
def test_index(tmp_path: Path, ends: list[int], minimum: int, in_use: int, left: list[int]) -> None:
    index = make_index(tmp_path, ends)
    gone = [name - MIDNIGHT for name in removal.clean_index(index, minimum, MIDNIGHT + in_use)]
    assert gone == [name for name in range(1, len(ends) + 1) if name not in left]
    assert sorted(int(name) - MIDNIGHT for name in os.listdir(tmp_path)) == left


def test_ages_and_removal(tmp_path: Path) -> None:
    for base in (200, 100):
        (tmp_path / file_name(base)).touch()
        os.utime(tmp_path / file_name(base), ns=(0, base * 1_000_000))
    (tmp_path / "foreign").touch()
    folder = Folder.open(tmp_path)
    assert [(f.base, f.modified_ms) for f in removal.log_ages(folder)] == [(100, 100), (200, 200)]
    removal.remove(folder, 100)
    removal.remove(folder, 100)
    assert sorted(os.listdir(tmp_path)) == [file_name(200), "foreign"]


def test_disk_use(tmp_path: Path) -> None:
    folder = Folder.open(tmp_path)
    assert 0 < removal.disk_use(folder) <= 100
    folder.close()
    assert removal.disk_use(folder) == UNKNOWN
