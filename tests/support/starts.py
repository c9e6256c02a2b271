"""Starts over stores made by hand: look and apply, in fresh memory of the test's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from support.store_files import QUEUE_FILE, Store, batches
from support.twins import DELAY_LEVELS_MS

from silomq.conf.settings import FlushDiskType
from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.store.disk.paths import StoreFolders
from silomq.store.recovery import durable_progress, power_cut
from silomq.store.recovery.apply import apply
from silomq.store.recovery.durable_progress import DurableProgress
from silomq.store.recovery.look import look
from silomq.store.recovery.store_files import StoreFiles
from silomq.store.topics.table_layout import Plan
from silomq.store.topics.topic_table import TopicTable

if TYPE_CHECKING:
    from pathlib import Path

    from silomq.conf.settings import Settings
    from silomq.store.recovery.plan import Report

FILE_SIZE = 6000


def start(store: Store, path: Path) -> Report:
    """Starts the store from its files alone, in fresh shared memory, which `store` then shows."""
    store.folders = StoreFolders(path, create=True)
    files = StoreFiles.of(store.folders, settings_of(store))
    store.queues, store.index = files.queues, files.index
    return restart(store)


def restart(store: Store) -> Report:
    """The same in the folders that are open already."""
    plan = look(store.folders, settings_of(store))
    return apply(plan, store.folders, settings_of(store), *fresh_memory(store))


def settings_of(store: Store) -> Settings:
    settings = SimpleNamespace(
        message_delay_level=DELAY_LEVELS_MS,
        mapped_file_size_commit_log=FILE_SIZE,
        mapped_file_size_consume_queue=QUEUE_FILE,
        max_hash_slot_num=store.index.slots,
        max_index_num=store.index.entries,
        message_index_enable=True,
        check_crc_on_recover=True,
        flush_disk_type=FlushDiskType.ASYNC_FLUSH,
        default_topic_queue_nums=4,
        max_queues=2**22,
    )
    return cast("Settings", settings)


def fresh_memory(store: Store) -> tuple[Control, TopicTable]:
    plan = Plan(max_topics=8, max_queues=40, max_sessions=1)
    store.control = Control(bytearray(SIZE), STARTUP)
    store.table = TopicTable.create(bytearray(plan.size), plan)
    return store.control, store.table


def check(store: Store) -> None:
    """The files and the queues' offsets are the twins'; dispatch_count starts with each store."""
    assert store.queue_bytes() == store.expected_queues()
    assert store.index_bytes() == store.expected_index()
    for (topic, queue_id), count in store.next.items():
        slot = store.table.slot(topic, queue_id)
        assert store.table.queue_word(slot, "max_offset").load() == count
        assert store.table.queue_word(slot, "next").load() == count
    for word in ("wrote", "committed", "dispatched"):
        assert store.control.load(word) == store.ends[-1]
    # After a crash of processes flush syncs the rest.
    record = durable_progress.read(store.folders.ours)
    assert store.control.load("flushed") in (store.ends[-1], record.flushed if record else -1)


def save_progress(store: Store, end: int) -> None:
    """The durable record of a store whose reput and flush had come to `end`."""
    progress = store.control.progress()
    assert progress.dispatched == end
    stored_ms = store.control.load("store_time_ms")
    record = DurableProgress(flushed=end, progress=progress, store_time_ms=stored_ms)
    durable_progress.ProgressFile(store.folders.ours).write(record)


def made(path: Path, seed: int, stops: tuple[int, ...]) -> Store:
    """A store that ran, dispatched everything, and saved its progress after some batches."""
    store = Store(path, batches(seed, 60), file_size=FILE_SIZE, entries=30)
    dispatching = store.dispatching()
    for stop in stops:
        store.dispatch(store.ends[stop], dispatching)
        save_progress(store, store.ends[stop])
    store.dispatch(None, dispatching)
    store.check()
    return store


def lose_power(path: Path) -> None:
    """The next start is as if in another boot of the machine."""
    (path / "silomq" / power_cut.BOOT).write_text("another boot")
