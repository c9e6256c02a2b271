"""The end of the log: what is torn is cut off and kept, what is damaged is not touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.store_files import Store, batches

from silomq.store.commitlog import _scan as kernel
from silomq.store.commitlog.log_end import (
    LogEnd,
    cut,
    find_end,
    good_behind,
    refuse_damage,
    torn_behind,
)
from silomq.store.disk.paths import file_name
from silomq.store.errors import Corrupt
from silomq.store.record.format import LAYOUT

FILE_SIZE = 6000


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path, batches(3, 60), file_size=FILE_SIZE)
    assert len(made.data) >= 3 * FILE_SIZE
    return made


def write(store: Store, offset: int, data: bytes) -> None:
    base = store.log.base_of(offset)
    path = Path(store.folders.commit_log.path) / file_name(base)
    old = bytearray(path.read_bytes())
    old[offset - base : offset - base + len(data)] = data
    path.write_bytes(old)


def log_bytes(store: Store) -> bytes:
    folder = Path(store.folders.commit_log.path)
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def test_a_whole_log_ends_at_its_end(store: Store) -> None:
    found = find_end(store.log, 0, check_crc=True)
    assert found.end == store.ends[-1]
    assert found.records == sum(1 for _ in store.records)
    assert good_behind(store.log, found) is None
    before = log_bytes(store)
    assert torn_behind(store.log, found.end) == ()
    assert cut(store.log, ()) == []
    assert log_bytes(store) == before
    assert "recovery" not in store.folders.root.names()


@pytest.mark.parametrize("at", [1, 7, 30])
def test_good_records_behind_bad_bytes_are_found(store: Store, at: int) -> None:
    write(store, store.ends[at], b"\xff" * 9)
    found = find_end(store.log, 0, check_crc=True)
    assert found.end == store.ends[at]
    behind = good_behind(store.log, found)
    assert behind is not None
    assert found.end < behind[0] <= store.ends[at + 1]
    starts = {record.physical_offset for record in store.records}
    assert behind[0] in starts


def test_a_record_with_a_damaged_body_is_no_good_record(store: Store) -> None:
    """Only good data keeps a start from cutting the log."""
    records = [record for record in store.records if record.physical_offset >= store.ends[55]]
    for record in records:
        at = record.physical_offset + LAYOUT["bodyCRC"][0]
        write(store, at, bytes([store.data[at] ^ 1]))
    found = find_end(store.log, 0, check_crc=True)
    assert found.end == store.ends[55]
    assert good_behind(store.log, found) is None


def test_damage_is_refused_unless_power_was_cut(store: Store) -> None:
    write(store, store.ends[7], b"\xff" * 9)
    found = find_end(store.log, 0, check_crc=True)
    behind = good_behind(store.log, found)
    assert behind is not None
    for durable_until, power_cut in ((0, False), (behind[1], True), (behind[1] + 10, True)):
        with pytest.raises(Corrupt, match=f"good records go on at offset {behind[0]}") as caught:
            refuse_damage(store.log, found, durable_until, power_cut=power_cut)
        assert caught.value.offset == store.ends[7]
    refuse_damage(store.log, found, behind[1] - 1, power_cut=True)


def test_what_is_older_was_cut_before(store: Store) -> None:
    """RocketMQ cuts without erasing: what lies behind its end is older than what lies before."""
    found = find_end(store.log, 0, check_crc=True)
    early = LogEnd(store.ends[7], 0, found.newest + 1, kernel.NOTHING)
    assert good_behind(store.log, early) is None
    assert good_behind(store.log, LogEnd(store.ends[7], 0, 0, kernel.NOTHING)) is not None


def test_cut_keeps_every_byte_and_leaves_zeros(store: Store) -> None:
    before = log_bytes(store)
    end = store.ends[7]
    torn = torn_behind(store.log, end)
    assert log_bytes(store) == before, "a look changes nothing"
    kept = cut(store.log, torn)
    parts = {int(name[-20:]): (Path(store.folders.root.path) / name).read_bytes() for name in kept}
    assert sum(map(len, parts.values())) == sum(part.size for part in torn) > 2 * FILE_SIZE
    restored = bytearray(before[:end].ljust(len(before), b"\0"))
    for offset, data in parts.items():
        restored[offset : offset + len(data)] = data
    assert bytes(restored) == before
    assert log_bytes(store) == before[:end].ljust(len(before), b"\0")
    assert torn_behind(store.log, end) == ()


def test_cuts_within_one_second_are_kept_apart(store: Store) -> None:
    folders = []
    for number in (30, 20, 10):
        before = log_bytes(store)
        kept = cut(store.log, torn_behind(store.log, store.ends[number]))
        folders.append({name.rsplit("/", 1)[0] for name in kept})
        for name in kept:
            data = (Path(store.folders.root.path) / name).read_bytes()
            assert data == before[int(name[-20:]) :][: len(data)]
    assert [len(names) for names in folders] == [1, 1, 1]
    assert len(set.union(*folders)) == 3


def test_used_end() -> None:
    for data, start, end in (
        (bytes(100), 0, 0),
        (bytes(100), 13, 13),
        (bytes(40) + b"x" + bytes(59), 0, 41),
        (b"x" + bytes(99), 5, 5),
        (bytes(99) + b"x", 3, 100),
        (b"xyz", 1, 3),
    ):
        assert kernel.used_end(data, start) == end
