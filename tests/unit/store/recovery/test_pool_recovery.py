"""What a killed store left in its pool comes into the log if the log provably lacks it."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

import posix_ipc
import pytest
from support.offline_stores import state
from support.starts import FILE_SIZE, restart, settings_of
from support.store_files import Store, batches

from silomq.shm import pool, segments
from silomq.shm._memory import Mapping
from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.store.disk.paths import StoreFolders, file_name
from silomq.store.errors import Corrupt, StoreError
from silomq.store.recovery import checkpoint, power_cut
from silomq.store.recovery.checkpoint import Checkpoint
from silomq.store.recovery.durable_progress import DurableProgress, ProgressFile
from silomq.store.recovery.look import look
from silomq.store.recovery.plan import RecoveryPlan
from silomq.store.recovery.pool_recovery import (
    PoolRest,
    look_in_pool,
    old_control,
    put_into_log,
    settle_pool,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BUFFERS = 5


def killed(path: Path, store_id: int, committed: int, wrote: int) -> Store:
    """A store that ran, saved its progress, and was killed when commit had come to `committed` and
    append to the end of batch `wrote`: its files, control block and pool.
    """
    store = Store(path, batches(3, 60), file_size=FILE_SIZE)
    whole, end = bytes(store.data), store.ends[wrote]
    for file in (path / "commitlog").iterdir():
        base = int(file.name)
        done = whole[base : max(base, min(committed, base + FILE_SIZE))]
        file.write_bytes(done.ljust(FILE_SIZE, b"\0"))
    power_cut.note_boot(store.folders.ours)
    durable_up_to(store, max(at for at in store.ends if at <= committed))
    control = Control(segments.create_segment(store_id, "control", SIZE), STARTUP)
    control.create(store_id)
    control.own("committed").store(committed)
    control.own("wrote").store(end)
    pool.create(store_id, BUFFERS, FILE_SIZE)
    memory = pool.Pool(store_id, BUFFERS, FILE_SIZE)
    for base in range(0, len(whole), FILE_SIZE):
        if base < end and base + FILE_SIZE > committed:
            stop = min(end, base + FILE_SIZE)
            memoryview(memory.buffer(base))[: stop - base] = whole[base:stop]
    return store


def durable_up_to(store: Store, end: int) -> None:
    """The progress record says that the log was durable up to `end`; nothing was dispatched."""
    ProgressFile(store.folders.ours).write(DurableProgress(flushed=end))


def rest_of(store_id: int) -> PoolRest:
    rest = look_in_pool(store_id, FILE_SIZE)
    assert rest is not None
    return rest


def plan_with_pool(store: Store, store_id: int) -> RecoveryPlan:
    """The plan of the start; the look at it has changed nothing."""
    before = state(Path(store.folders.root.path))
    plan = look(store.folders, settings_of(store), pool=rest_of(store_id))
    assert state(Path(store.folders.root.path)) == before
    assert plan.pool is not None
    return plan


def log_of(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted((path / "commitlog").iterdir()))


def commits(store: Store) -> Iterator[tuple[int, int]]:
    """(committed, batch of wrote): at ends of records, within them, at and across files."""
    ends = store.ends
    yield ends[10], 11
    yield ends[10] + 1, 12
    yield ends[20] - 1, 40
    yield 0, 9
    yield FILE_SIZE, 40
    yield FILE_SIZE + 5, 60
    yield 2 * FILE_SIZE - 3, 60


@pytest.mark.parametrize("case", range(7))
def test_what_only_the_pool_has_comes_into_the_log(
    case: int, tmp_path: Path, store_id: int
) -> None:
    made = Store(tmp_path / "twin", batches(3, 60), file_size=FILE_SIZE)
    committed, wrote = list(commits(made))[case]
    store = killed(tmp_path, store_id, committed, wrote)
    end = store.ends[wrote]
    plan = plan_with_pool(store, store_id)
    assert plan.pool is not None
    assert (plan.pool.refused, plan.log.end.end, plan.log.torn) == ("", end, ())
    rng = random.Random(case)
    for _ in range(3):  # a start that was killed in between does it again
        assert settle_pool(plan.pool, store.folders) == []
        assert log_of(tmp_path) == store.data[:end].ljust(len(log_of(tmp_path)), b"\0")
        again = plan_with_pool(store, store_id)
        assert again.pool is not None
        assert (again.pool.refused, again.log.end.end) == ("", end)
        undo(tmp_path, rng.randrange(committed, end), end)
        assert plan_with_pool(store, store_id).pool.refused == ""  # type: ignore[union-attr]
    settle_pool(plan.pool, store.folders)
    assert not (tmp_path / "recovery").exists()
    report = restart(store)
    assert report.log_end == end
    assert not report.cut_bytes


def undo(path: Path, start: int, end: int) -> None:
    """The bytes [start, end) of the log are zeros again: the salvage was killed at `start`."""
    for file in (path / "commitlog").iterdir():
        base, data = int(file.name), bytearray(file.read_bytes())
        low, high = max(start - base, 0), min(end - base, FILE_SIZE)
        if low < high:
            data[low:high] = bytes(high - low)
            file.write_bytes(data)


def rocketmq_stopped(store: Store, path: Path) -> None:
    """RocketMQ has run and stopped: its checkpoint is another one."""
    checkpoint.write(store.folders.root, Checkpoint(1_800_000_000_000, 1_800_000_000_000, 5))


def other_bytes(store: Store, path: Path) -> None:
    """Somebody has appended to the log: one byte differs."""
    at = store.ends[20] + 60
    file = path / "commitlog" / file_name(at - at % FILE_SIZE)
    data = bytearray(file.read_bytes())
    data[at % FILE_SIZE] = store.data[at] ^ 0x10 or 1
    file.write_bytes(data)


def shorter_log(store: Store, path: Path) -> None:
    """The log ends before `committed`: an older copy was restored."""
    undo(path, store.ends[19], len(store.data))


@pytest.mark.parametrize("harm", [rocketmq_stopped, other_bytes, shorter_log])
def test_a_pool_that_the_log_may_not_lack_is_kept_aside(
    harm: Callable[[Store, Path], None], tmp_path: Path, store_id: int
) -> None:
    """Nothing of it comes into the log; the report names it, and the bytes are in recovery/."""
    twin = Store(tmp_path / "twin", batches(3, 60), file_size=FILE_SIZE)
    committed, end = twin.ends[20] + 10, twin.ends[40]
    store = killed(tmp_path, store_id, committed, 40)
    if harm is shorter_log:
        durable_up_to(store, store.ends[19])
    harm(store, tmp_path)
    before = log_of(tmp_path)
    plan = plan_with_pool(store, store_id)
    assert plan.pool is not None
    assert plan.pool.refused
    assert f"offsets {committed} to {end}, were NOT put into the log" in " ".join(plan.notes())
    kept = settle_pool(plan.pool, store.folders)
    assert log_of(tmp_path) == before
    found = {int(re.findall(r"pool-(\d+)", name)[0]): name for name in kept}
    data = b"".join((tmp_path / found[at]).read_bytes() for at in sorted(found))
    assert (min(found), data) == (committed, bytes(store.data[committed:end]))


def test_a_file_that_only_the_pool_holds_is_made_anew(tmp_path: Path, store_id: int) -> None:
    store = killed(tmp_path, store_id, FILE_SIZE, 40)
    (tmp_path / "commitlog" / file_name(FILE_SIZE)).unlink()
    for name in sorted((tmp_path / "commitlog").iterdir())[1:]:
        name.unlink()
    plan = plan_with_pool(store, store_id)
    assert plan.pool is not None
    assert plan.pool.refused == ""
    settle_pool(plan.pool, store.folders)
    assert restart(store).log_end == store.ends[40]


def test_a_pool_whose_committed_file_is_gone_stays_until_that_is_settled(
    tmp_path: Path, store_id: int
) -> None:
    """The start is refused for the missing file, and the pool is as it was."""
    store = killed(tmp_path, store_id, FILE_SIZE + 900, 40)
    (tmp_path / "commitlog" / file_name(FILE_SIZE)).unlink()
    with pytest.raises(Corrupt, match="the file is missing"):
        look(store.folders, settings_of(store), pool=rest_of(store_id))
    assert rest_of(store_id).size


def test_a_pool_that_was_committed_holds_nothing(tmp_path: Path, store_id: int) -> None:
    store = killed(tmp_path, store_id, 3000, 40)
    rest = rest_of(store_id)
    put_into_log(rest, store.log)
    segments.remove_all(store_id)
    assert look_in_pool(store_id, FILE_SIZE) is None


def test_a_store_without_a_pool(tmp_path: Path, store_id: int) -> None:
    with StoreFolders(tmp_path, create=True):
        assert look_in_pool(store_id, FILE_SIZE) is None
        assert old_control(store_id) is None


def test_a_control_block_that_is_not_whole_tells_nothing(tmp_path: Path, store_id: int) -> None:
    killed(tmp_path, store_id, 0, 40)
    assert old_control(store_id) is not None
    memory = posix_ipc.SharedMemory(segments.object_name(store_id, "control"))
    memoryview(Mapping(memory.fd, 0, SIZE))[0] ^= 1
    memory.close_fd()
    assert old_control(store_id) is None
    assert look_in_pool(store_id, FILE_SIZE) is None


@pytest.mark.parametrize("size", [FILE_SIZE // 2, 2 * FILE_SIZE])
def test_settings_that_do_not_fit_are_refused(size: int, tmp_path: Path, store_id: int) -> None:
    killed(tmp_path, store_id, 100, 40)
    before = state(tmp_path)
    with pytest.raises(StoreError, match="start once with the settings it ran with"):
        look_in_pool(store_id, size)
    assert state(tmp_path) == before
    assert rest_of(store_id).size, "the pool is as it was"
