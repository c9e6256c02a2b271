"""What the kernel is asked for file ranges, and what it answers."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from silomq.store.disk import files as disk

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
