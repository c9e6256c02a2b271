"""The window ahead of append: what is mapped, populated and locked, and what is let go."""

from __future__ import annotations

import errno
import mmap
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from silomq.shm._memory import Mapping
from silomq.store.commitlog import warm_window
from silomq.store.commitlog.log import CommitLog
from silomq.store.commitlog.warm_window import WarmWindow
from silomq.store.disk import files as disk
from silomq.store.disk.paths import StoreFolders

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = mmap.PAGESIZE
CHUNK = 16 * PAGE
SIZE = 5 * CHUNK // 2  # a file ends in the middle of a chunk


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "WARM_STEP", CHUNK)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    with StoreFolders(tmp_path, create=True) as folders:
        log = CommitLog(folders, SIZE)
        for number in range(4):
            log.create(number * SIZE)
        yield log


def rest(window: WarmWindow, wrote: int, until: int, ready: int = 4 * SIZE) -> None:
    """Moves the window until it has nothing to do."""
    for _ in range(100):
        if not window.move(wrote, until, ready):
            return
    raise AssertionError("the window does not come to rest")


def locked() -> int:
    """The bytes that this process has locked."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.partition("VmLck:")[2].split()[0])


def test_a_window_of_a_new_log_is_locked_and_no_more(log: CommitLog) -> None:
    window, before = WarmWindow(log, warm=True, lock=True, sync=False), locked()
    rest(window, 0, CHUNK + 1)
    assert (window.end, window.locked_bytes) == (2 * CHUNK, 2 * CHUNK)
    assert locked() - before == 2 * CHUNK


def test_what_append_has_written_is_let_go(log: CommitLog) -> None:
    window, before = WarmWindow(log, warm=True, lock=True, sync=False), locked()
    for wrote in range(0, 3 * SIZE, CHUNK // 3):
        rest(window, wrote, wrote + 2 * CHUNK)
        assert window.end >= wrote + 2 * CHUNK
        assert locked() - before == window.locked_bytes <= 4 * CHUNK
    del window
    assert locked() == before


def test_a_window_goes_on_in_the_next_file_and_waits_for_one_that_is_not_made(
    log: CommitLog,
) -> None:
    window = WarmWindow(log, warm=True, lock=False, sync=False)
    rest(window, 0, 2 * SIZE, ready=SIZE)
    assert window.end == SIZE
    rest(window, 0, 2 * SIZE, ready=2 * SIZE)
    assert window.end == 2 * SIZE


def test_it_begins_where_append_is_and_reads_nothing_before(log: CommitLog) -> None:
    """A page that append has written may have left the page cache."""
    window, before = WarmWindow(log, warm=True, lock=True, sync=False), locked()
    wrote = 5 * PAGE + 17
    rest(window, wrote, wrote + 1)
    assert locked() - before == CHUNK - 5 * PAGE


def test_an_append_that_outran_the_window_is_met_ahead(log: CommitLog) -> None:
    window = WarmWindow(log, warm=True, lock=False, sync=False)
    rest(window, 0, CHUNK)
    wrote = SIZE + PAGE
    rest(window, wrote, wrote + 2 * CHUNK)
    assert [(chunk.start, chunk.end) for chunk in window._chunks] == [
        (SIZE + CHUNK, SIZE + 2 * CHUNK),
        (SIZE + 2 * CHUNK, 2 * SIZE),
    ]


def test_a_window_that_need_not_be_so_large_shrinks(log: CommitLog) -> None:
    window, before = WarmWindow(log, warm=True, lock=True, sync=False), locked()
    rest(window, 0, 3 * SIZE)
    assert locked() - before == 3 * SIZE
    rest(window, 0, CHUNK)
    assert locked() - before == CHUNK == window.end
    assert not window.move(0, CHUNK, 4 * SIZE), "it is at rest"


def test_without_locks_and_warming_it_maps_nothing(log: CommitLog) -> None:
    window = WarmWindow(log, warm=False, lock=False, sync=False)
    assert not window.move(0, SIZE, SIZE)


def test_a_lock_that_fails_is_noted_and_warming_goes_on(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: object, offset: int, length: int) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    class Unlockable(Mapping):
        lock = refused

    monkeypatch.setattr("silomq.store.disk.files.Mapping", Unlockable)
    window = WarmWindow(log, warm=True, lock=True, sync=False)
    rest(window, 0, 2 * CHUNK)
    assert window.end == 2 * CHUNK
    assert (window.lock, window.locked_bytes) == (False, 0)
    assert window.lock_error is not None
    assert window.lock_error.errno == errno.ENOMEM


def test_under_sync_flush_zeros_are_durable_once_and_only_the_window_is_locked(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(disk, "sync_range", lambda *span, **_: synced.append(span[2]))
    window, before = WarmWindow(log, warm=True, lock=True, sync=True), locked()
    for wrote in range(0, 2 * SIZE, CHUNK // 2):
        while window.move(wrote, wrote + CHUNK, 2 * SIZE) or window.prepare(wrote, 2 * SIZE):
            pass
        assert sum(synced) == 2 * SIZE
        assert locked() - before <= 2 * CHUNK


def test_without_sync_flush_nothing_is_prepared_beyond_the_window(log: CommitLog) -> None:
    window = WarmWindow(log, warm=True, lock=False, sync=False)
    assert not window.prepare(0, SIZE)


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("large", [False, True])
def test_folios_are_large_when_it_is_asked_for_and_nothing_is_synced(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch, *, large: bool, sync: bool
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(disk, "in_large_folios", lambda _: calls.append("large"))
    monkeypatch.setattr(disk, "in_small_folios", lambda _: calls.append("small"))
    window = WarmWindow(log, warm=True, lock=False, sync=sync)
    window.large = large
    rest(window, 0, CHUNK)
    assert calls == ["large" if large and not sync else "small"]


def test_the_core_is_yielded_after_each_piece(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []

    def warm(_mapping: Mapping, _at: int, size: int) -> bool:
        done.append(size)
        return True

    monkeypatch.setattr(warm_window, "PIECE", 3 * PAGE)
    monkeypatch.setattr(disk, "warm", warm)
    monkeypatch.setattr(os, "sched_yield", lambda: done.append(0))
    rest(WarmWindow(log, warm=True, lock=False, sync=False), 0, CHUNK)
    assert done == [3 * PAGE, 0] * 5 + [PAGE, 0]


def test_under_sync_flush_pieces_are_made_durable_several_at_a_time(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No piece is longer than without: who waits for a sync waits for the core as well."""
    done: list[str] = []

    def warm(_mapping: Mapping, at: int, size: int) -> bool:
        done.append(f"warm {at // PAGE} {size // PAGE}")
        return True

    def sync(_mapping: Mapping, at: int, size: int, *, ahead: bool) -> None:
        assert ahead
        done.append(f"sync {at // PAGE} {size // PAGE}")

    monkeypatch.setattr(warm_window, "PIECE", 3 * PAGE)
    monkeypatch.setattr(warm_window, "_DURABLE_STEP", 8 * PAGE)
    monkeypatch.setattr(disk, "warm", warm)
    monkeypatch.setattr(disk, "sync_range", sync)
    monkeypatch.setattr(os, "sched_yield", lambda: done.append("yield"))
    window = WarmWindow(log, warm=True, lock=False, sync=True)
    window.large = True
    rest(window, 0, CHUNK)
    synced = [one for one in done if one.startswith("sync")]
    warmed = [one for one in done if one.startswith("warm")]
    assert synced == ["sync 0 9", "sync 9 7"]
    assert warmed == [f"warm {at} 3" for at in range(0, 15, 3)] + ["warm 15 1"]
    assert done.count("yield") == len(warmed)


