"""The simulator of power cuts itself: what it takes to be durable."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from power.simulator import Disk, events

from silomq.store.disk.recording import PAGE, Recorder

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
        recorder.folder_synced(folder)
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
