"""The simulator of power cuts itself: what it takes to be durable."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest
from power.simulator import Disk, events

from silomq.store.disk import files
from silomq.store.disk.recording import EVENTS, PAGE, Event, Recorder
from silomq.store.disk.replacing import replace_file

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW = b"o" * PAGE, b"n" * PAGE


@pytest.mark.parametrize("what", ["sync", "sync_range"])
@pytest.mark.parametrize("noted_before", [False, True])
def test_a_look_that_began_before_a_sync_takes_nothing_from_it(
    what: str, noted_before: bool, tmp_path: Path
) -> None:
    """Whether or not something else was noted between the beginning of the look and the sync."""
    recorder = Recorder(str(tmp_path / "recording"))
    root = tmp_path / "store"
    root.mkdir()
    folder = os.open(root, os.O_RDONLY)
    fd = os.open(root / "file", os.O_RDWR | os.O_CREAT)
    recorder.created(folder, "file", fd)
    os.pwrite(fd, OLD, 0)
    late = recorder.look(fd, "seen", 0, PAGE)
    if noted_before:
        recorder.note(recorder.look_in(folder))
    os.pwrite(fd, NEW, 0)
    recorder.changed(fd, what, 0, PAGE)
    recorder.note(late)
    os.pwrite(fd, OLD, 0)
    fresh = recorder.look(fd, "seen", 0, PAGE)
    disk = Disk(root)
    for at, event in events(tmp_path / "recording"):
        disk.apply(at, event)
    (file,) = disk.files.values()
    assert [disk.contents[digest] for digest in file.pages[0]] == [NEW]
    recorder.note(fresh)
    *_, (at, event) = events(tmp_path / "recording")
    disk.apply(at, event)
    assert [disk.contents[digest] for digest in file.pages[0]] == [NEW, OLD], "it may be there"
    os.close(fd)
    os.close(folder)


def test_a_cut_while_a_file_is_replaced_leaves_the_old_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, root = tmp_path / "recording", tmp_path / "store"
    with monkeypatch.context() as patch, files.Folder.open(root, create=True) as folder:
        patch.setattr(files, "_recorder", Recorder(str(recording)))
        replace_file(folder, "x", b"1", keep_backup=True)
        replace_file(folder, "x", b"2", keep_backup=True)
        steps = len(list(events(recording)))
        replace_file(folder, "x", b"3", keep_backup=True)
        replaced = len(list(events(recording)))
        replace_file(folder, "x", b"4", keep_backup=True)
    seen = set()
    for cut in range(steps, replaced + 1):
        for number in range(60):
            image = tmp_path / f"{cut}-{number}"
            image.mkdir()
            Disk.at(root, recording, cut).image(random.Random(number), image)
            seen.add(((image / "x").read_bytes(), (image / "x.bak").read_bytes()))
    assert seen == {(b"2", b"1"), (b"2", b"2"), (b"3", b"2"), (b"3", b"1")}


def test_a_new_folder_has_no_file_of_a_removed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the file is gone was never synced, but the folder in which it was is gone for good."""
    recording, root = tmp_path / "recording", tmp_path / "store"

    def make(text: bytes) -> None:
        with (
            folder.folder("a", create=True) as inner,
            inner.file("x", write=True, create=True) as fd,
        ):
            files.write_at(fd, text, 0)
            if text == b"old":
                files.sync_data(fd)
                inner.sync()
        folder.sync()

    with monkeypatch.context() as patch, files.Folder.open(root, create=True) as folder:
        patch.setattr(files, "_recorder", Recorder(str(recording)))
        make(b"old")
        folder.remove_tree("a")
        folder.sync()
        make(b"new")
    disk = Disk.at(root, recording, len(list(events(recording))))
    seen: set[bytes] = set()
    for number in range(60):
        image = tmp_path / str(number)
        image.mkdir()
        disk.image(random.Random(number), image)
        seen.update(path.read_bytes().rstrip(b"\0") for path in image.glob("a/x"))
    assert b"new" in seen
    assert b"old" not in seen


def test_an_event_that_a_kill_cut_short_is_left_out(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    file = tmp_path / EVENTS
    for number in range(3):
        recorder.note(Event("said", said=b"%d" % number * 100))
        if number == 1:
            os.truncate(file, file.stat().st_size - 30)
    assert [event.said[:1] for _, event in events(tmp_path)] == [b"0", b"2"]
    os.truncate(file, file.stat().st_size - 1)
    assert [event.said[:1] for _, event in events(tmp_path)] == [b"0"]
