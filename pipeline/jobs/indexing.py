"""Makes index files from records. Chains are found by a sort over slots, one block of keys at a
time.

Keys are numbered over the whole log. Every index file but the last is full, so a key's number gives
its file and its entry. The files can therefore be made independently of each other.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...store.disk import files as disk
from ...store.disk.files import Folder
from ...store.index.file import ENTRY_FIELDS, ENTRY_SIZE, HEADER, HEADER_SIZE, SLOT_SIZE
from ...store.record.format import SYS_TRANSACTION, TRANSACTION_ROLLBACK
from .hashing import index_hashes, java_hashes

#: The columns that keys are made from; `sys_flag` says whether a record's keys are indexed.
COLUMNS: Final = (
    "topic", "physical_offset", "store_timestamp", "keys", "message_id", "sys_flag",
)  # fmt: skip
ENTRY: Final = np.dtype(list(ENTRY_FIELDS))
_INT_MAX: Final = 0x7FFFFFFF
assert ENTRY.itemsize == ENTRY_SIZE


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys in the order in which they are put: the hash of each (int32), and the log address and
    store time (epoch ms) of its record (int64).
    """

    hashes: Any
    offsets: Any
    times: Any

    def __len__(self) -> int:
        return len(self.hashes)

    def part(self, start: int, end: int) -> Keys:
        """The keys [start, end)."""
        return Keys(self.hashes[start:end], self.offsets[start:end], self.times[start:end])


def counts_of(batch: Any) -> Any:
    """How many keys each record of a batch with COLUMNS puts into the index (int64)."""
    rollback = (batch.column("sys_flag").to_numpy() & SYS_TRANSACTION) == TRANSACTION_ROLLBACK
    own = batch.column("message_id").is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    named = pc.list_value_length(batch.column("keys")).to_numpy(zero_copy_only=False)
    return np.where(rollback, 0, own + named)


def keys_of(batch: Any) -> Keys:
    """The keys of a batch with COLUMNS: of each record UNIQ_KEY first, then KEYS in order."""
    counts = counts_of(batch)
    batch = batch.filter(pa.array(counts > 0))
    counts = counts[counts > 0]
    rows: Any = np.repeat(np.arange(len(batch)), counts)
    starts = np.cumsum(counts) - counts
    topics = batch.column("topic").dictionary_encode()
    prefixes = java_hashes(topics.dictionary) * np.uint32(31) + np.uint32(ord("#"))
    prefix = prefixes[topics.indices.to_numpy()]
    own = batch.column("message_id").is_valid().to_numpy(zero_copy_only=False)
    hashes: Any = np.zeros(len(rows), dtype=np.int32)
    hashes[starts[own]] = index_hashes(prefix[own], batch.column("message_id").drop_null())
    named = batch.column("keys")
    # The other places, in order, are those of KEYS.
    rest: Any = np.ones(len(rows), dtype=bool)
    rest[starts[own]] = False
    hashes[rest] = index_hashes(prefix[rows[rest]], named.flatten())
    times = batch.column("store_timestamp").cast(pa.int64()).to_numpy()
    return Keys(hashes, batch.column("physical_offset").to_numpy()[rows], times[rows])


class IndexFileWriter:
    """Writes the index file `path` of `slots` slots and `most` entries (entry 0 is never used).
    `put` may be called any number of times. Writing the same file again changes nothing.

    `before` is the store time of the last key of the file before, or 0 without one: the time of the
    first entry counts from there. A context manager. Raises OSError.
    """

    def __init__(self, path: str, before: int, slots: int, most: int) -> None:
        self.path = path
        self.slots = slots
        self.most = most
        self._table: Any = np.zeros(slots, dtype=np.int32)
        self._next = 1
        self._before = before
        self._first = self._last = (0, 0)
        place, name = os.path.split(path)
        with Folder.open(place, create=True) as folder:
            self._fd = folder.open_file(name, write=True, create=True)
        disk.set_size(self._fd, HEADER_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * most)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            os.close(self._fd)

    def put(self, keys: Keys) -> None:
        """Writes the next keys. Raises ValueError when the file cannot hold them."""
        count = len(keys)
        if self._next + count > self.most:
            raise ValueError(f"{self.path} holds {self.most - 1} keys, not {count} more")
        if not count:
            return
        if self._next == 1:
            self._first = int(keys.offsets[0]), int(keys.times[0])
        self._last = int(keys.offsets[-1]), int(keys.times[-1])
        entries: Any = np.zeros(count, dtype=ENTRY)
        entries["key_hash"] = keys.hashes
        entries["phy_offset"] = keys.offsets
        entries["time_diff"] = self._seconds(keys.times)
        entries["prev_index"] = self._link(keys.hashes % self.slots)
        at = HEADER_SIZE + SLOT_SIZE * self.slots + ENTRY_SIZE * self._next
        disk.write_at(self._fd, entries.tobytes(), at)
        self._next += count

    def _seconds(self, times: Any) -> Any:
        begin = np.full(len(times), self._first[1])
        if self._next == 1:
            begin[0] = self._before
        return np.where(begin > 0, np.clip((times - begin) // 1000, 0, _INT_MAX), 0)

    def _link(self, slot: Any) -> Any:
        """For each entry the one before it in its slot's chain. Then each slot leads to its newest
        entry.
        """
        order = np.argsort(slot, kind="stable")
        same = np.diff(slot[order]) == 0
        older = self._table[slot]
        older[order[1:][same]] = order[:-1][same] + self._next
        newest = order[np.append(~same, [True])]
        self._table[slot[newest]] = newest + self._next
        return older

    def _finish(self) -> None:
        header = HEADER.pack(
            self._first[1],
            self._last[1],
            self._first[0],
            self._last[0],
            int(np.count_nonzero(self._table)),
            self._next,
        )
        disk.write_at(self._fd, header + self._table.astype(">i4").tobytes(), 0)
