"""Stores as runs of every kind leave them, and the plan of a start over each."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from msgspec.structs import replace
from support.offline_stores import state
from support.starts import (
    FILE_SIZE,
    lose_power,
    made,
    save_progress,
    settings_of,
    start,
)
from support.store_files import Store

from silomq.store.disk.paths import ABORT, PROGRESS, file_name
from silomq.store.recovery import durable_progress
from silomq.store.recovery.look import look
from silomq.store.recovery.plan import RecoveryPlan
from silomq.store.topics.deletions import Deletion, Deletions


def plan_of(store: Store) -> RecoveryPlan:
    """The plan of the store as it lies there; the look at it has changed nothing."""
    path = Path(store.folders.root.path)
    before = state(path)
    plan = look(store.folders, settings_of(store))
    assert state(path) == before
    return plan


def untimed(plan: RecoveryPlan) -> RecoveryPlan:
    """The plan without the time that making it took."""
    return replace(plan, looking_ms=0)


def stopped_cleanly(path: Path) -> Store:
    store = made(path, 21, (20, 60))
    found = durable_progress.read(store.folders.ours)
    assert found is not None
    durable_progress.ProgressFile(store.folders.ours).write(replace(found, clean=True))
    return store


def crashed(path: Path) -> Store:
    """It was started once, in this boot of the machine, and then killed."""
    store = made(path, 22, (20, 40))
    start(store, path)
    save_progress(store, store.ends[-1])
    (path / ABORT).touch()
    return store


def power_lost(path: Path) -> Store:
    store = crashed(path)
    lose_power(path)
    return store


def torn(path: Path) -> Store:
    """Its last record is not whole; the queues lead to it already."""
    store = made(path, 23, (20,))
    end = store.ends[-1]
    with store.folders.commit_log.file(file_name(end - end % FILE_SIZE), write=True) as fd:
        os.pwrite(fd, bytes(20), end % FILE_SIZE - 20)
    return store


def without_progress(path: Path) -> Store:
    store = made(path, 24, (20,))
    store.folders.ours.unlink(PROGRESS)
    return store


def without_queues(path: Path) -> Store:
    store = made(path, 25, (20,))
    for topic in (path / "consumequeue").iterdir():
        shutil.rmtree(topic)
    return store


def with_half_made_files(path: Path) -> Store:
    store = made(path, 26, (20,))
    (path / "silomq" / f"allocating-{file_name(FILE_SIZE)}").touch()
    (path / "consumequeue" / "silomq-new").touch()
    (path / "commitlog" / file_name(100 * FILE_SIZE)).touch()
    return store


def with_a_deletion(path: Path) -> Store:
    store = made(path, 27, (20, 60))
    Deletions(store.folders.ours, {"a": Deletion(store.ends[-1], 3)}).write()
    return store


def new(path: Path) -> Store:
    return Store(path, [], file_size=FILE_SIZE)


STORES = (
    stopped_cleanly,
    crashed,
    power_lost,
    torn,
    without_progress,
    without_queues,
    with_half_made_files,
    with_a_deletion,
    new,
)
