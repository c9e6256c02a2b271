"""The disk space of an index file: taken as entries need it, and before they are written."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from support.store_files import Store, batches

from silomq.store.disk import files as disk
from silomq.store.disk.paths import StoreFolders
from silomq.store.index.file import IndexFiles

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


def used(path: Path) -> int:
    """The disk space that the only index file takes, bytes."""
    (file,) = (path / "index").iterdir()
    return file.stat().st_blocks * 512


def test_a_new_index_file_has_its_size_and_takes_the_space_of_its_slots(tmp_path: Path) -> None:
    with StoreFolders(tmp_path, create=True) as folders:
        index = IndexFiles(folders.index, 5_000_000, 20_000_000)
        name, mapping = index.create()
        assert mapping.length == index.folder.size(str(name)) == 40 + 4 * 5_000_000 + 400_000_000
        assert used(tmp_path) <= 20 * MIB
        room = index.take_room(name, 1)
        assert 1 < room < 20_000_000
        assert used(tmp_path) <= 37 * MIB
        assert index.take_room(name, 19_999_999) == 20_000_000


def test_entries_are_written_only_where_space_was_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for seven entries at a time, in files of forty: the files are RocketMQ's."""
    monkeypatch.setattr("silomq.store.index.file._ROOM", 7)
    taken: list[tuple[int, int]] = []
    real = IndexFiles.take_room

    def noted(self: IndexFiles, name: int, count: int) -> int:
        taken.append((name, count))
        return real(self, name, count)

    monkeypatch.setattr(IndexFiles, "take_room", noted)
    store = Store(tmp_path, batches(3, 80))
    store.dispatch()
    store.check()
    names = store.index.names()
    assert len(names) > 1
    assert [count for name, count in taken if name == names[0]] == [1, 8, 15, 22, 29, 36]


def test_a_disk_without_space_for_entries_stops_dispatch_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("silomq.store.index.file._ROOM", 7)
    store = Store(tmp_path, batches(4, 80))
    dispatching = store.dispatching()
    real, full = disk.allocate, True

    def allocate(fd: int, offset: int, length: int) -> None:
        if full and length == 20 * 7:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(fd, offset, length)

    monkeypatch.setattr(disk, "allocate", allocate)
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            store.dispatch(None, dispatching)
    full = False
    store.dispatch(None, dispatching)
    store.check()


def test_a_sparse_file_of_rocketmq_gets_the_space_of_its_slots(tmp_path: Path) -> None:
    with StoreFolders(tmp_path, create=True) as folders:
        index = IndexFiles(folders.index, 100_000, 1000)
        with index.folder.file("20260101000000000", write=True, create=True) as fd:
            disk.set_size(fd, index.size)
        assert used(tmp_path) == 0
        index.open(20260101000000000, writable=False)
        assert used(tmp_path) == 0, "a reader takes nothing"
        index.open(20260101000000000)
        assert used(tmp_path) >= 400_000
