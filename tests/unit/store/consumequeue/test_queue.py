"""Making queue files: a name means a whole file, whenever the process is killed."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.open_files import nothing_stays_open
from support.store_files import Store, batches

from silomq.store.consumequeue.queue import BLANK_ENTRY, ENTRY_SIZE, WINDOW_UNIT, QueueFiles
from silomq.store.disk import files as disk
from silomq.store.disk.files import Folder
from silomq.store.disk.paths import file_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = 3 * WINDOW_UNIT
#: Kills itself at the disk operation of this number.
KILLED = """
import os, signal, sys
from silomq.store.disk import files as disk
from silomq.store.consumequeue.queue import QueueFiles
from silomq.store.disk.files import Folder

left = int(sys.argv[2])

def counted(call):
    def counting(*arguments, **named):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **named)
    return counting

disk.set_size, disk.write_at = counted(disk.set_size), counted(disk.write_at)
disk.allocate, Folder.rename = counted(disk.allocate), counted(Folder.rename)
QueueFiles(Folder.open(sys.argv[1]), int(sys.argv[3])).window("t", 0, int(sys.argv[4]), 20480)
"""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Folder]:
    with Folder.open(tmp_path) as folder:
        yield folder


def files(root: Folder, topic: str = "t") -> dict[str, int]:
    """The queue's files, and their sizes."""
    with QueueFiles(root, FILE).folder(topic, 0, create=True) as folder:
        return {name: folder.size(name) for name in folder.names()}


@pytest.mark.parametrize("first", [0, FILE // ENTRY_SIZE * 2 + 700])
def test_killed_at_every_step(first: int, root: Folder) -> None:
    """With a queue that begins at a file's start, and one that begins in the middle of one."""
    name = file_name(first * ENTRY_SIZE // FILE * FILE)
    step, half_made = 1, 0
    while True:
        done = subprocess.run(
            [sys.executable, "-P", "-c", KILLED, root.path, str(step), str(FILE), str(first)],
            check=False,
        )
        found = files(root)
        assert found in ({}, {name: FILE})
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        queues = QueueFiles(root, FILE)
        half_made += queues.remove_half_made()
        assert root.names() == ["t"]
        # Whoever comes next goes on as if nothing had been.
        queues.window("t", 0, first, WINDOW_UNIT)
        blank = first * ENTRY_SIZE % FILE
        with queues.folder("t", 0) as folder:
            with folder.file(name) as fd:
                assert disk.read_at(fd, FILE, 0) == (BLANK_ENTRY * (blank // ENTRY_SIZE)).ljust(
                    FILE, b"\0"
                )
            folder.unlink(name)
        step += 1
    assert found == {name: FILE}
    assert step > 3
    assert half_made >= 2


def test_a_full_disk_leaves_no_name(root: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_at", full)
        with pytest.raises(OSError, match="No space"):
            QueueFiles(root, FILE).window("t", 0, 7, WINDOW_UNIT)
    assert files(root) == {}
    assert root.names() == ["t"]
    QueueFiles(root, FILE).window("t", 0, 7, WINDOW_UNIT)
    assert files(root) == {file_name(0): FILE}


def test_a_length_that_a_power_cut_took_comes_back(root: Folder) -> None:
    queues = QueueFiles(root, FILE)
    with (
        queues.folder("t", 0, create=True) as folder,
        folder.file(file_name(0), write=True, create=True),
    ):
        pass
    queues.window("t", 0, 0, WINDOW_UNIT)
    assert files(root) == {file_name(0): FILE}


def test_queues_that_are_not_looked_at_to_the_end_are_closed(tmp_path: Path) -> None:
    store = Store(tmp_path, batches(7, 60))
    store.dispatch()
    with nothing_stays_open():
        for _ in store.queues.queues():
            break
