"""The calls that touch the disk: modes, links, ranges, and what the kernel answers."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

import pytest
from support.small_disks import MIB, small_disk

from silomq.store.disk import files as disk
from silomq.store.disk.replacing import copy_file, replace_file
from silomq.store.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("offset", [0, 4096, (1 << 31) - 1, 1 << 31, (1 << 32) + 12345, 1 << 40])
def test_write_back_takes_any_range(offset: int, tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("w+b") as file:
        os.pwrite(file.fileno(), b"x" * 300_000, offset)
        disk.write_back(file.fileno(), offset, 300_000)
        disk.write_back(file.fileno(), offset, 0)
        disk.write_back(file.fileno(), offset, 1 << 20, piece=1 << 19)  # past the end
        assert os.pread(file.fileno(), 300_001, offset) == b"x" * 300_000


def test_write_back_says_what_the_kernel_said(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        with pytest.raises(OSError, match="sync_file_range: Invalid argument") as bad_range:
            disk.write_back(file.fileno(), -4096, 100)
        closed = os.dup(file.fileno())
        os.close(closed)
        with pytest.raises(OSError, match="sync_file_range: Bad file descriptor") as bad_file:
            disk.write_back(closed, 0, 100)
    assert (bad_range.value.errno, bad_file.value.errno) == (errno.EINVAL, errno.EBADF)


def test_processes_that_share_a_folder_list_all_of_it(tmp_path: Path) -> None:
    """As the store's processes do, which inherit the supervisor's descriptors."""
    expected = sorted(str(number) for number in range(50))
    for name in expected:
        (tmp_path / name).touch()
    with disk.Folder.open(tmp_path) as folder:
        children = []
        for _ in range(4):
            pid = os.fork()
            if pid == 0:
                count = sum(folder.names() != expected for _ in range(2000))
                os._exit(min(count, 100))
            children.append(pid)
        wrong = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert wrong == [0] * 4


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_new_files_and_folders_have_one_mode(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with disk.Folder.open(tmp_path / "store", create=True) as folder:
            replace_file(folder, "a", b"1", keep_backup=True)
            replace_file(folder, "a", b"2", keep_backup=True)
            with folder.parent("b/c/d", create=True) as (parent, name):
                copy_file(folder, "a", parent, name)
    finally:
        os.umask(before)
    made = {str(path.relative_to(tmp_path)): mode_of(path) for path in tmp_path.rglob("*")}
    folders = {"store", "store/b", "store/b/c"}
    files = {"store/a", "store/a.bak", "store/b/c/d"}
    assert made == dict.fromkeys(folders, disk.DIR_MODE) | dict.fromkeys(files, disk.FILE_MODE)


def test_a_copy_has_the_bytes_and_the_time(tmp_path: Path) -> None:
    data = os.urandom(3 << 20) + b"end"
    (tmp_path / "from").write_bytes(data)
    (tmp_path / "to").write_bytes(bytes(4 << 20))
    os.utime(tmp_path / "from", (1_600_000_000, 1_600_000_000))
    with disk.Folder.open(tmp_path) as folder:
        copy_file(folder, "from", folder, "to")
        assert folder.about("to")[:4] == (len(data), 1_600_000_000_000, False, True)
    assert (tmp_path / "to").read_bytes() == data


def test_nothing_is_reached_through_a_link(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "tree" / "deeper").mkdir(parents=True)
    outside.mkdir()
    (outside / "kept").write_bytes(b"x")
    (inside / "tree" / "file").write_bytes(b"y")
    for place in (inside, inside / "tree", inside / "tree" / "deeper"):
        (place / "folder").symlink_to(outside)
        (place / "link").symlink_to(outside / "kept")
    with disk.Folder.open(inside) as folder:
        with pytest.raises(NotADirectoryError):
            folder.folder("folder")
        with pytest.raises(NotADirectoryError), folder.parent("folder/kept"):
            pass
        with pytest.raises(OSError, match="symbolic links"):
            folder.read("link")
        for name in ("..", "a/b", ""):
            with pytest.raises(StoreError, match="not a name"):
                folder.folder(name)
        assert not folder.about("folder").is_folder
        folder.remove_tree("tree")
        assert folder.names() == ["folder", "link"]
    assert (outside / "kept").read_bytes() == b"x"


def test_a_file_that_cannot_fit_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To begin it would take the disk's last block for a moment."""
    with small_disk(tmp_path / "small", 4 * MIB) as folder, (folder / "f").open("wb") as file:
        disk.allocate(file.fileno(), 0, 3 * MIB)
        disk.allocate(file.fileno(), 0, 4 * MIB)  # most of it is there
        with (folder / "g").open("wb") as other, monkeypatch.context() as patch:
            patch.setattr(os, "posix_fallocate", never)
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                disk.allocate(other.fileno(), 0, MIB)


def never(*_: object) -> None:
    raise AssertionError("the kernel was asked for space that there is not")


def test_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    with disk.Folder.open(tmp_path) as folder:
        assert folder.has("nowhere")
        assert not folder.has("missing")
        assert folder.is_writable()
    assert disk.exists(tmp_path / "nowhere")
    assert not disk.is_folder(tmp_path / "nowhere")
    assert disk.is_folder(tmp_path)