@pytest.mark.parametrize("sync", [False, True])
def test_it_changes_no_byte_of_the_log(log: CommitLog, *, sync: bool) -> None:
    """Also not of records that append writes meanwhile."""
    data = random.Random(5).randbytes(SIZE)
    file = log.open(0, writable=True)
    view = memoryview(file.mapping)
    window = WarmWindow(log, warm=True, lock=False, sync=sync)
    for at in range(0, SIZE, PAGE):
        view[at : at + PAGE] = data[at : at + PAGE]
        window.move(at, at + 2 * CHUNK, SIZE)
    assert bytes(view) == data
    view.release()


def test_the_rest_of_a_file_counts_as_never_written_again(log: CommitLog, tmp_path: Path) -> None:
    """A start reads no zeros that were warmed; the space stays taken, the records stay."""
    mapping = log.open(0, writable=True).mapping
    memoryview(mapping)[: PAGE + 1] = b"x" * (PAGE + 1)
    assert disk.warm(mapping, 0, SIZE)
    log.sync_range(0, 0, SIZE)
    blocks = os.stat(tmp_path / "commitlog" / f"{0:020}").st_blocks
    assert log.data_span(0, PAGE + 1) == (PAGE + 1, SIZE)
    log.unwrite_from(PAGE + 1)
    assert log.data_span(0, PAGE + 1) == (PAGE + 1, 2 * PAGE)
    found = os.stat(tmp_path / "commitlog" / f"{0:020}")
    assert (found.st_size, found.st_blocks) == (SIZE, blocks)
    assert bytes(memoryview(log.open(0).mapping)) == b"x" * (PAGE + 1) + bytes(SIZE - PAGE - 1)
