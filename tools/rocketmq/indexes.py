"""The index after RocketMQ's recovery, computed without writing (`IndexService`, `IndexFile`).

Entries that dispatching records again would add are kept in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...store.index.file import ENTRY, ENTRY_SIZE, HEADER, HEADER_SIZE, SLOT_SIZE
from ...store.index.key_lookup import IndexChains
from ...store.record.format import TRANSACTION_ROLLBACK
from ...store.record.javahash import index_key_hash
from ...store.record.properties import index_keys

if TYPE_CHECKING:
    from ...store.record.format import Record
    from ..raw.files import StoreFiles

_INT_MAX: Final = 0x7FFFFFFF


class IndexFileView(IndexChains):
    """One index file. Times are in epoch ms; `count` is the next entry's number."""

    def __init__(self, files: StoreFiles, name: int | None = None) -> None:
        self.slots = files.settings.max_hash_slot_num
        self.capacity = files.settings.max_index_num
        self.memory = files.view(files.index_path(name)) if name is not None else None
        self.begin_ms = self.end_ms = self.begin_offset = self.end_offset = 0
        self.count = 1
        self._added_slots: dict[int, int] = {}
        self._added: dict[int, tuple[int, int, int, int]] = {}
        if self.memory is not None:
            head = HEADER.unpack_from(self.memory)
            self.begin_ms, self.end_ms, self.begin_offset, self.end_offset = head[:4]
            self.count = max(1, head[5])

    @property
    def full(self) -> bool:
        return self.count >= self.capacity

    @property
    def held(self) -> int:
        """The number behind the last entry that the file can hold, whatever its header counts."""
        return min(self.count, self.capacity)

    def slot(self, number: int) -> int:
        """The newest entry of a slot's chain, unchecked; 0 if there is none."""
        if number in self._added_slots:
            return self._added_slots[number]
        if self.memory is None:
            return 0
        at = HEADER_SIZE + SLOT_SIZE * number
        return int.from_bytes(self.memory[at : at + SLOT_SIZE], "big", signed=True)

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """Key hash, log address, seconds since `begin_ms`, next older entry of the chain."""
        if number in self._added:
            return self._added[number]
        if self.memory is None or number >= self.capacity:
            return 0, 0, 0, 0
        at = HEADER_SIZE + SLOT_SIZE * self.slots + ENTRY_SIZE * number
        key_hash, offset, seconds, older = ENTRY.unpack_from(self.memory, at)
        return key_hash, offset, seconds, older

    def put(self, key_hash: int, offset: int, stored_ms: int) -> None:
        """Adds an entry; the file must not be full."""
        slot = key_hash % self.slots
        older = self.slot(slot)
        if not 0 < older <= self.count:
            older = 0
        seconds = 0
        if self.begin_ms > 0:
            seconds = min(max(stored_ms - self.begin_ms, 0) // 1000, _INT_MAX)
        self._added[self.count] = (key_hash, offset, seconds, older)
        self._added_slots[slot] = self.count
        if self.count <= 1:
            self.begin_offset, self.begin_ms = offset, stored_ms
        self.count += 1
        self.end_offset, self.end_ms = offset, stored_ms


class IndexView:
    """All index files. `checkpoint_ms` is the checkpoint's index time after recovery."""

    def __init__(self, files: StoreFiles, checkpoint_ms: int, *, clean: bool) -> None:
        self.store = files
        self.checkpoint_ms = checkpoint_ms
        self.files: list[IndexFileView] = []
        for name in files.index_files():
            file = IndexFileView(files, name)
            # After a crash RocketMQ drops files that may not have been flushed.
            if clean or file.end_ms <= checkpoint_ms:
                self.files.append(file)

    def _writable(self) -> IndexFileView:
        if self.files and not self.files[-1].full:
            return self.files[-1]
        file = IndexFileView(self.store)
        if self.files:
            last = self.files[-1]
            file.begin_offset = file.end_offset = last.end_offset
            file.begin_ms = file.end_ms = last.end_ms
            # RocketMQ flushes the full file and notes its time in the checkpoint.
            self.checkpoint_ms = last.end_ms or self.checkpoint_ms
        self.files.append(file)
        return file

    def build(self, record: Record) -> None:
        """Dispatches a record. Like RocketMQ, it indexes the last indexed record once more."""
        file = self._writable()
        if (
            record.physical_offset < file.end_offset
            or record.transaction_type == TRANSACTION_ROLLBACK
        ):
            return
        for key in index_keys(record.properties):
            self._writable().put(
                index_key_hash(record.topic, key), record.physical_offset, record.store_timestamp
            )

    def last_update(self) -> tuple[int, int]:
        """Store time (ms) and log address of the record that was indexed last; zeros if there is
        none.
        """
        if not self.files:
            return 0, 0
        return self.files[-1].end_ms, self.files[-1].end_offset
