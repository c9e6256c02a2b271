"""The files of messages that wait for a time of their own, against a plain model."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silomq.store.delay import timers
from silomq.store.delay.timers import Timers, Waiting
from silomq.store.disk.files import Folder

Entry = tuple[int, int, int, int]


def drain(found: Timers, until: int, *, step: int = 700) -> list[Waiting]:
    """Everything that is due until `until`, as the clock goes on."""
    out: list[Waiting] = []
    for now in range(0, until + step, step):
        while True:
            found.look_ahead(now)
            if not found.near or found.near[0].due_ms > now:
                break
            out.append(found.pop())
            assert out[-1].due_ms <= now
    return out


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 200_000), max_size=60), st.integers(1, 7), st.integers(2, 9))
def test_all_come_in_order(dues: list[int], batch: int, most: int) -> None:
    before = timers.MOST_NEAR
    timers.MOST_NEAR = most
    try:
        with TemporaryDirectory() as path, Folder.open(path) as folder:
            found = Timers(folder)
            entries: list[Entry] = [(due, i, 1000 + i, 99) for i, due in enumerate(dues)]
            for at in range(0, len(entries), batch):
                found.enter(entries[at : at + batch], 0)
            came = [entry[:4] for entry in drain(found, 201_000)]
            assert sorted(came) == sorted(entries)
            assert [entry[:2] for entry in came] == sorted(entry[:2] for entry in entries)
    finally:
        timers.MOST_NEAR = before


def test_one_that_comes_late_is_delivered_at_once(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        found = Timers(folder)
        found.look_ahead(500_000)
        found.enter([(100, 0, 1, 1), (501_000, 1, 2, 1)], 500_000)
        assert [entry.due_ms for entry in found.near] == [100, 501_000]
        assert {entry.minute for entry in found.near} == {8}


def test_a_successor_goes_on(tmp_path: Path) -> None:
    """Entries that were not published are cut off, marks that were not published forgotten."""
    with Folder.open(tmp_path) as folder:
        first = Timers(folder)
        first.enter([(i * 30_000, i, 100 + i, 9) for i in range(10)], 0)
        first.look_ahead(400_000)
        entries = [first.pop() for _ in range(4)]
        first.mark([(entry, 1000 + 10 * i) for i, entry in enumerate(entries)])
        second = Timers(folder)
        second.take_over(timer_next=8, scan_from=1020)
        second.look_ahead(400_000)
        assert [entry.queue_offset for entry in second.near] == [2, 3, 4, 5, 6, 7]
        assert second.first_offset() == 102
        second.enter([(8 * 30_000, 8, 108, 9)], 0)
        third = Timers(folder)
        third.take_over(timer_next=9, scan_from=1020)
        assert sum(bucket.count for bucket in third.buckets.values()) == 9


def test_a_file_goes_when_no_power_cut_brings_it_back(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        found = Timers(folder)
        found.enter([(1000, 0, 5, 9), (70_000, 1, 6, 9)], 0)
        found.look_ahead(2000)
        found.mark([(found.pop(), 500)])
        for durable, now, left in ((500, 61_000, 2), (501, 59_000, 2), (501, 61_000, 1)):
            found.drop_done(durable, now)
            assert len(list((tmp_path / "timer").iterdir())) == left
        assert found.first_offset() == 6


@pytest.mark.parametrize("torn", [1, 39])
def test_a_torn_entry_is_cut_off(tmp_path: Path, torn: int) -> None:
    with Folder.open(tmp_path) as folder:
        Timers(folder).enter([(1000, 0, 5, 9)], 0)
        (file,) = (tmp_path / "timer").iterdir()
        file.write_bytes(file.read_bytes() + b"\1" * torn)
        found = Timers(folder)
        found.take_over(5, 0)
        assert file.stat().st_size == timers.ENTRY_SIZE
        found.enter([(2000, 1, 6, 9)], 0)
        found.look_ahead(0)
        assert [entry.offset for entry in found.near] == [5, 6]


def test_a_million_wait_in_little_memory(tmp_path: Path) -> None:
    """All in one minute: what is in memory is bounded."""
    with Folder.open(tmp_path) as folder:
        found = Timers(folder)
        for at in range(0, 1_000_000, 50_000):
            found.enter([(60_000 + i % 60_000, i, i, 9) for i in range(at, at + 50_000)], 0)
        found.look_ahead(60_000)
        assert len(found.near) == timers.MOST_NEAR
        last = max(found.near)
        # 17 are due in each of the first 40,000 ms.
        assert last[:2] == (60_000 + timers.MOST_NEAR // 17, 7 * 60_000 + timers.MOST_NEAR // 17)
