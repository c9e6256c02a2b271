"""A log that lacks a file, or part of one, is refused, and the refusal names file and offsets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.left_stores import crashed, plan_of, stopped_cleanly
from support.offline_stores import state
from support.starts import FILE_SIZE, made, restart, start

from silomq.store.commitlog.seals import Seals, seal_of
from silomq.store.disk.paths import PROGRESS, file_name
from silomq.store.errors import Corrupt
from silomq.store.recovery import checkpoint, log_begin
from silomq.store.recovery.checkpoint import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.store_files import Store


def log_file(path: Path, number: int) -> Path:
    """A file of the log; a negative number counts from the last one that was used."""
    return sorted((path / "commitlog").iterdir())[number]


def removed(file: Path) -> None:
    file.unlink()


def shortened(file: Path) -> None:
    os.truncate(file, 4096)


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def lengthened(file: Path) -> None:
    os.truncate(file, FILE_SIZE + 1)


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def a_link(file: Path) -> None:
    file.rename(file.parent.parent / "elsewhere")
    file.symlink_to(file.parent.parent / "elsewhere")


HARMS = (removed, shortened, emptied, lengthened, a_folder, a_link)


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("number", [0, 1, -1], ids=["first", "middle", "last"])
@pytest.mark.parametrize("make", [stopped_cleanly, crashed])
def test_a_file_that_is_missing_or_of_another_length_is_refused(
    make: Callable[[Path], Store], number: int, harm: Callable[[Path], None], tmp_path: Path
) -> None:
    store = make(tmp_path)
    start(store, tmp_path)  # it notes where the log begins
    file = log_file(tmp_path, number)
    assert len(list((tmp_path / "commitlog").iterdir())) > 3
    harm(file)
    before = state(tmp_path)
    with pytest.raises(Corrupt, match="silo repair --holes") as caught:
        restart(store)
    assert caught.value.path == str(file)
    base = int(file.name)
    if harm is not lengthened:
        assert f"to {base + FILE_SIZE} are lost" in str(caught.value)
    assert state(tmp_path) == before


def test_all_that_is_missing_is_named(tmp_path: Path) -> None:
    store = stopped_cleanly(tmp_path)
    start(store, tmp_path)
    removed(log_file(tmp_path, 1))
    shortened(log_file(tmp_path, 1))
    with pytest.raises(Corrupt) as caught:
        restart(store)
    said = str(caught.value)
    assert f"offset {FILE_SIZE}: the file is missing" in said
    assert f"offsets {FILE_SIZE} to {2 * FILE_SIZE} are lost" in said
    assert f"{file_name(2 * FILE_SIZE)}: the file has 4096 of 6000 bytes" in said
    assert f"offsets {2 * FILE_SIZE + 4096} to {3 * FILE_SIZE} are lost" in said


def test_without_the_progress_record_the_seals_say_what_must_be_there(tmp_path: Path) -> None:
    store = crashed(tmp_path)
    last = max(store.log.bases())
    with Seals(store.folders) as seals:
        seals.write(last, seal_of(store.log, last))
    (tmp_path / "silomq" / PROGRESS).unlink()
    log_file(tmp_path, -1).unlink()
    with pytest.raises(Corrupt, match="the file is missing"):
        plan_of(store)


def test_an_empty_log_of_a_store_that_had_one_is_refused(tmp_path: Path) -> None:
    store = stopped_cleanly(tmp_path)
    start(store, tmp_path)
    for file in (tmp_path / "commitlog").iterdir():
        file.unlink()
    with pytest.raises(Corrupt, match="the file is missing"):
        restart(store)


# -- what is legal


def test_files_that_a_killed_clean_has_left_are_the_logs_begin(tmp_path: Path) -> None:
    """Clean had noted that the log begins in the third file, and was killed."""
    store = stopped_cleanly(tmp_path)
    start(store, tmp_path)
    for left, begin in ((0, 2), (1, 2), (1, 3), (2, 3)):
        log_begin.write(store.folders.ours, begin * FILE_SIZE)
        for number in range(left):
            (tmp_path / "commitlog" / file_name(number * FILE_SIZE)).unlink(missing_ok=True)
        assert plan_of(store).log.first == left * FILE_SIZE


def test_a_gap_below_the_begin_is_what_a_killed_clean_left(tmp_path: Path) -> None:
    """A power cut may bring back any of the files that were removed."""
    store = stopped_cleanly(tmp_path)
    start(store, tmp_path)
    log_begin.write(store.folders.ours, 3 * FILE_SIZE)
    (tmp_path / "commitlog" / file_name(FILE_SIZE)).unlink()
    assert plan_of(store).log.first == 2 * FILE_SIZE


def test_files_made_ahead_may_lie_apart_after_a_clean_stop(tmp_path: Path) -> None:
    """The start removes them: a store that was killed has no gap."""
    store = stopped_cleanly(tmp_path)
    apart = max(store.log.bases()) + 3 * FILE_SIZE
    (tmp_path / "commitlog" / file_name(apart)).write_bytes(bytes(FILE_SIZE))
    plan = plan_of(store)
    assert plan.log.apart == (apart,)
    assert plan.log.end.end == store.ends[-1]
    (tmp_path / "commitlog" / file_name(apart)).write_bytes(b"data".ljust(FILE_SIZE, b"\0"))
    with pytest.raises(Corrupt, match="the file is missing"):
        plan_of(store)
    (tmp_path / "commitlog" / file_name(apart)).write_bytes(bytes(FILE_SIZE))
    restart(store)
    assert apart not in store.log.bases()
    (tmp_path / "commitlog" / file_name(apart)).write_bytes(bytes(FILE_SIZE))
    with pytest.raises(Corrupt, match="the file is missing"):
        plan_of(store)


def test_rocketmq_may_have_cleaned_and_left_an_empty_file(tmp_path: Path) -> None:
    store = crashed(tmp_path)
    log_file(tmp_path, 0).unlink()
    (tmp_path / "commitlog" / file_name(100 * FILE_SIZE)).touch()
    checkpoint.write(store.folders.root, Checkpoint(1_700_000_001_000, 1_700_000_001_000, 5))
    plan = plan_of(store)
    assert plan.log.first == FILE_SIZE
    assert plan.log.empty == file_name(100 * FILE_SIZE)
    log_file(tmp_path, 1).unlink()
    with pytest.raises(Corrupt, match="the file is missing"):
        plan_of(store)


def test_a_damaged_note_of_the_begin_counts_as_none(tmp_path: Path) -> None:
    store = stopped_cleanly(tmp_path)
    start(store, tmp_path)
    note = tmp_path / "silomq" / log_begin.LOG_BEGIN
    whole = note.read_bytes()
    for data in (b"", b"\xff" * 30, whole[:-1], whole.replace(b"0 ", b"1 "), whole[::-1]):
        note.write_bytes(data)
        assert log_begin.read(store.folders.ours) is None
        plan_of(store)
    restart(store)
    assert note.read_bytes() == whole


def test_the_first_start_notes_where_the_log_begins(tmp_path: Path) -> None:
    store = made(tmp_path, 31, (20,))
    log_file(tmp_path, 0).unlink()
    restart(store)
    assert log_begin.read(store.folders.ours) == FILE_SIZE
