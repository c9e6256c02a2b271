"""After another program had the store: each record's keys are in the index once, wherever dispatch
begins again.
"""

from __future__ import annotations

import copy
import os
import random
import shutil
from typing import TYPE_CHECKING

import pytest
from support.starts import FILE_SIZE, check, start
from support.store_files import DAY_MS, Store, batches, message

from silomq.store.disk.files import Folder
from silomq.store.disk.paths import ABORT
from silomq.store.errors import StoreError
from silomq.store.index.rewind import header_of, index_below, kept_until
from silomq.store.recovery import checkpoint
from silomq.store.recovery.checkpoint import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from silomq.shm.progress import Progress
    from silomq.store.recovery.plan import Report


def made(path: Path, seed: int, *, slots: int = 11, entries: int = 30) -> Store:
    """A store that was dispatched whole, with nothing of ours in it."""
    store = Store(path, batches(seed, 80), file_size=FILE_SIZE, slots=slots, entries=entries)
    store.dispatch()
    store.check()
    shutil.rmtree(path / "silomq")
    return store


def halted(store: Store, path: Path, noted: Checkpoint) -> tuple[Store, Report]:
    """A copy of the store that was halted with this checkpoint, after its start."""
    shutil.copytree(store.folders.root.path, path)
    (path / ABORT).touch()
    started = copy.copy(store)
    with Folder.open(path) as root:
        checkpoint.write(root, noted)
    report = start(started, path)
    assert report.known_from == "RocketMQ's checkpoint"
    with Folder.open(path) as root:
        promised = checkpoint.read(root)
    assert promised is not None
    for name in started.index.names():
        # What RocketMQ would take to be durable after a power cut must have been so before.
        if started.index.end_time(name) <= promised.index_msg_timestamp:
            assert started.index.end_time(name) <= noted.index_msg_timestamp
            assert name in store.index.names()
            header = header_of(started.index, name)
            assert header is not None
            assert header.end_offset < report.dispatched_from
    return started, report


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_checkpoint_knows(seed: int, tmp_path: Path) -> None:
    """Queue entries may be known to be durable less far than the index is, or further; the last
    record of a full index file may have keys in the next one.
    """
    rng = random.Random(seed)
    store = made(tmp_path / "made", seed)
    ends = [store.index.end_time(name) for name in store.index.names()]
    assert len(ends) > 6
    before = 0
    for case in range(15):
        physic = rng.randrange(DAY_MS + 3000, ends[-1] + 10_000)
        index = rng.choice(ends)
        started, report = halted(store, tmp_path / f"{case}", Checkpoint(physic, physic, index))
        check(started)
        before += report.dispatched_from > 0 and physic - 3000 < index
    assert before > 2, "dispatch hardly ever began before the end of the index"


@pytest.mark.parametrize("keys", [1, 2, 3, 4, 7, 9, 20])
def test_a_record_with_keys_in_two_files_or_more(keys: int, tmp_path: Path) -> None:
    messages = [
        message(KEYS=" ".join(f"k{number}-{i}" for i in range(keys))) for number in range(40)
    ]
    store = Store(tmp_path / "made", messages, file_size=FILE_SIZE, entries=9)
    store.dispatch()
    store.check()
    shutil.rmtree(tmp_path / "made" / "silomq")
    late = DAY_MS + 10**9
    for case, name in enumerate(store.index.names()):
        noted = Checkpoint(late, late, store.index.end_time(name))
        check(halted(store, tmp_path / f"{case}", noted)[0])


def test_the_index_taken_back_is_what_it_was(tmp_path: Path) -> None:
    """At each record: the progress is the one that dispatch published before it."""
    store = Store(tmp_path, batches(3, 40), file_size=FILE_SIZE, entries=30)
    dispatching = store.dispatching()
    stops: list[Progress] = []
    for end in store.ends[1:]:
        store.dispatch(end, dispatching)
        stops.append(store.control.progress())
    last = stops[-1]
    for before in stops:
        found = index_below(store.index, store.log, last.index, before.dispatched)
        assert found is not None
        if found.name != before.index.name:
            # A full file and an empty one behind it are the same place.
            assert before.index.count == 1
            continue
        assert found == before.index


def damage_header(store: Store, name: int) -> None:
    with store.index.folder.file(str(name), write=True) as fd:
        os.pwrite(fd, b"\xff" * 8, 32)


def cut_short(store: Store, name: int) -> None:
    with store.index.folder.file(str(name), write=True) as fd:
        os.ftruncate(fd, 100)


def damage_time(store: Store, name: int) -> None:
    with store.index.folder.file(str(name), write=True) as fd:
        os.pwrite(fd, b"\xff", 0)


@pytest.mark.parametrize("harm", [damage_header, damage_time, cut_short])
def test_a_damaged_file_that_is_needed(harm: Callable[[Store, int], None], tmp_path: Path) -> None:
    store = Store(tmp_path, batches(4, 40), file_size=FILE_SIZE, entries=30)
    store.dispatch()
    found = store.control.progress().index
    first, second, *_ = store.index.names()
    header = header_of(store.index, second)
    assert header is not None
    harm(store, first)
    assert header_of(store.index, first) is None
    assert index_below(store.index, store.log, found, header.begin_offset) is None
    assert index_below(store.index, store.log, found, found.end_offset) is not None
    harm(store, found.name)
    if harm is cut_short:
        with pytest.raises(StoreError, match="max_index_num"):
            index_below(store.index, store.log, found, found.end_offset)


def test_damaged_entries(tmp_path: Path) -> None:
    """Whatever an entry says, the index ends in its file, or all is dispatched anew."""
    store = Store(tmp_path, batches(5, 40), file_size=FILE_SIZE, entries=30)
    store.dispatch()
    found = store.control.progress().index
    name = store.index.names()[-2]
    header = header_of(store.index, name)
    assert header is not None
    outcomes = set()
    for number in range(1, header.count):
        at = store.index.entry_at(number) + 4
        with store.index.folder.file(str(name), write=True) as fd:
            before = os.pread(fd, 8, at)
            for damage in (b"\xff" * 8, b"\x7f" * 8, b"\x00" * 8):
                os.pwrite(fd, damage, at)
                for limit in store.ends:
                    below = index_below(store.index, store.log, found, limit)
                    outcomes.add(below is None)
                    if below is not None and below.name == name:
                        assert header.begin_offset <= below.end_offset
                        assert below.end_offset <= header.end_offset
            os.pwrite(fd, before, at)
    assert outcomes == {True, False}


def test_a_damaged_file_promises_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path, batches(6, 40), file_size=FILE_SIZE, entries=30)
    store.dispatch()
    found = store.control.progress().index
    before = store.index.names()[-2]
    assert kept_until(store.index, found) in (0, store.index.end_time(before))
    with store.index.folder.file(str(before), write=True) as fd:
        os.pwrite(fd, b"\xff", 8)
    assert store.index.end_time(before) < 0
    assert kept_until(store.index, found) == 0
