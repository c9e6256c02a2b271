"""Who warms the log ahead of append: allocate in small steps with rests, append nothing."""

from __future__ import annotations

import contextlib
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from silomq.actors.allocate import Allocate
from silomq.actors.append import Append
from silomq.shm._memory import Mapping
from silomq.store.commitlog.ahead import LEAST_WINDOW, Ahead
from silomq.store.commitlog.log import CommitLog, LogFile
from silomq.store.commitlog.warm_window import WarmWindow
from silomq.store.disk import files as disk
from silomq.store.disk.paths import StoreFolders

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STEP = disk.WARM_STEP


class Word:
    """A word of the control block."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def load(self) -> int:
        return self.value

    def store(self, value: int) -> None:
        self.value = value


@pytest.fixture
def file() -> Iterator[int]:
    fd = os.memfd_create("log")
    os.ftruncate(fd, 16 * STEP)
    yield fd
    os.close(fd)


@pytest.mark.parametrize("warm", [0, 1, 3])
def test_append_maps_what_is_warm_and_no_more(file: int, warm: int) -> None:
    """The pages of a file in memory are there as soon as somebody maps them."""
    append = cast("Any", Append.__new__(Append))
    append.file = LogFile(0, Mapping(file, 0, 16 * STEP))
    append.sync, append.pool, append.prefaulted = False, None, 0
    append.warmed, append.kernel = Word(warm * STEP), SimpleNamespace(position=100)
    assert append._prefault(8 * STEP) is (warm > 0)
    assert os.fstat(file).st_blocks * 512 == warm * STEP
    assert append.all_mapped


def test_append_maps_no_more_than_it_was_told_to(file: int) -> None:
    """A message that comes meanwhile waits."""
    append = cast("Any", Append.__new__(Append))
    append.file = LogFile(0, Mapping(file, 0, 16 * STEP))
    append.sync, append.pool, append.prefaulted = False, None, 0
    append.warmed, append.kernel = Word(16 * STEP), SimpleNamespace(position=0)
    assert append._prefault(STEP // 16)
    assert os.fstat(file).st_blocks * 512 == append.prefaulted == STEP // 16
    assert not append.all_mapped
    assert append._prefault(20 * STEP)
    assert append.all_mapped
    assert not append._prefault(STEP // 16)


@pytest.fixture
def allocate(tmp_path: Path) -> Iterator[Any]:
    """Allocate with a log of one file, whose append is slow."""
    with StoreFolders(tmp_path, create=True) as folders, contextlib.ExitStack() as ends:
        log = CommitLog(folders, LEAST_WINDOW)
        log.create(0)
        made = cast("Any", Allocate.__new__(Allocate))
        made.window = WarmWindow(log, warm=True, lock=False, sync=False)
        made.ahead = Ahead(LEAST_WINDOW, 2, LEAST_WINDOW, 0, 0.0)
        made.ready, made.warmed, made.locked = Word(LEAST_WINDOW), Word(), Word()
        ends.callback(setattr, made, "window", None)
        yield made


def test_allocate_rests_after_what_it_has_warmed_only(allocate: Any) -> None:
    """At first it hurries, because append is close. What append has filled is let go at once."""
    waits = [allocate._step(0) for _ in range(LEAST_WINDOW // STEP)]
    hurried = LEAST_WINDOW // STEP // 4 - 1
    assert waits[:hurried] == [0.0] * hurried
    assert all(0 < one <= 0.1 for one in waits[hurried:])
    assert allocate.warmed.load() == LEAST_WINDOW
    assert [allocate._step(3 * STEP) for _ in range(4)] == [0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize("rate", [1, 1 << 30])
def test_memory_is_taken_in_large_parts_for_a_fast_append_only(allocate: Any, rate: int) -> None:
    allocate.ahead.saw(rate, 1.0)
    allocate._step(0)
    assert allocate.window.large is (rate > 1)
