"""What a killed store left in its pool: looked at first, then put into the log."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import posix_ipc
import pytest
from support.offline_stores import state

from silomq.shm import pool, segments
from silomq.shm._memory import Mapping
from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.store.disk.paths import StoreFolders, file_name
from silomq.store.errors import StoreError
from silomq.store.recovery.pool_recovery import look_in_pool, old_control, put_into_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE_SIZE = 8192
BUFFERS = 3
LOG = random.Random(1).randbytes(5 * FILE_SIZE)


@pytest.fixture
def store_id(tmp_path: Path) -> Iterator[int]:
    number = segments.store_identity(tmp_path)
    yield number
    segments.remove_all(number)
    assert segments.leftovers(number) == []


def killed(path: Path, store_id: int, committed: int, wrote: int) -> StoreFolders:
    """A store that was killed when commit had come to `committed` and append to `wrote`: its files,
    control block and pool.
    """
    folders = StoreFolders(path, create=True)
    control = Control(segments.create_segment(store_id, "control", SIZE), STARTUP)
    control.create(store_id)
    control.own("committed").store(committed)
    control.own("wrote").store(wrote)
    pool.create(store_id, BUFFERS, FILE_SIZE)
    memory = pool.Pool(store_id, BUFFERS, FILE_SIZE)
    for base in range(0, len(LOG), FILE_SIZE):
        done = LOG[base : max(base, min(committed, base + FILE_SIZE))]
        file = path / "commitlog" / file_name(base)
        file.write_bytes(done.ljust(FILE_SIZE, b"\0"))
        if base < wrote and base + FILE_SIZE > committed:
            end = min(wrote, base + FILE_SIZE)
            memoryview(memory.buffer(base))[: end - base] = LOG[base:end]
    return folders


@pytest.mark.parametrize(
    ("committed", "wrote"),
    [
        (100, 101),
        (0, FILE_SIZE),
        (3000, 2 * FILE_SIZE + 5),
        (FILE_SIZE, 3 * FILE_SIZE),
        (2 * FILE_SIZE + 1, len(LOG) - 1),
    ],
)
def test_what_only_the_pool_has_comes_into_the_log(
    committed: int, wrote: int, tmp_path: Path, store_id: int
) -> None:
    with killed(tmp_path, store_id, committed, wrote) as folders:
        before = state(tmp_path)
        rest = look_in_pool(store_id, FILE_SIZE)
        assert state(tmp_path) == before
        assert rest is not None
        assert (rest.committed, rest.wrote, rest.size) == (committed, wrote, wrote - committed)
        for _ in range(2):  # a start that was killed in between does it again
            put_into_log(rest, folders)
            log = b"".join(f.read_bytes() for f in sorted((tmp_path / "commitlog").iterdir()))
            assert log == LOG[:wrote].ljust(len(LOG), b"\0")


def test_a_pool_that_was_committed_holds_nothing(tmp_path: Path, store_id: int) -> None:
    with killed(tmp_path, store_id, 5000, 5000):
        assert look_in_pool(store_id, FILE_SIZE) is None


def test_a_store_without_a_pool(tmp_path: Path, store_id: int) -> None:
    with StoreFolders(tmp_path, create=True):
        assert look_in_pool(store_id, FILE_SIZE) is None
        assert old_control(store_id) is None


def test_a_control_block_that_is_not_whole_tells_nothing(tmp_path: Path, store_id: int) -> None:
    with killed(tmp_path, store_id, 0, 100):
        assert old_control(store_id) is not None
        memory = posix_ipc.SharedMemory(segments.object_name(store_id, "control"))
        memoryview(Mapping(memory.fd, 0, SIZE))[0] ^= 1
        memory.close_fd()
        assert old_control(store_id) is None
        assert look_in_pool(store_id, FILE_SIZE) is None


@pytest.mark.parametrize("size", [FILE_SIZE // 2, 2 * FILE_SIZE])
def test_settings_that_do_not_fit_are_refused(size: int, tmp_path: Path, store_id: int) -> None:
    with killed(tmp_path, store_id, 100, 3 * FILE_SIZE):
        before = state(tmp_path)
        with pytest.raises(StoreError, match="start once with the settings it ran with"):
            look_in_pool(store_id, size)
        assert state(tmp_path) == before
        assert look_in_pool(store_id, FILE_SIZE) is not None, "the pool is as it was"
