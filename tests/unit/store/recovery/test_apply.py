"""Start-up over hand-made stores: whatever is missing or torn, queues and index are the twins'."""

from __future__ import annotations

import contextlib
import shutil
import struct
from typing import TYPE_CHECKING

import pytest
from support.frames import Batch
from support.starts import FILE_SIZE, check, lose_power, made, restart, start
from support.store_files import Store, batches, message
from support.topics_json import with_topic

from silomq.store.commitlog import _scan as kernel
from silomq.store.commitlog.log_end import ENDS
from silomq.store.config import topics as topics_json
from silomq.store.disk.paths import PROGRESS, file_name
from silomq.store.errors import Corrupt, StoreError
from silomq.store.record.format import LAYOUT
from silomq.store.recovery import durable_progress

if TYPE_CHECKING:
    from pathlib import Path

    from silomq.store.recovery.plan import Report


def test_a_log_alone_is_enough(tmp_path: Path) -> None:
    store = Store(tmp_path, batches(1, 60), file_size=FILE_SIZE, entries=30)
    report = start(store, tmp_path)
    check(store)
    assert report.scanned_from == report.dispatched_from == 0
    assert report.log_end == store.ends[-1]
    assert report.records_scanned == sum(1 for _ in store.records)
    assert report.entries_dispatched == sum(store.next.values())


@pytest.mark.parametrize("stops", [(20,), (20, 40), (20, 40, 60)])
def test_after_a_crash_it_goes_on_from_the_newest_progress(
    stops: tuple[int, ...], tmp_path: Path
) -> None:
    store = made(tmp_path, 2, stops)
    report = start(store, tmp_path)
    check(store)
    assert report.dispatched_from == report.scanned_from == store.ends[stops[-1]]


def test_without_the_progress_record_all_is_read_again(tmp_path: Path) -> None:
    store = made(tmp_path, 3, (20, 40))
    store.folders.ours.unlink(PROGRESS)
    assert start(store, tmp_path).dispatched_from == 0
    check(store)


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("at", [0, 8, 40, 135, 136])
def test_a_torn_progress_slot_leaves_the_other(slot: int, at: int, tmp_path: Path) -> None:
    store = made(tmp_path, 4, (20, 40))
    path = tmp_path / "silomq" / PROGRESS
    data = bytearray(path.read_bytes())
    data[durable_progress.SLOT_SIZE * slot + at] ^= 0x10
    path.write_bytes(data)
    # Generation 1 is in slot 1, generation 2 in slot 0.
    assert start(store, tmp_path).dispatched_from == store.ends[40 if slot == 1 else 20]
    check(store)


def test_two_torn_slots_are_as_none(tmp_path: Path) -> None:
    store = made(tmp_path, 5, (20, 40))
    (tmp_path / "silomq" / PROGRESS).write_bytes(bytes(100))
    assert start(store, tmp_path).dispatched_from == 0
    check(store)


def test_queues_and_index_are_rebuilt_when_nothing_is_known(tmp_path: Path) -> None:
    store = made(tmp_path, 6, (20,))
    for name in ("consumequeue", "index", "silomq"):
        shutil.rmtree(tmp_path / name)
    start(store, tmp_path)
    check(store)


@pytest.mark.parametrize("name", ["consumequeue", "index"])
def test_a_removed_folder_is_rebuilt(name: str, tmp_path: Path) -> None:
    """What operators of RocketMQ do to repair a store: remove the folder and start."""
    store = made(tmp_path, 7, (20,))
    shutil.rmtree(tmp_path / name)
    start(store, tmp_path)
    check(store)


def torn(path: Path, properties: bytes, cut: int) -> tuple[Store, Report]:
    """A store whose last record lacks its last `cut` bytes, after its start."""
    kept = batches(8, 20)
    last = Batch("a", 0, [{"body": b"x" * 100, "properties": properties}])
    store = Store(path, [*kept, last], file_size=FILE_SIZE)
    whole = Store(path / "whole", kept, file_size=FILE_SIZE)
    end, base = store.ends[-1], store.ends[-2] // FILE_SIZE * FILE_SIZE
    assert store.ends[-2] + len(last.records()) == end
    file = path / "commitlog" / file_name(base)
    data = bytearray(file.read_bytes())
    data[end - base - cut : end - base] = bytes(cut)
    file.write_bytes(data)
    store.ends, store.next, store.data = whole.ends, whole.next, whole.data
    return store, start(store, path)


