"""The store's folder: file systems and mount options that matter, and full disks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from silomq.conf.settings import Settings
from silomq.tools.doctor import place
from silomq.tools.doctor.findings import Level
from silomq.tools.doctor.mounts import Mount

if TYPE_CHECKING:
    from pathlib import Path


def levels(
    monkeypatch: pytest.MonkeyPatch, path: Path, kind: str, options: str, **numbers: int
) -> dict[str, Level]:
    """Check -> level, on a file system that says of itself what is given."""
    mount = Mount("/there", kind, "/dev/x", frozenset(options.split(",")))
    monkeypatch.setattr(place, "mount_of", lambda _: mount)

    class Space:
        f_blocks, f_bfree, f_bavail, f_frsize = 1 << 30, 1 << 29, 1 << 29, 4096
        f_files, f_favail = 1 << 20, 1 << 19

    for name, value in numbers.items():
        setattr(Space, f"f_{name}", value)
    monkeypatch.setattr("os.statvfs", lambda _: Space)
    found = place.check(Settings(store_path=path), str(path), None, is_mine=False)
    return {one.check: one.level for one in found}


@pytest.mark.parametrize(
    ("kind", "level"),
    [
        ("ext4", Level.OK),
        ("xfs", Level.OK),
        ("nfs4", Level.PROBLEM),
        ("9p", Level.PROBLEM),
        ("tmpfs", Level.WARNING),
        ("overlay", Level.WARNING),
        ("btrfs", Level.WARNING),
        ("something", Level.WARNING),
    ],
)
def test_file_systems(
    kind: str, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert levels(monkeypatch, tmp_path / "store", kind, "rw")["file system"] == level


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ("rw,relatime", None),
        ("ro", Level.PROBLEM),
        ("rw,sync", Level.WARNING),
        ("rw,barrier=0", Level.WARNING),
    ],
)
def test_mount_options(
    options: str, level: Level | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = levels(monkeypatch, tmp_path / "store", "ext4", options)
    assert found.get("mount options") == level


@pytest.mark.parametrize(
    ("used", "level"),
    [(74, Level.OK), (80, Level.WARNING), (87, Level.WARNING), (92, Level.PROBLEM)],
)
def test_space(used: int, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = (1 << 30) * (100 - used) // 100
    numbers = {"bfree": free, "bavail": free}
    found = levels(monkeypatch, tmp_path / "store", "ext4", "rw", **numbers)
    assert found["disk space"] == level


@pytest.mark.parametrize(
    ("free", "level"), [(50_000, Level.OK), (5000, Level.WARNING), (5, Level.PROBLEM)]
)
def test_inodes(free: int, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = levels(monkeypatch, tmp_path / "store", "ext4", "rw", favail=free)
    assert found["inodes"] == level


def test_a_disk_without_room_for_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"blocks": 1000, "bfree": 900, "bavail": 900}
    found = levels(monkeypatch, tmp_path / "store", "ext4", "rw", **numbers)
    assert found["disk space"] == Level.PROBLEM
