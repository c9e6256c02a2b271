"""The page cache of real files."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

import pytest

from silomq.bench.harness.run.page_cache import cached_share, evict

if TYPE_CHECKING:
    from pathlib import Path

PAGES = 64


def filled(folder: Path, name: str) -> Path:
    """A file whose pages are clean and in the page cache."""
    path = folder / name
    with path.open("wb") as file:
        file.write(b"x" * PAGES * mmap.PAGESIZE)
        os.fsync(file.fileno())
    path.read_bytes()
    return path


def test_files_leave_the_page_cache(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    filled(tmp_path, "a")
    filled(tmp_path / "inside", "b")
    (tmp_path / "empty").touch()
    if cached_share(tmp_path) != 1:
        pytest.skip("this file system does not keep what was written in the page cache")
    evict(tmp_path)
    assert cached_share(tmp_path) == 0


def test_what_is_mapped_stays_and_is_told(tmp_path: Path) -> None:
    with filled(tmp_path, "mapped").open("rb") as file:
        filled(tmp_path, "other")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            assert view[:: mmap.PAGESIZE] == b"x" * PAGES
            evict(tmp_path)
            assert 0.2 < cached_share(tmp_path) <= 0.5


def test_a_folder_without_files(tmp_path: Path) -> None:
    assert cached_share(tmp_path) == 0