@pytest.mark.parametrize("cut", range(12, 200, 17))
def test_a_torn_tail_is_left_out(cut: int, tmp_path: Path) -> None:
    store, report = torn(tmp_path, b"TAGS\x01TagA\x02", cut)
    assert report.log_end == store.ends[-1]
    check(store)


@pytest.mark.parametrize(("properties", "cut"), [(b"TAGS\x01TagA\x02", 4), (b"", 3)])
def test_a_tail_torn_behind_the_body_is_left_out(
    properties: bytes, cut: int, tmp_path: Path
) -> None:
    """Zeros at the end of topic or properties are pages that never reached the disk."""
    store, report = torn(tmp_path, properties, cut)
    assert report.log_end == store.ends[-1]
    check(store)


def test_a_topic_in_the_log_does_not_lead_out_of_its_folder(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", [message("../../escaped")], file_size=FILE_SIZE)
    with contextlib.suppress(StoreError, OSError):
        start(store, tmp_path / "store")
    assert not (tmp_path / "escaped").exists()


def test_start_up_twice_changes_nothing(tmp_path: Path) -> None:
    store = made(tmp_path, 9, (20, 40))
    for _ in range(3):
        start(store, tmp_path)
        check(store)


def test_damage_in_the_middle_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path, batches(10, 60), file_size=FILE_SIZE)
    assert len(store.data) >= 3 * FILE_SIZE
    path = tmp_path / "commitlog" / file_name(0)
    data = bytearray(path.read_bytes())
    struct.pack_into(">i", data, store.ends[3], 17)
    path.write_bytes(data)
    with pytest.raises(Corrupt, match="good records go on at offset") as caught:
        start(store, tmp_path)
    assert caught.value.offset == store.ends[3]


@pytest.mark.parametrize("at", [20, 21, 59])
@pytest.mark.parametrize("power_cut", [False, True])
def test_a_damaged_body_behind_what_is_durable_is_not_taken(
    at: int, tmp_path: Path, *, power_cut: bool
) -> None:
    """Of the first record that the scan comes to, of the last one, and of others."""
    store = made(tmp_path, 9, (20,))
    if power_cut:
        lose_power(tmp_path)
    record = next(r for r in store.records if r.physical_offset >= store.ends[at])
    offset = record.physical_offset
    base = store.log.base_of(offset)
    path = tmp_path / "commitlog" / file_name(base)
    data = bytearray(path.read_bytes())
    data[offset - base + LAYOUT["bodyCRC"][0]] ^= 1
    path.write_bytes(data)
    if power_cut or offset + record.total_size == store.ends[-1]:
        report = start(store, tmp_path)
        assert report.log_end == offset
        assert report.end_reason == ENDS[kernel.BAD_CRC]
    else:
        with pytest.raises(Corrupt, match="good records go on at offset") as caught:
            start(store, tmp_path)
        assert caught.value.offset == offset


def test_queues_that_only_the_log_knows(tmp_path: Path) -> None:
    """A topic whose queue files know of one queue only, and one that nothing else knows."""
    known = Batch("a", 6, [{"body": b""}]), message(), Batch("b", 1, [{"body": b""}])
    more = Batch("b", 5, [{"body": b""}]), Batch("a", 7, [{"body": b""}])
    store = Store(tmp_path, [*known, *more], file_size=FILE_SIZE)
    start(store, tmp_path)
    check(store)
    shutil.rmtree(tmp_path / "consumequeue")
    (tmp_path / "consumequeue" / "a" / "0").mkdir(parents=True)
    report = start(store, tmp_path)
    check(store)
    assert (report.topics, report.queues) == (2, 8 + 6)
    for name, nums in (("a", 8), ("b", 6)):
        topic = store.table.find(name)
        assert topic is not None
        assert (topic.write_queue_nums, topic.read_queue_nums, len(topic.slots)) == (nums,) * 3


