"""The journal of leases: what was noted is there after a kill, and a torn frame is no frame."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from silomq.store.disk import files
from silomq.store.disk.files import Folder
from silomq.store.groups import lease_journal
from silomq.store.groups.lease_journal import Kind, LeaseJournal, lease_entry, offset_entry
from silomq.store.groups.leases import Lease, QueueLeases

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = ("g", "topic", 3)
OTHER = ("%g|", "%RETRY%x", 0)
SIZE = 4096


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with Folder.open(tmp_path) as found:
        yield found


def begun(folder: Folder, *keys: lease_journal.Key) -> LeaseJournal:
    journal = LeaseJournal(folder)
    for key in keys:
        journal.reserve(SIZE)
        journal.number_of(key, QueueLeases(7))
    return journal


def note(journal: LeaseJournal, key: lease_journal.Key, *leases: Lease) -> None:
    journal.reserve(SIZE)
    journal.note(b"".join(lease_entry(journal.numbers[key], lease) for lease in leases))


def pop(journal: LeaseJournal, key: lease_journal.Key, most: int = 32) -> Lease:
    lease = journal.queues[key].take_new(1 << 40, 1000, 2000, most, 9)
    assert lease is not None
    note(journal, key, lease)
    return lease


def state(journal: LeaseJournal) -> dict[lease_journal.Key, tuple[int, list[Lease]]]:
    return {
        key: (queue.next, sorted(queue.leases.values(), key=lambda lease: lease.name))
        for key, queue in journal.queues.items()
    }


def test_a_successor_finds_what_was_noted(folder: Folder) -> None:
    journal = begun(folder, KEY, OTHER)
    for _ in range(3):
        pop(journal, KEY)
    second = pop(journal, OTHER, 5)
    done = journal.queues[OTHER].acknowledge(second.name, 0b1)
    assert done is not None
    note(journal, OTHER, done[0])
    assert state(LeaseJournal(folder)) == state(journal)


def test_other_changes_are_found_too(folder: Folder) -> None:
    journal = begun(folder, KEY, OTHER)
    pop(journal, KEY)
    journal.reserve(SIZE)
    journal.queues[KEY].move(20)
    journal.note(offset_entry(Kind.MOVE, journal.numbers[KEY], 20))
    journal.forget(OTHER)
    found = LeaseJournal(folder)
    assert state(found) == state(journal)
    assert found.queues[KEY].done == 20
    journal.note(offset_entry(Kind.BEGIN, journal.numbers[KEY], 2))
    assert state(LeaseJournal(folder)) == {KEY: (2, [])}


def test_a_full_file_is_replaced(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_journal, "_LEAST_ROOM", 4096)
    journal = begun(folder, KEY)
    numbers = set()
    for turn in range(2000):
        lease = pop(journal, KEY)
        if turn % 10:
            found = journal.queues[KEY].acknowledge(lease.name, lease.mask)
            assert found is not None
            note(journal, KEY, found[0])
        numbers.add(journal.number)
    assert len(numbers) > 2
    assert len(folder.names()) == 1, "the older ones are gone"
    assert state(LeaseJournal(folder)) == state(journal)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_a_kill_while_a_frame_is_copied_takes_that_frame_only(
    tmp_path: Path, seed: int, cut: int
) -> None:
    numbers = random.Random(seed)
    with Folder.open(tmp_path) as folder:
        for name in folder.names():
            folder.unlink(name)
        journal = begun(folder, KEY)
        states = [state(journal)]
        for _ in range(numbers.randrange(1, 5)):
            pop(journal, KEY, numbers.randrange(1, 40))
            states.append(state(journal))
        path = tmp_path / folder.names()[0]
        data = bytearray(path.read_bytes())
        end = journal._at
        keep = max(0, 56 - cut)  # of the last frame, which has 56 bytes
        data[end - 56 + keep : end] = bytes(one ^ 0xFF for one in data[end - 56 + keep : end])
        path.write_bytes(data)
        found = LeaseJournal(folder)
        assert state(found) == states[-2 if keep < 56 else -1]
        pop(found, KEY)  # goes on in a file of its own
        assert state(LeaseJournal(folder)) == state(found)


def test_any_flipped_byte_gives_an_earlier_state_or_none(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        journal = begun(folder, KEY)
        states = [{}, state(journal)]
        for _ in range(4):
            pop(journal, KEY, 3)
            states.append(state(journal))
        path = tmp_path / folder.names()[0]
        good, end = path.read_bytes(), journal._at
    for at in range(end):
        data = bytearray(good)
        data[at] ^= 0x55
        path.write_bytes(data)
        with Folder.open(tmp_path) as folder:
            found = LeaseJournal(folder)
        assert state(found) in states
        assert found.problems or found.queues or at >= 16


def test_a_half_made_file_is_removed_and_an_empty_one_is_reported(folder: Folder) -> None:
    journal = begun(folder, KEY)
    pop(journal, KEY)
    name = f"{journal.number + 1:020d}"
    for each in (name, f"{name}.tmp"):
        with folder.file(each, write=True, create=True):
            pass
    found = LeaseJournal(folder)
    assert state(found) == state(journal)
    assert len(found.problems) == 1
    assert name in found.problems[0]
    assert f"{name}.tmp" not in folder.names()


def test_a_full_disk_changes_nothing(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = begun(folder, KEY)
    before = state(journal)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "allocate", full)
    with pytest.raises(OSError, match="No space"):
        journal.reserve(1 << 30)
    pop(journal, KEY)
    monkeypatch.undo()
    assert state(LeaseJournal(folder)) == state(journal) != before
