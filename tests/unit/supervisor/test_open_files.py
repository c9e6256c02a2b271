"""What start-up opens it closes, also when it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support import small_settings
from support.starts import FILE_SIZE, restart, save_progress
from support.store_files import Store, batches

from silomq.shm import segments
from silomq.store.disk.paths import StoreFolders, file_name
from silomq.store.errors import Corrupt, StoreError
from silomq.supervisor.claim import AlreadyRunning
from silomq.supervisor.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def open_files() -> dict[str, str]:
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:  # that of the listing itself
            continue
    return found


def damage(store: Store, number: int) -> None:
    """Good records go on behind a bad one."""
    at = store.ends[number]
    with store.folders.commit_log.file(file_name(at - at % FILE_SIZE), write=True) as fd:
        os.pwrite(fd, b"\xff" * 8, at % FILE_SIZE)


def damage_index(store: Store, _number: int) -> None:
    with store.folders.index.file(str(store.index.names()[-1]), write=True) as fd:
        os.ftruncate(fd, 100)


def tear(store: Store, number: int) -> None:
    """Nothing good behind: it is cut off and kept, and seals and queues are looked at."""
    end = store.ends[number]
    for base in store.log.bases():
        with store.folders.commit_log.file(file_name(base), write=True) as fd:
            start = max(0, end - base)
            if start < FILE_SIZE:
                os.pwrite(fd, bytes(FILE_SIZE - start), start)
                os.pwrite(fd, b"\xff" * 8, start)


@pytest.mark.parametrize(
    ("harm", "error"),
    [(None, None), (tear, None), (damage, Corrupt), (damage_index, StoreError)],
)
def test_start_up(
    harm: Callable[[Store, int], None] | None, error: type[Exception] | None, tmp_path: Path
) -> None:
    store = Store(tmp_path, batches(7, 60), file_size=FILE_SIZE)
    store.dispatch()
    if harm is damage_index:  # which nobody needs unless dispatch is to go on with it
        save_progress(store, store.ends[-1])
    if harm:
        harm(store, 20)
    before = open_files()
    for _ in range(3):
        if error:
            with pytest.raises(error):
                restart(store)
        else:
            restart(store)
    assert open_files() == before


def test_folders_of_a_store_that_lacks_one(tmp_path: Path) -> None:
    StoreFolders(tmp_path, create=True).close()
    shutil.rmtree(tmp_path / "silomq")
    before = open_files()
    with pytest.raises(FileNotFoundError):
        StoreFolders(tmp_path)
    (tmp_path / "silomq").touch()
    with pytest.raises(NotADirectoryError):
        StoreFolders(tmp_path, create=True)
    assert open_files() == before


def test_queues_that_are_not_looked_at_to_the_end(tmp_path: Path) -> None:
    store = Store(tmp_path, batches(7, 60), file_size=FILE_SIZE)
    store.dispatch()
    before = open_files()
    for _ in store.queues.queues():
        break
    assert open_files() == before


def newer_layout(path: Path) -> None:
    (path / "silomq" / "layout").write_text("99\n")


def damaged_log(path: Path) -> None:
    store = Store(path / "made", batches(7, 60), file_size=FILE_SIZE)
    data = bytearray(b"".join(f.read_bytes() for f in sorted((path / "made/commitlog").iterdir())))
    data[store.ends[3] + 4] ^= 1
    (path / "commitlog" / file_name(0)).write_bytes(data[:FILE_SIZE].ljust(1 << 17, b"\0"))


def other_file_size(path: Path) -> None:
    (path / "commitlog" / file_name(0)).write_bytes(bytes(4096))


def no_room_for_the_socket(path: Path) -> None:
    (path / "silomq.sock").mkdir()


@pytest.mark.parametrize(
    "harm", [newer_layout, damaged_log, other_file_size, no_room_for_the_socket]
)
def test_a_supervisor_that_cannot_start(harm: Callable[[Path], None], tmp_path: Path) -> None:
    settings = small_settings.load(tmp_path, small_settings.ROLLING)
    StoreFolders(tmp_path, create=True).close()
    harm(tmp_path)
    before = open_files()
    with pytest.raises((StoreError, OSError)):
        prepare(settings)
    assert open_files() == before
    assert segments.leftovers(segments.store_identity(tmp_path)) == []


def test_a_supervisor_whose_store_is_in_use(tmp_path: Path) -> None:
    settings = small_settings.load(tmp_path, small_settings.ROLLING)
    with (
        StoreFolders(tmp_path, create=True),
        subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(tmp_path / "lock")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as holder,
    ):
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        before = open_files()
        with pytest.raises(AlreadyRunning):
            prepare(settings)
        assert open_files() == before
        holder.communicate()