@pytest.mark.parametrize("nums", [0, 3])
def test_a_configured_topic_with_more_queues_in_the_log(nums: int, tmp_path: Path) -> None:
    """It gets the queues, and keeps the numbers that somebody gave it."""
    batches_of = [Batch("a", queue_id, [{"body": b""}]) for queue_id in (6, 0, 4)]
    store = Store(tmp_path, batches_of, file_size=FILE_SIZE)
    table = with_topic(topics_json.TopicTable(), topics_json.TopicConfig("a", nums, nums), 1)
    topics_json.save(f"{store.folders.config.path}/topics.json", table)
    start(store, tmp_path)
    check(store)
    topic = store.table.find("a")
    assert topic is not None
    assert (topic.write_queue_nums, topic.read_queue_nums, len(topic.slots)) == (nums, nums, 7)


def test_queues_beyond_the_table_are_an_error(tmp_path: Path) -> None:
    """The queue of a record is damaged, or `max_queues` is less than the store was made with."""
    store = Store(tmp_path, [Batch("a", 6, [{"body": b""}]), message()], file_size=FILE_SIZE)
    start(store, tmp_path)
    log_file = tmp_path / "commitlog" / file_name(0)
    data = bytearray(log_file.read_bytes())
    data[13] ^= 4  # a byte of the queue's number
    log_file.write_bytes(data)
    shutil.rmtree(tmp_path / "consumequeue")
    with pytest.raises(StoreError, match="the record at offset 0 is of queue 262150 of topic a"):
        start(store, tmp_path)
    (tmp_path / "consumequeue" / "a" / "999999").mkdir(parents=True)
    with pytest.raises(StoreError, match=f"{tmp_path}: no room for 1000000"):
        start(store, tmp_path)


def test_a_torn_end_behind_a_queue_that_only_the_log_knows(tmp_path: Path) -> None:
    """One start cuts off the end, and then meets the queue."""
    known = [message(), Batch("a", 6, [{"body": b""}])]
    torn = message(KEYS="torn")
    store = Store(tmp_path, [*known, torn], file_size=FILE_SIZE, topics={"a": 7})
    store.dispatch()
    whole = Store(tmp_path / "whole", known, file_size=FILE_SIZE)
    log_file = tmp_path / "commitlog" / file_name(0)
    data = bytearray(log_file.read_bytes())
    data[store.ends[2] + 35] ^= 1  # it names another offset
    log_file.write_bytes(data)
    shutil.rmtree(tmp_path / "consumequeue" / "a" / "6")
    store.ends, store.next, store.data = whole.ends, whole.next, whole.data
    report = restart(store)
    check(store)
    assert store.table.queue_count == 7
    assert report.cut_bytes > 0
    assert report.queue_bytes_cut > 0, "its queue entry went too"
    assert [(tmp_path / name).is_file() for name in report.kept_in] == [True]
    assert "were cut off and kept" in report.notes[0]
    assert report.end_reason != ENDS[kernel.NOTHING]
    assert len(report.notes) == len(set(report.notes))


def test_half_made_files_go(tmp_path: Path) -> None:
    store = Store(tmp_path, batches(11, 5), file_size=FILE_SIZE)
    log, queue = (
        tmp_path / "silomq" / f"allocating-{file_name(FILE_SIZE)}",
        tmp_path / "consumequeue" / "silomq-new",
    )
    log.touch()
    queue.touch()
    report = start(store, tmp_path)
    check(store)
    assert ["half-made" in note for note in report.notes] == [True, True]
    assert not log.exists()
    assert not queue.exists()


def test_an_empty_store_starts(tmp_path: Path) -> None:
    store = Store(tmp_path, [], file_size=FILE_SIZE)
    report = start(store, tmp_path)
    assert (report.log_end, report.files, report.queues) == (0, 0, 0)
    assert store.control.load("ready") == 0
