"""Start-up over a store that was cleaned: with what cleaning lets go, nothing is ever missing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.starts import FILE_SIZE, made, start
from support.store_files import QUEUE_FILE, Store

from silomq.shm.progress import Progress
from silomq.store.consumequeue.queue import ENTRY
from silomq.store.disk.paths import PROGRESS
from silomq.store.recovery import durable_progress
from silomq.store.retention import removal
from silomq.store.retention.judgement import Limits, due
from silomq.store.retention.rules import removable_below

if TYPE_CHECKING:
    from pathlib import Path

    from support.twins import Queue


def clean(store: Store, durable: Progress, expected: dict[Queue, dict[int, bytes]]) -> int:
    """What the clean process does, in its order: the new minimum of the log."""
    limits = Limits(
        file_size=FILE_SIZE,
        removable=removable_below(store.ends[-1], durable.dispatched, FILE_SIZE),
        end=store.ends[-1],
        now_ms=0,
        reserved_ms=0,
        forced=True,
    )
    ages = removal.log_ages(store.folders.commit_log)
    gone = due(ages, limits, lambda _: True, most=1000)
    least = gone[-1] + FILE_SIZE if gone else 0
    for base in gone:
        removal.remove(store.folders.commit_log, base)
    cleaner = removal.QueueCleaner(store.queues, least, durable.dispatched)
    for (topic, queue_id), end in store.next.items():
        found = cleaner.look(topic, queue_id, 0, end)
        assert found.min_offset == first_left(expected[topic, queue_id], least)
        folder = store.queues.folder(topic, queue_id)
        for base in found.files:
            removal.remove(folder, base)
        folder.close()
    removal.clean_index(store.index, least, durable.index.name)
    return least


def first_left(written: dict[int, bytes], least: int) -> int:
    """The first queue offset whose record is not below `least`, the queue's end if there is
    none.
    """
    left = [number for number, entry in written.items() if ENTRY.unpack(entry)[0] >= least]
    return min(left, default=max(written, default=-1) + 1)


def forget(store: Store, durable: int) -> None:
    """A power cut: queue entries of records from `durable` on never reached the disk."""
    for _, _, folder in store.queues.queues():
        for name in folder.names():
            with folder.file(name, write=True) as fd:
                data = bytearray(os.pread(fd, QUEUE_FILE, 0))
                for at in range(0, QUEUE_FILE, ENTRY.size):
                    if ENTRY.unpack_from(data, at)[0] >= durable:
                        data[at : at + ENTRY.size] = bytes(ENTRY.size)
                os.pwrite(fd, data, 0)


def entries(store: Store, queue: Queue) -> dict[int, bytes]:
    """The written entries of a queue, by queue offset."""
    found = {}
    folder = store.queues.folder(*queue)
    for name in folder.names():
        with folder.file(name) as fd:
            data = os.pread(fd, QUEUE_FILE, 0)
        for at in range(0, QUEUE_FILE, ENTRY.size):
            if any(data[at : at + ENTRY.size]):
                found[(int(name) + at) // ENTRY.size] = data[at : at + ENTRY.size]
    folder.close()
    return found


@pytest.mark.parametrize("power_cut", [False, True], ids=["crash", "power cut"])
@pytest.mark.parametrize("stops", [(), (3,), (20,), (40,), (20, 60)])
@pytest.mark.parametrize("seed", range(4))
def test_start_up_after_cleaning(
    seed: int, stops: tuple[int, ...], tmp_path: Path, *, power_cut: bool
) -> None:
    store = made(tmp_path, 100 + seed, stops)
    expected = {queue: entries(store, queue) for queue in store.next}
    found = durable_progress.read(store.folders.ours)
    durable = found.progress if found else Progress()
    least = clean(store, durable, expected)
    if power_cut:
        forget(store, durable.dispatched)
    for _ in range(2):
        report = start(store, tmp_path)
        assert not report.notes, "nothing had to be built anew"
        assert store.control.load("min_offset") == least
        for queue, count in store.next.items():
            slot = store.table.slot(*queue)
            assert store.table.queue_word(slot, "next").load() == count
            assert store.table.queue_word(slot, "max_offset").load() == count
            first = first_left(expected[queue], least)
            now = entries(store, queue)
            assert all(now[i] == expected[queue][i] for i in range(first, count))
    if stops == (20, 60):
        assert least >= FILE_SIZE, "something went"


def test_all_is_built_anew_from_what_is_left(tmp_path: Path) -> None:
    """Without the progress record, after cleaning: queues keep their offsets."""
    store = made(tmp_path, 200, (20, 60))
    expected = {queue: entries(store, queue) for queue in store.next}
    found = durable_progress.read(store.folders.ours)
    assert found is not None
    least = clean(store, found.progress, expected)
    assert least
    store.folders.ours.unlink(PROGRESS)
    start(store, tmp_path)
    for queue, count in store.next.items():
        slot = store.table.slot(*queue)
        assert store.table.queue_word(slot, "next").load() == count
