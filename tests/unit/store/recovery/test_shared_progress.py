"""A killed run's words in shared memory: a start goes on from them, and when it must not."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.left_stores import crashed
from support.starts import check, fresh_memory, lose_power, save_progress, settings_of
from support.store_files import Store

from silomq.shm import pool, segments
from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.store.disk.paths import ABORT, file_name
from silomq.store.disk.stamps import stamp
from silomq.store.errors import Corrupt
from silomq.store.recovery import shared_progress
from silomq.store.recovery.apply import apply
from silomq.store.recovery.checkpoint import Checkpoint
from silomq.store.recovery.checkpoint import write as write_checkpoint
from silomq.store.recovery.look import look
from silomq.store.recovery.plan import MEMORY_KNOWN, OURS_KNOWN, ROCKETMQ_KNOWN, RecoveryPlan

if TYPE_CHECKING:
    from collections.abc import Callable


def killed(path: Path, store_id: int) -> tuple[Store, Control]:
    """A store that was killed when all was dispatched and little was durable, and its memory."""
    store = crashed(path)
    (path / "silomq" / "progress").unlink()
    progress = store.control.progress()
    store.control.set_progress(store.control.progress())
    control = Control(segments.create_segment(store_id, "control", SIZE), STARTUP)
    control.create(store_id)
    control.set_progress(progress)
    control.own("wrote").store(store.ends[-1])
    control.own("store_time_ms").store(store.control.load("store_time_ms"))
    control.own("run_stamp").store(stamp(store.folders.root, ABORT))
    control.own("heartbeat").store(time.monotonic_ns())
    early = Store.__new__(Store)
    early.folders, early.control = store.folders, Control(bytearray(SIZE), STARTUP)
    save_progress(early, 0)
    return store, control


def plan_of(store: Store, store_id: int) -> RecoveryPlan:
    published = shared_progress.read(store.folders, store_id)
    return look(store.folders, settings_of(store), published=published)


def test_a_start_after_a_kill_reads_nothing_twice(tmp_path: Path, store_id: int) -> None:
    store, _ = killed(tmp_path, store_id)
    plan = plan_of(store, store_id)
    assert plan.run.known_from == MEMORY_KNOWN
    assert (plan.log.end.records, plan.log.scanned_from) == (0, store.ends[-1])
    assert plan.dispatch.begin.dispatched == store.ends[-1]
    report = apply(plan, store.folders, settings_of(store), *fresh_memory(store))
    assert (report.records_scanned, report.entries_dispatched) == (0, 0)
    check(store)
    assert store.control.load("flushed") == 0, "flush makes the rest durable while the store runs"


def test_a_start_dispatches_what_the_killed_reput_had_not(tmp_path: Path, store_id: int) -> None:
    """The words are of an earlier moment, the queues and the index are further."""
    store, control = killed(tmp_path, store_id)
    control.set_progress(Control(bytearray(SIZE), STARTUP).progress())
    plan = plan_of(store, store_id)
    assert plan.run.known_from == MEMORY_KNOWN
    assert plan.log.end.records == 0
    report = apply(plan, store.folders, settings_of(store), *fresh_memory(store))
    assert report.entries_dispatched == sum(store.next.values())
    check(store)


def replaced(store: Store, control: Control) -> None:
    (root := store.folders.root).unlink(ABORT)
    with root.file(ABORT, write=True, create=True):
        pass


def rewritten(store: Store, control: Control) -> None:
    with store.folders.root.file(ABORT, write=True) as fd:
        os.pwrite(fd, b"4711", 0)


def removed(store: Store, control: Control) -> None:
    store.folders.root.unlink(ABORT)


def killed_at_its_start(store: Store, control: Control) -> None:
    control.own("run_stamp").store(0)


def sync_failed(store: Store, control: Control) -> None:
    control.own("flush_error").store(5)


def behind_the_record(store: Store, control: Control) -> None:
    save_progress(store, store.ends[-1])
    control.own("wrote").store(store.ends[-2])


def machine_booted(store: Store, control: Control) -> None:
    lose_power(Path(store.folders.root.path))


CHANGES = (
    replaced,
    rewritten,
    removed,
    killed_at_its_start,
    sync_failed,
    behind_the_record,
    machine_booted,
)


@pytest.mark.parametrize("change", CHANGES)
def test_memory_that_does_not_fit_the_files_is_not_trusted(
    change: Callable[[Store, Control], None], tmp_path: Path, store_id: int
) -> None:
    store, control = killed(tmp_path, store_id)
    assert plan_of(store, store_id).run.known_from == MEMORY_KNOWN
    change(store, control)
    plan = plan_of(store, store_id)
    assert plan.run.known_from == OURS_KNOWN
    assert plan.run.start is not None
    assert plan.run.start.flushed == plan.run.start.durable


def test_a_log_file_that_memory_knows_must_be_there(tmp_path: Path, store_id: int) -> None:
    """Also one that was not durable: its records were acknowledged."""
    store, _ = killed(tmp_path, store_id)
    last = store.ends[-1] - store.ends[-1] % store.file_size
    store.folders.commit_log.unlink(file_name(last))
    with pytest.raises(Corrupt, match="the file is missing"):
        plan_of(store, store_id)


def test_rocketmq_that_had_the_store_since_is_believed(tmp_path: Path, store_id: int) -> None:
    store, _ = killed(tmp_path, store_id)
    write_checkpoint(store.folders.root, Checkpoint(1_700_000_000_000, 1_700_000_000_000))
    assert plan_of(store, store_id).run.known_from == ROCKETMQ_KNOWN


def test_a_store_with_a_pool_is_read_from_its_record(tmp_path: Path, store_id: int) -> None:
    store, _ = killed(tmp_path, store_id)
    pool.create(store_id, 1, 4096)
    assert plan_of(store, store_id).run.known_from == OURS_KNOWN


def test_a_batch_that_was_never_published_is_cut_off_and_nothing_else_is_done(
    tmp_path: Path, store_id: int
) -> None:
    """A kill under load leaves one most of the time: no sync of what was not durable, and no look
    at all queues, may hang on it.
    """
    store, _ = killed(tmp_path, store_id)
    end = store.ends[-1]
    with store.folders.commit_log.file(file_name(end - end % store.file_size), write=True) as fd:
        os.pwrite(fd, b"half a record", end % store.file_size)
    plan = plan_of(store, store_id)
    assert plan.run.known_from == MEMORY_KNOWN
    assert plan.log.cut_bytes == len(b"half a record")
    assert plan.leaves_syncs
    assert not plan.cuts_queues
    report = apply(plan, store.folders, settings_of(store), *fresh_memory(store))
    (kept,) = report.kept_in
    assert (tmp_path / kept).read_bytes() == b"half a record"
    check(store)
    assert store.control.load("flushed") == 0
