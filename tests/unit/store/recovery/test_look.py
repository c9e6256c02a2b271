"""The look at a store changes nothing on disk, and its plan says what is there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from support.left_stores import (
    STORES,
    crashed,
    plan_of,
    stopped_cleanly,
    torn,
    untimed,
    with_a_deletion,
    with_half_made_files,
    without_progress,
    without_queues,
)
from support.starts import (
    FILE_SIZE,
    check,
    fresh_memory,
    lose_power,
    restart,
    save_progress,
    settings_of,
)
from support.store_files import QUEUE_FILE, Store, message

from silomq.store.commitlog import _scan as kernel
from silomq.store.commitlog.log_end import TornBytes
from silomq.store.disk.paths import file_name
from silomq.store.recovery import checkpoint, durable_progress
from silomq.store.recovery.apply import apply
from silomq.store.recovery.checkpoint import Checkpoint
from silomq.store.recovery.plan import NOTHING_KNOWN, OURS_KNOWN, ROCKETMQ_KNOWN

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("make", STORES)
def test_a_look_changes_nothing(make: Callable[[Path], Store], tmp_path: Path) -> None:
    """Not even the times of files; and a second look finds the same."""
    store = make(tmp_path)
    plan = plan_of(store)
    assert untimed(plan) == untimed(plan_of(store))
    with pytest.raises(AttributeError):
        plan.pool = None  # type: ignore[misc] # that it is frozen is what is tested


@pytest.mark.parametrize("make", STORES)
def test_doing_it_again_changes_nothing(make: Callable[[Path], Store], tmp_path: Path) -> None:
    """After two looks and one start another start finds a store with nothing to mend."""
    store = make(tmp_path)
    plan_of(store)
    first = restart(store)
    files = content(store)
    plan = plan_of(store)
    assert (plan.log.torn, plan.log.half_made, plan.log.empty) == ((), (), "")
    assert (plan.dispatch.half_made, plan.deletions.changed) == (False,) * 2
    assert plan.deletions.without_queues == ()
    assert plan.run.power_lost is False
    assert plan.log.end.end == first.log_end
    second = restart(store)
    assert second.log_end == first.log_end
    assert second.cut_bytes == second.queue_bytes_cut == 0
    assert (second.topics, second.queues) == (first.topics, first.queues)
    assert content(store) == files


def content(store: Store) -> list[object]:
    """What log, queues and index hold; an index file's name is the time at which it was made."""
    log = [file.read_bytes() for file in sorted(Path(store.folders.commit_log.path).iterdir())]
    return [log, store.queue_bytes(), store.index_bytes()]


@pytest.mark.parametrize("make", STORES)
def test_one_plan_may_be_done_twice(make: Callable[[Path], Store], tmp_path: Path) -> None:
    """As by a start that was killed before its end: the store is the same then."""
    store = make(tmp_path)
    plan = plan_of(store)
    settings = settings_of(store)
    first = apply(plan, store.folders, settings, *fresh_memory(store))
    files = content(store)
    # What was cut off is kept, and no longer there to be cut off.
    rest = replace(plan, log=replace(plan.log, torn=()))
    second = apply(rest, store.folders, settings, *fresh_memory(store))
    assert (second.log_end, second.topics, second.queues) == (
        first.log_end,
        first.topics,
        first.queues,
    )
    assert content(store) == files


def test_the_plan_of_a_clean_store(tmp_path: Path) -> None:
    store = stopped_cleanly(tmp_path)
    plan = plan_of(store)
    assert (plan.run.known_from, plan.run.clean, plan.run.power_lost) == (OURS_KNOWN, True, False)
    end = store.ends[-1]
    assert plan.log.scanned_from == plan.log.end.end == plan.dispatch.begin.dispatched == end
    assert plan.dispatch.begin == store.control.progress()
    counts = {(found.topic, found.queue_id): found.count for found in plan.dispatch.queues}
    assert counts == {queue: store.next.get(queue, 0) for queue in counts}
    assert counts.keys() >= store.next.keys()
    assert plan.notes() == ()
    assert not plan.cuts_queues


def test_crash_and_power_cut_differ_in_what_may_be_lost(tmp_path: Path) -> None:
    """The same files, the same plan but for `power_lost`, and what hangs on it."""
    store = crashed(tmp_path)
    after_crash = plan_of(store)
    lose_power(tmp_path)
    after_power_cut = plan_of(store)
    assert not after_crash.run.clean
    assert not after_crash.run.power_lost
    assert after_power_cut.run == replace(after_crash.run, power_lost=True)
    assert not after_crash.cuts_queues
    assert after_power_cut.cuts_queues
    assert untimed(after_power_cut) == replace(untimed(after_crash), run=after_power_cut.run)


