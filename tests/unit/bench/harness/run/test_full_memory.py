"""Memory that is filled with the page cache before a run."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
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
    """256 MiB here. The file that has the pages has no name, so no kill leaves it behind. What is
    free is computed: other processes take memory and give it back meanwhile.
    """
    monkeypatch.setattr(full_memory, "_LEFT", 1024 * MIB)
    with contextlib.closing(FullMemory(tmp_path)) as memory:
        before = cached()
        with monkeypatch.context() as alone:
            left = SimpleNamespace(
                virtual_memory=lambda: SimpleNamespace(free=1280 * MIB - memory._size)
            )
            alone.setattr(full_memory, "psutil", left)
            filled = memory.fill(lambda: None)
        assert filled == 256 * MIB
        assert cached() - before > filled // 2
        assert [*tmp_path.iterdir()] == []
    assert cached() - before < filled // 2


def test_nothing_is_filled_where_little_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_memory, "_LEFT", psutil.virtual_memory().total)
    with contextlib.closing(FullMemory(tmp_path)) as memory:
        assert memory.fill(lambda: None) == 0


def test_a_fill_ends_where_memory_does_not_become_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container with a limit of its own, where the machine's free memory stays."""
    free = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    monkeypatch.setattr(full_memory, "_LEFT", 0)
    asked: list[None] = []
    with contextlib.closing(FullMemory(tmp_path)) as memory:
        assert memory.fill(lambda: asked.append(None)) == 0
    assert len(asked) == full_memory._IN_VAIN
