"""Memory that is filled with the page cache before a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil
import pytest

from silomq.bench.harness.run import full_memory
from silomq.bench.harness.run.full_memory import FullMemory

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


def cached() -> int:
    return int(psutil.virtual_memory().cached)


def test_free_memory_is_filled_and_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """256 MiB here. The file that has the pages has no name, so no kill leaves it behind."""
    monkeypatch.setattr(full_memory, "_LEFT", psutil.virtual_memory().free - 256 * MIB)
    with FullMemory(tmp_path) as memory:
        before = cached()
        filled = memory.fill()
        assert 0 < filled <= 300 * MIB
        assert cached() - before > filled // 2
        assert [*tmp_path.iterdir()] == []


def test_nothing_is_filled_where_little_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_memory, "_LEFT", psutil.virtual_memory().total)
    with FullMemory(tmp_path) as memory:
        assert memory.fill() == 0