def test_a_clean_store_lost_nothing_with_the_power(tmp_path: Path) -> None:
    store = stopped_cleanly(tmp_path)
    restart(store)
    found = durable_progress.read(store.folders.ours)
    assert found is not None
    durable_progress.ProgressFile(store.folders.ours).write(replace(found, clean=True))
    lose_power(tmp_path)
    plan = plan_of(store)
    assert (plan.run.clean, plan.run.power_lost) == (True, False)


def test_the_plan_of_a_torn_log(tmp_path: Path) -> None:
    store = torn(tmp_path)
    plan = plan_of(store)
    assert plan.log.end.end < store.ends[-1]
    (part,) = plan.log.torn
    assert isinstance(part, TornBytes)
    assert part.offset == plan.log.end.end
    assert part.offset + part.size <= store.ends[-1] - 20
    assert plan.log.cut_bytes == part.size
    assert plan.cuts_queues
    assert plan.notes() == (f"{part.size} bytes behind offset {part.offset} were cut off and kept",)
    report = restart(store)
    assert (report.cut_bytes, report.log_end) == (part.size, part.offset)
    (kept,) = report.kept_in
    assert (tmp_path / kept).stat().st_size == part.size


def test_the_plan_without_a_progress_record(tmp_path: Path) -> None:
    store = without_progress(tmp_path)
    plan = plan_of(store)
    assert (plan.run.known_from, plan.run.start) == (NOTHING_KNOWN, None)
    assert plan.log.scanned_from == plan.dispatch.begin.dispatched == 0
    assert plan.dispatch.begin.index.name == 0, "all index files will go"
    assert all(found.count == 0 for found in plan.dispatch.queues)
    assert plan.notes() == ()


def test_the_plan_without_queues(tmp_path: Path) -> None:
    store = without_queues(tmp_path)
    plan = plan_of(store)
    assert plan.run.known_from == OURS_KNOWN
    assert plan.dispatch.anew.startswith("the queues hold 0 entries of ")
    assert plan.dispatch.begin.dispatched == 0
    assert "built anew" in plan.notes()[0]


def test_the_plan_of_what_a_killed_run_left(tmp_path: Path) -> None:
    store = with_half_made_files(tmp_path)
    plan = plan_of(store)
    assert plan.log.half_made == (f"allocating-{file_name(FILE_SIZE)}",)
    assert plan.log.empty == file_name(100 * FILE_SIZE)
    assert plan.dispatch.half_made
    assert max(plan.log.files) < 100 * FILE_SIZE
    assert ["removed" in note for note in plan.notes()] == [True] * 3
    restart(store)
    check(store)
    assert (tmp_path / "commitlog" / file_name(100 * FILE_SIZE)).exists() is False


def test_the_plan_of_a_deletion(tmp_path: Path) -> None:
    store = with_a_deletion(tmp_path)
    plan = plan_of(store)
    assert plan.deletions.finished == plan.deletions.without_queues == ("a",)
    assert plan.deletions.topics["a"].done
    assert all(found.topic != "a" for found in plan.dispatch.queues)
    assert all(topic.name != "a" for topic in plan.topics)
    assert plan.notes() == ("topic a: its deletion was finished",)
    restart(store)
    assert store.table.find("a") is None
    assert not (tmp_path / "consumequeue" / "a").exists()


def test_a_checkpoint_of_rocketmq_is_believed_after_it_had_the_store(tmp_path: Path) -> None:
    store = stopped_cleanly(tmp_path)
    noted = Checkpoint(2_000_000_000_000, 2_000_000_000_000, 0)
    checkpoint.write(store.folders.root, noted)
    plan = plan_of(store)
    assert (plan.run.known_from, plan.run.checkpoint) == (ROCKETMQ_KNOWN, noted)
    assert plan.log.end.why == kernel.NOTHING


@pytest.mark.parametrize("harm", ["removed", "shortened"])
def test_queue_files_that_are_missing_are_built_anew(tmp_path: Path, harm: str) -> None:
    """Also one in the middle of a queue, which does not change the number of the last entry."""
    store = Store(tmp_path, [message() for _ in range(350)], file_size=FILE_SIZE)
    store.dispatch()
    save_progress(store, store.ends[-1])
    queue = tmp_path / "consumequeue" / "a" / "0"
    whole = {file.name: file.read_bytes() for file in queue.iterdir()}
    assert len(whole) == 4
    victim = queue / file_name(QUEUE_FILE)
    if harm == "removed":
        victim.unlink()
    else:
        os.truncate(victim, 100)
    report = restart(store)
    assert str(victim) in " ".join(report.notes)
    assert {file.name: file.read_bytes() for file in queue.iterdir()} == whole
