"""A store is removed with its shared memory, and nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from silomq.shm import segments
from silomq.store.disk.files import Folder
from silomq.store.disk.paths import StoreFolders
from silomq.supervisor.claim import AlreadyRunning, take_lock
from silomq.supervisor.removal import remove_store

if TYPE_CHECKING:
    from pathlib import Path


def make(path: Path) -> int:
    """A folder as a store leaves it. Returns the store's identity."""
    with StoreFolders(path, create=True):
        (path / "commitlog" / f"{0:020d}").write_bytes(b"x")
        (path / "checkpoint").write_bytes(b"x")
    store_id = segments.store_identity(path)
    segments.create_semaphore(store_id, "test").close()
    return store_id


def test_all_goes(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store_id = make(path)
    remove_store(path)
    assert segments.leftovers(store_id) == []
    assert list(tmp_path.iterdir()) == []
    remove_store(path)  # nothing is there


def test_what_is_not_the_stores_stays(tmp_path: Path) -> None:
    path, other = tmp_path / "store", tmp_path / "other"
    make(path)
    other.mkdir()
    (other / "file").touch()
    (path / "notes").touch()
    (path / "index").rmdir()
    (path / "index").symlink_to(other)
    remove_store(path)
    assert [each.name for each in path.iterdir()] == ["notes"]
    assert (other / "file").exists()


def test_the_store_of_another_process_stays(tmp_path: Path) -> None:
    # The lock is of a process: a child holds it.
    import os

    path = tmp_path / "store"
    store_id = make(path)
    gone_read, gone_write = os.pipe()
    held_read, held_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(gone_write)
        with Folder.open(path) as folder:
            take_lock(folder)
        os.write(held_write, b"1")
        os.read(gone_read, 1)
        os._exit(0)
    try:
        assert os.read(held_read, 1) == b"1"
        with pytest.raises(AlreadyRunning):
            remove_store(path)
        assert (path / "checkpoint").exists()
        assert segments.leftovers(store_id)
    finally:
        for fd in (gone_write, gone_read, held_read, held_write):
            os.close(fd)
        os.waitpid(pid, 0)
    remove_store(path)
    assert not path.exists()
