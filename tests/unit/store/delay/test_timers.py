"""The files of messages that wait for a time of their own, against a plain model."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silomq.store.delay import timers
from silomq.store.delay.timers import Timers, Waiting, key_checksum
from silomq.store.disk.files import Folder

Entry = tuple[int, int, int, int]
KEY = "K1"


def enter(found: Timers, entries: list[Entry], now_ms: int) -> None:
    """Enters messages with the same UNIQ_KEY."""
    checksum = key_checksum(KEY)
    found.enter([(*entry, checksum) for entry in entries], now_ms)


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


@settings(max_examples=60)
@given(
    st.lists(st.one_of(st.integers(0, 200_000), st.sampled_from((50_000, 60_000))), max_size=60),
    st.integers(1, 7),
    st.integers(2, 9),
    st.integers(1, 9),
)
def test_all_come_in_order(dues: list[int], batch: int, most: int, part: int) -> None:
    """However many are in memory at most, and in one part of a file. Also after a kill."""
    with (
        pytest.MonkeyPatch.context() as changed,
        TemporaryDirectory() as path,
        Folder.open(path) as folder,
    ):
        changed.setattr(timers, "MOST_NEAR", most)
        changed.setattr(timers, "_CHUNK", part)
        found = Timers(folder)
        entries: list[Entry] = [(due, i, 1000 + i, 99) for i, due in enumerate(dues)]
        for at in range(0, len(entries), batch):
            enter(found, entries[at : at + batch], 0)
        successor = Timers(folder)
        successor.take_over(len(entries), 0)
        for one in (found, successor):
            came = [entry[:4] for entry in drain(one, 201_000)]
            assert sorted(came) == sorted(entries)
            assert [entry[:2] for entry in came] == sorted(entry[:2] for entry in entries)


def test_one_that_comes_late_is_delivered_at_once(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        found = Timers(folder)
        found.look_ahead(500_000)
        enter(found, [(100, 0, 1, 1), (501_000, 1, 2, 1)], 500_000)
        assert [entry.due_ms for entry in found.near] == [100, 501_000]
        assert {entry.minute for entry in found.near} == {8}


def test_a_successor_goes_on(tmp_path: Path) -> None:
    """Entries that were not published are cut off, marks that were not published forgotten."""
    with Folder.open(tmp_path) as folder:
        first = Timers(folder)
        enter(first, [(i * 30_000, i, 100 + i, 9) for i in range(10)], 0)
        first.look_ahead(400_000)
        entries = [first.pop() for _ in range(4)]
        first.mark([(entry, 1000 + 10 * i) for i, entry in enumerate(entries)])
        second = Timers(folder)
        second.take_over(timer_next=8, scan_from=1020)
        second.look_ahead(400_000)
        assert [entry.queue_offset for entry in second.near] == [2, 3, 4, 5, 6, 7]
        assert second.first_offset() == 102
        enter(second, [(8 * 30_000, 8, 108, 9)], 0)
        third = Timers(folder)
        third.take_over(timer_next=9, scan_from=1020)
        assert sum(bucket.count for bucket in third.buckets.values()) == 9


def test_a_file_goes_when_no_power_cut_brings_it_back(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        found = Timers(folder)
        enter(found, [(1000, 0, 5, 9), (70_000, 1, 6, 9)], 0)
        found.look_ahead(2000)
        found.mark([(found.pop(), 500)])
        for durable, now, left in ((500, 61_000, 2), (501, 59_000, 2), (501, 61_000, 1)):
            found.drop_done(durable, now)
            assert len(list((tmp_path / "timer").iterdir())) == left
        assert found.first_offset() == 6


@pytest.mark.parametrize("torn", [1, 39])
def test_a_torn_entry_is_cut_off(tmp_path: Path, torn: int) -> None:
    with Folder.open(tmp_path) as folder:
        enter(Timers(folder), [(1000, 0, 5, 9)], 0)
        (file,) = (tmp_path / "timer").iterdir()
        file.write_bytes(file.read_bytes() + b"\1" * torn)
        found = Timers(folder)
        found.take_over(5, 0)
        assert file.stat().st_size == timers.ENTRY_SIZE
        enter(found, [(2000, 1, 6, 9)], 0)
        found.look_ahead(0)
        assert [entry.offset for entry in found.near] == [5, 6]


def test_a_million_wait_in_little_memory(tmp_path: Path) -> None:
    """All in one minute: what is in memory is bounded."""
    with Folder.open(tmp_path) as folder:
        found = Timers(folder)
        for at in range(0, 1_000_000, 50_000):
            enter(found, [(60_000 + i % 60_000, i, i, 9) for i in range(at, at + 50_000)], 0)
        found.look_ahead(60_000)
        assert len(found.near) == timers.MOST_NEAR
        last = max(found.near)
        # 17 are due in each of the first 40,000 ms.
        assert last[:2] == (60_000 + timers.MOST_NEAR // 17, 7 * 60_000 + timers.MOST_NEAR // 17)


@settings(max_examples=60)
@given(st.data())
def test_the_first_waiting_entry_is_found(data: st.DataObject) -> None:
    """Against a plain list, while entries come, are delivered, and become durable."""
    with TemporaryDirectory() as path, Folder.open(path) as folder:
        found = Timers(folder)
        delivered: dict[int, int] = {}  # queue offset -> log offset of the delivery
        following = below = 0
        for turn in range(data.draw(st.integers(1, 6))):
            dues = data.draw(st.lists(st.integers(0, 150_000), max_size=8))
            enter(found, [(due, following + i, 5, 5) for i, due in enumerate(dues)], 0)
            following += len(dues)
            found.look_ahead(200_000 * (turn + 1))
            for _ in range(data.draw(st.integers(0, len(found.near)))):
                entry = found.pop()
                delivered[entry.queue_offset] = data.draw(st.integers(0, 1000))
                found.mark([(entry, delivered[entry.queue_offset])])
            below = data.draw(st.integers(below, 1001))
            waiting = [at for at in range(following) if not delivered.get(at, 1 << 60) < below]
            assert found.first_waiting(below) == min(waiting, default=None)


def test_what_is_given_up_is_never_delivered(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        found = Timers(folder)
        enter(found, [(1000 + i, i, 5, 5) for i in range(6)], 0)
        found.look_ahead(0)
        found.put_back(found.pop()._replace(due_ms=9000))  # it waited for its topic
        gone = [e for e in found.waiting_between(1000, 1005, [KEY]) if e.queue_offset % 2 == 0]
        found.give_up(gone)
        assert [entry.queue_offset for entry in drain(found, 20_000)] == [1, 3, 5]
        again = Timers(folder)
        again.take_over(6, 100)
        assert [entry.queue_offset for entry in drain(again, 20_000)] == [1, 3, 5]


def test_a_cancel_outlives_a_schedule_without_progress(
    tmp_path: Path,
) -> None:
    """Its progress says that deliveries are to be looked for from the log's begin on."""
    with Folder.open(tmp_path) as folder:
        killed = Timers(folder)
        enter(killed, [(1000 + i, i, 5 + i, 5) for i in range(3)], 0)
        killed.look_ahead(0)
        killed.mark([(killed.pop(), 0)])  # it could not be delivered
        killed.give_up(killed.near[:1])
        killed.mark([(killed.pop(), 900)])
        found = Timers(folder)
        found.take_over(timer_next=3, scan_from=0)
        assert [entry.queue_offset for entry in drain(found, 20_000)] == [2]


