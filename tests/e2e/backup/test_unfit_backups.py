"""Backups that must not be made or used: bad places, full disks, cut-off ones, and shared files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from support.backups import back_up, check_sound, send, tree
from support.commands import SILO, sentence, silo
from support.harness import StoreProcess, eventually
from support.small_disks import fill_to, small_disk

from silomq.store.disk.files import Folder
from silomq.store.disk.replacing import own_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARK = "unfinished-backup"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("backups") / "store"
    with StoreProcess(folder) as store:
        send(store.path, 0, 4000)
    yield folder
    shutil.rmtree(folder.parent)


def test_a_stopped_store_and_bad_places(stopped: Path, tmp_path: Path) -> None:
    before = tree(stopped)
    assert check_sound(back_up(stopped, tmp_path / "backups", "--copy")) == 4000
    assert tree(stopped) == before
    full, plain = tmp_path / "full", tmp_path / "plain"
    full.mkdir()
    (full / "letter").write_text("x")
    plain.write_text("x")
    inner = tmp_path / "way in"
    inner.symlink_to(stopped / "config")
    cases = {
        "lies in the store": (str(stopped), str(stopped / "b")),
        "lies in the store ": (str(stopped), str(inner / "b")),
        "give a folder of its own": (str(stopped), str(stopped.parent)),
        "holds no backups": (str(stopped), str(full)),
        "is a file": (str(stopped), str(plain)),
        "does not exist": (str(tmp_path / "none"), str(tmp_path / "b")),
        "it is not a store": (str(full), str(tmp_path / "b")),
    }
    for why, places in cases.items():
        assert why.strip() in sentence(silo("backup", *places, status=2))
    assert not (tmp_path / "b").exists()
    unfit: dict[str, tuple[str, ...]] = {
        "is not empty": (str(tmp_path / "backups"), str(full)),
        "is a file": (str(tmp_path / "backups"), str(plain)),
        "there is no folder": (str(tmp_path / "none"), str(tmp_path / "s")),
        "lies in the backup": (str(tmp_path / "backups"), str(next(iter_backups(tmp_path)) / "s")),
        "holds no backup": (str(tmp_path / "backups"), str(tmp_path / "s"), "--at", "yesterday"),
    }
    for why, given in unfit.items():
        assert why in sentence(silo("restore", *given, status=2))
    assert "no backups" in sentence(silo("backups", str(full), status=2))


def iter_backups(tmp_path: Path) -> Iterator[Path]:
    return (path for path in (tmp_path / "backups").iterdir() if path.is_dir())


def test_a_full_disk_leaves_the_earlier_backup(stopped: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 10 << 20) as disk:
        first = back_up(stopped, disk / "b")
        kept = tree(first)
        with StoreProcess(tmp_path / "store", mapped_file_size_commit_log=4 << 20) as store:
            send(store.path, 0, 8000)
            said = sentence(silo("backup", str(store.path), str(disk / "b"), status=6))
            assert "No space left" in said
        assert tree(first) == kept
        assert [path.name for path in (disk / "b").iterdir() if path.is_dir()] == [first.name]
        check_sound(first)
        fill_to(disk, 80)
        silo("restore", str(first), str(disk / "restored"), status=6)
        assert MARK in sentence(silo("serve", "--store", str(disk / "restored"), status=5))


def test_a_killed_backup_counts_as_none(stopped: Path, tmp_path: Path) -> None:
    into = tmp_path / "backups"
    whole = back_up(stopped, into)
    for delay in (0.25, 0.3, 0.35, 0.4, 0.5, 0.6):
        command = [*SILO, "backup", str(stopped), str(into), "--copy"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            process.communicate()
    left = [path for path in into.iterdir() if path.is_dir()]
    for path in left:
        if path.name.startswith("unfinished-"):
            check_refused(path, tmp_path / "other")
        else:
            check_sound(path)
    check_sound(back_up(stopped, into))
    assert not [path for path in into.iterdir() if path.name.startswith("unfinished-")]
    check_sound(whole)


def check_refused(cut_off: Path, other: Path) -> None:
    """Whatever takes a store or a backup says that this one was cut off."""
    assert (cut_off / MARK).exists()
    for verb, *more in (["verify"], ["backup", str(other)], ["restore", str(other)]):
        said = sentence(silo(verb, str(cut_off), *more, status=5))
        assert MARK in said
        assert "cut off" in said
        assert not [path for path in other.glob("*") if path.is_dir()]


def test_a_backup_that_lacks_only_its_end_is_none(stopped: Path, tmp_path: Path) -> None:
    backup = back_up(stopped, tmp_path / "backups")
    (backup / MARK).touch()
    check_refused(backup, tmp_path / "other")


def test_a_part_of_a_backup_is_no_backup(stopped: Path, tmp_path: Path) -> None:
    backup = back_up(stopped, tmp_path / "backups")
    part = tmp_path / "part"
    shutil.copytree(backup, part)
    log = sorted((part / "commitlog").iterdir())
    os.truncate(log[1], 1000)
    assert "has 1000 bytes" in sentence(silo("restore", str(part), str(tmp_path / "s"), status=5))
    log[1].unlink()
    said = sentence(silo("restore", str(part), str(tmp_path / "s"), status=5))
    assert "lacks this file" in said
    (part / "backup.json").write_text("{")
    said = sentence(silo("restore", str(part), str(tmp_path / "s"), status=5))
    assert "no list" in said
    assert not (tmp_path / "s").exists()


def test_two_backups_at_once(stopped: Path, tmp_path: Path) -> None:
    into = tmp_path / "backups"
    into.mkdir()
    (into / "lock").touch()
    with subprocess.Popen(["flock", str(into / "lock"), "sleep", "60"]) as holder:
        try:
            busy = ["flock", "-n", str(into / "lock"), "true"]
            eventually(lambda: subprocess.run(busy, check=False).returncode, "it is locked")
            assert "under way" in sentence(silo("backup", str(stopped), str(into), status=4))
        finally:
            for child in (holder,):
                child.terminate()


def test_a_crashed_store_is_started_first(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        send(store.path, 0, 100)
        store.crash()
        said = sentence(silo("backup", str(store.path), str(tmp_path / "backups"), status=1))
        assert "has not stopped in order" in said
        assert not [path for path in (tmp_path / "backups").iterdir() if path.is_dir()]


def test_a_repair_does_not_reach_a_backup(stopped: Path, tmp_path: Path) -> None:
    """The first files of the log are the same files, until the repair makes them its own."""
    store = tmp_path / "store"
    shutil.copytree(stopped, store)
    backup = back_up(store, tmp_path / "backups")
    kept = tree(backup)
    first = store / "commitlog" / f"{0:020d}"
    assert first.stat().st_nlink == 2
    silo("repair", str(store), "--truncate-at", "0", "--yes")
    assert tree(backup) == kept
    check_sound(backup)
    assert first.stat().st_nlink == 1


def test_a_file_becomes_the_stores_own(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"abc")
    os.link(tmp_path / "one", tmp_path / "two")
    with Folder.open(tmp_path) as folder:
        own_file(folder, "one")
        own_file(folder, "one")
        own_file(folder, "missing")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() == b"abc"
    assert (tmp_path / "one").stat().st_nlink == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
