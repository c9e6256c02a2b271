"""Named objects of a store: whose they are, who may open them, and how leftovers go."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import posix_ipc
import pytest

from silomq.shm import segments
from silomq.shm._memory import Mapping

SHM = Path("/dev/shm")


def test_a_store_is_its_inode(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    name = segments.store_identity(first)
    assert name != segments.store_identity(second)
    assert 0 <= name < 2**64
    link = tmp_path / "link"
    link.symlink_to(first)
    assert segments.store_identity(link) == name
    first.rename(tmp_path / "renamed")
    assert segments.store_identity(tmp_path / "renamed") == name
    with pytest.raises(FileNotFoundError):
        segments.store_identity(first)


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o777])
def test_objects_are_the_users_alone_whatever_the_umask(umask: int, store_id: int) -> None:
    before = os.umask(umask)
    try:
        segments.create_segment(store_id, "control", 4096)
        segments.create_semaphore(store_id, "allocate").close()
    finally:
        os.umask(before)
    names = segments.leftovers(store_id)
    assert len(names) == 2
    for name in names:
        assert stat.S_IMODE((SHM / name).stat().st_mode) == 0o600


def test_a_segment_is_zeroed_and_shared(store_id: int) -> None:
    memory = segments.create_segment(store_id, "control", 8192)
    view = memoryview(memory)
    assert bytes(view) == bytes(8192)
    view[7] = 9
    fd = segments.open_segment(store_id, "control")
    reader = Mapping(fd, 0, 8192, False)
    assert memoryview(reader)[7] == 9
    with pytest.raises(OSError, match="cannot map"):
        Mapping(fd, 0, 8192)
    with pytest.raises(OSError, match=r"."):
        os.ftruncate(fd, 0)
    os.close(fd)


def test_a_taken_name_is_an_error(store_id: int) -> None:
    segments.create_segment(store_id, "table", 4096)
    with pytest.raises(posix_ipc.ExistentialError):
        segments.create_segment(store_id, "table", 4096)
    segments.create_semaphore(store_id, "gate").close()
    with pytest.raises(posix_ipc.ExistentialError):
        segments.create_semaphore(store_id, "gate")
    with pytest.raises(posix_ipc.ExistentialError):
        segments.open_segment(store_id, "other")


def test_leftovers_are_found_and_removed(store_id: int) -> None:
    memory = segments.create_segment(store_id, "control", 4096)
    segments.create_segment(store_id, "table", 4096)
    segments.create_semaphore(store_id, "allocate").close()
    others = segments.create_segment(store_id ^ 1, "control", 4096)
    try:
        names = segments.leftovers(store_id)
        prefix = f"silomq-{store_id:016x}-"
        assert names == sorted([f"sem.{prefix}allocate", f"{prefix}control", f"{prefix}table"])
        assert segments.remove_all(store_id) == names
        assert segments.leftovers(store_id) == []
        assert segments.remove_all(store_id) == []
        assert len(segments.leftovers(store_id ^ 1)) == 1
        memoryview(memory)[0] = 1
        segments.create_segment(store_id, "control", 4096)
    finally:
        segments.remove_all(store_id ^ 1)
    assert not others.closed


def test_a_semaphore_begins_at_zero(store_id: int) -> None:
    semaphore = segments.create_semaphore(store_id, "allocate")
    with pytest.raises(posix_ipc.BusyError):
        semaphore.acquire(0)
    semaphore.release()
    semaphore.acquire(0)
    semaphore.close()