def test_a_successor_syncs_what_may_not_be_synced(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        killed = Timers(folder)
        enter(killed, [(60_000, 0, 1, 1), (120_000, 1, 2, 1)], 0)
        assert killed.take_unsynced() == [1, 2]
        found = Timers(folder)
        found.take_over(2, 10)
        assert found.take_unsynced() == [1, 2]
        assert found.take_unsynced() == []


def test_zeros_that_a_power_cut_left_are_no_entries(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        found = Timers(folder)
        enter(found, [(60_000 + i, i, 1 + i, 1) for i in range(5)], 0)
        path = tmp_path / "timer" / f"{1:010d}"
        for kept in (0, 1, 3):
            data = path.read_bytes()
            path.write_bytes(data[: kept * timers.ENTRY_SIZE].ljust(len(data), b"\0"))
            after = Timers(folder)
            after.take_over(5, 0)
            assert (after.buckets[1].count, after.buckets[1].waiting) == (kept, kept)
            path.write_bytes(data)


def test_long_loops_beat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor kills a process without a heartbeat, and its successor has as many timers."""
    monkeypatch.setattr(timers, "_CHUNK", 10)
    beats: list[str] = []
    doing = ""
    with Folder.open(tmp_path) as folder:
        found = Timers(folder, lambda: beats.append(doing))
        enter(found, [(1000, i, 5, 5) for i in range(300)], 0)
        doing = "look ahead"
        found.look_ahead(0)
        doing = "search"
        waiting = list(found.waiting_between(1000, 1999, [KEY]))
        doing = "give up"
        found.give_up(waiting)
        doing = "first"
        assert found.first_waiting(10) is None
        doing = "take over"
        Timers(folder, lambda: beats.append(doing)).take_over(300, 10)
    for loop in ("look ahead", "search", "give up", "first", "take over"):
        assert beats.count(loop) == 30, loop


def test_many_of_one_time_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the whole file again whenever memory has few entries left."""
    monkeypatch.setattr(timers, "_CHUNK", 10)
    monkeypatch.setattr(timers, "MOST_NEAR", 40)
    beats: list[int] = []
    with Folder.open(tmp_path) as folder:
        found = Timers(folder, lambda: beats.append(1))
        enter(found, [(1000, i, 5, 5) for i in range(2000)], 0)
        assert [entry.queue_offset for entry in drain(found, 2000)] == list(range(2000))
    parts = 200
    assert parts <= len(beats) <= 3 * parts
