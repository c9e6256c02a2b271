"""Who warms the log ahead of append: allocate in small steps with rests, append nothing."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path
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


def append_at(file: int, position: int, warm: int) -> Any:
    """Append with a file of 16 steps, of which `warm` are warmed."""
    append = cast("Any", Append.__new__(Append))
    append.file = LogFile(0, Mapping(file, 0, 16 * STEP))
    append.sync, append.pool, append.mapped, append.let_go = False, None, 0, 0
    append.warmed, append.kernel = Word(warm * STEP), SimpleNamespace(position=position)
    append.crowded = Word(0)
    return append


def resident(mapping: Mapping) -> int:
    """The bytes of a mapping that this process has in its page tables."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    assert any(line.startswith(f"{address:x}-") for line in lines)
    return 1024 * int(next(line for line in lines if line.startswith("Rss:")).split()[1])


@pytest.mark.parametrize("warm", [0, 1, 3])
def test_append_maps_what_is_warm_and_no_more(file: int, warm: int) -> None:
    """The pages of a file in memory are there as soon as somebody maps them."""
    append = append_at(file, 100, warm)
    assert append._map_ahead(STEP, 10**10) is (warm > 0)
    assert os.fstat(file).st_blocks * 512 == warm * STEP == resident(append.file.mapping)
    assert append.all_mapped


def test_append_maps_a_step_when_a_message_may_come(file: int) -> None:
    append = append_at(file, 0, 16)
    assert append._map_ahead(STEP // 16, 0)
    assert os.fstat(file).st_blocks * 512 == append.mapped == STEP // 16
    assert not append.all_mapped
    assert append._map_ahead(STEP, 10**10)
    assert (append.mapped, append.all_mapped) == (16 * STEP, True)
    append.kernel.position = 100
    assert not append._map_ahead(STEP // 16, 0), "no step for each message"


def test_append_sleeps_in_pauses_while_more_send_than_there_are_cores(file: int) -> None:
    append = append_at(file, 0, 16)
    append.crowded = Word(1)
    assert append._map_ahead(STEP // 16, 0)
    assert append.mapped == STEP // 16
    assert append.all_mapped, "the next pause is none of its own work"


def test_append_maps_nothing_that_it_has_outrun(file: int) -> None:
    append = append_at(file, 7 * STEP + 5, 9)
    assert append._map_ahead(STEP // 16, 0)
    assert append.mapped == 7 * STEP + STEP // 16
    assert os.fstat(file).st_blocks * 512 == STEP // 16


def test_append_lets_go_what_it_has_filled(file: int) -> None:
    append = append_at(file, 0, 16)
    assert append._map_ahead(STEP, 10**10)
    view = memoryview(append.file.mapping)
    view[3 * STEP - 1] = 7
    append.kernel.position = 3 * STEP
    assert append._map_ahead(STEP // 16, 0)
    assert (append.let_go, append.all_mapped) == (3 * STEP, True), "all of it at once"
    assert resident(append.file.mapping) == 13 * STEP
    assert view[3 * STEP - 1] == 7
    assert os.pread(file, 1, 3 * STEP - 1) == b"\x07"
    view.release()


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
