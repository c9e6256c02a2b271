"""Slots: which one counts, whatever was torn."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from silomq.store.disk.files import Folder
from silomq.store.disk.slots import Slots, keep_durable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAGIC = 0x1234
SIZE = 512


def opened(folder: Folder, magic: int = MAGIC) -> Slots:
    return Slots(folder, "slots", magic, 2, SIZE)


def newest(folder: Folder, most: int = 10**9) -> tuple[int, ...] | None:
    def usable(words: Sequence[int]) -> bool:
        return words[0] <= most

    return opened(folder).newest(usable)


def test_the_newest_usable_slot_counts(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        slots = opened(folder)
        assert newest(folder) is None
        slots.make_durable([1, 10])
        for i in range(2, 6):
            slots.publish([i, 10 * i])
        assert newest(folder) == (5, 50)
        assert newest(folder, 4) == (4, 40)
        assert newest(folder, 3) == (1, 10)  # two slots are for a successor, and were written anew
        slots.make_durable([6, 60])
        assert newest(folder) == (6, 60)
        assert newest(folder, 1) == (1, 10)


@pytest.mark.parametrize("at", [0, 8, 16, 24, 32])
def test_a_torn_slot_does_not_count(tmp_path: Path, at: int) -> None:
    with Folder.open(tmp_path) as folder:
        slots = opened(folder)
        slots.publish([100, 1])
        slots.publish([200, 2])
        path = tmp_path / "slots"
        data = bytearray(path.read_bytes())
        slot = data.index(struct.pack("<Q", 200)) - 16
        data[slot + at] ^= 1
        path.write_bytes(data)
        assert newest(folder) == (100, 1)


def test_another_kind_of_file_has_no_slots(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        opened(folder).publish([1, 2])
        assert opened(folder, MAGIC + 1).newest(lambda _: True) is None


def test_only_durable_slots_are_kept(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        keep_durable(folder, "slots", SIZE)
        assert folder.names() == []
        slots = opened(folder)
        slots.make_durable([1, 10])
        slots.publish([2, 20])
        slots.publish([3, 30])
        keep_durable(folder, "slots", SIZE)
        assert newest(folder) == (1, 10)
        again = opened(folder)
        again.publish([4, 40])
        assert newest(folder) == (4, 40)
