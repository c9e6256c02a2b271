"""Copies the index file in use as it was at a published progress, while reput goes on writing."""

from __future__ import annotations

import array
import sys
from typing import TYPE_CHECKING, Final

from ...store.disk import files as disk
from ...store.disk.paths import INDEX
from ...store.errors import Corrupt
from ...store.index.file import ENTRY, ENTRY_SIZE, HEADER, HEADER_SIZE, SLOT_SIZE, IndexFiles

if TYPE_CHECKING:
    from ...shm.progress import IndexProgress
    from .copier import Copier

_TRIES: Final = 1000
_STEP: Final = 1 << 20


def copy_index_in_use(copier: Copier, index: IndexFiles, at: IndexProgress) -> None:
    """Copies the file that `at` names: its header as `at` says, its first `at.count` entries, and
    for each slot the newest of these entries in it.

    Reput writes an entry before the slot that leads to it. So from a slot that has a later entry
    the chain leads back to one that counts. A killed reput's entries may be undone meanwhile: then
    the slot is read anew. Raises FileNotFoundError if the file has been removed, OSError, Corrupt
    for a chain that leads nowhere.
    """
    name = str(at.name)
    with index.folder.file(name) as source, copier.new(f"{INDEX}/{name}") as target:
        slots = _slots(index, source, at.count)
        disk.set_size(target, index.size)
        _copy_entries(index, source, target, at.count)
        header = (at.begin_time, at.end_time, at.begin_offset, at.end_offset, at.slots, at.count)
        disk.write_at(target, HEADER.pack(*header), 0)
        disk.write_at(target, slots, HEADER_SIZE)
        disk.set_modified(target, at.end_time)
    copier.files["copied"] += 1
    copier.copied_bytes += len(slots) + at.count * ENTRY_SIZE


def _slots(index: IndexFiles, source: int, count: int) -> bytes:
    found = array.array("i", disk.read_at(source, index.slots * SLOT_SIZE, HEADER_SIZE))
    assert found.itemsize == SLOT_SIZE
    if sys.byteorder == "little":
        found.byteswap()
    if max(found, default=0) >= count:
        for slot, newest in enumerate(found):
            if newest >= count:
                found[slot] = _newest_below(index, source, slot, count)
    if sys.byteorder == "little":
        found.byteswap()
    return found.tobytes()


def _newest_below(index: IndexFiles, source: int, slot: int, count: int) -> int:
    """The newest entry of a slot's chain whose number is below `count`, 0 if there is none."""
    at = HEADER_SIZE + SLOT_SIZE * slot
    for _ in range(_TRIES):
        number = int.from_bytes(disk.read_at(source, SLOT_SIZE, at), "big")
        while number >= count:
            entry = disk.read_at(source, ENTRY_SIZE, index.entry_at(number))
            key_hash, offset, _, older = ENTRY.unpack(entry)
            if not offset or key_hash % index.slots != slot or not 0 <= older < number:
                break  # it was undone
            number = older
        else:
            return number
    raise Corrupt(index.folder.path, at, "the chain of a slot leads nowhere")


def _copy_entries(index: IndexFiles, source: int, target: int, count: int) -> None:
    end = index.entry_at(count)
    for at in range(index.entry_at(0), end, _STEP):
        disk.write_at(target, disk.read_at(source, min(_STEP, end - at), at), at)
