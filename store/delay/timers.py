"""Timers: messages delayed to any time. `silomq/timer/` has a file for each minute in which some
are due.

A file holds the entries in the order of the timer topic's queue. So a successor cuts entries behind
the published queue offset off the file's end, and makes them again from the queue. Only entries
that are due within seconds are in memory. The schedule process alone writes these files.

Layout entry:

======  ====  ====  ============  =======
offset  size  type  field         meaning
======  ====  ====  ============  =======
0       8     u64   due_ms        epoch ms
8       8     u64   queue_offset  in the timer topic's queue
16      8     u64   offset        of the record in the commit log
24      8     u64   size          of the record, bytes
32      8     u64   delivered     offset of the delivered record + 1; 0 while it waits
======  ====  ====  ============  =======
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..disk import files as disk
from ..disk.files import Folder

FOLDER = "timer"
MINUTE_MS = 60_000
ENTRY = struct.Struct("<5Q")
ENTRY_SIZE = 40
LAYOUTS = {
    "entry": {
        name: (8 * i, 8)
        for i, name in enumerate(("due_ms", "queue_offset", "offset", "size", "delivered"))
    }
}
#: The number of entries that one read takes from a file: 640 KiB.
_CHUNK = 16384
#: Entries that `look_ahead` takes into memory at most. New ones that are due soon are added.
MOST_NEAR = 20_000
#: How long before they are due entries are read from their files.
LEAD_MS = 1000
_AHEAD_MS = 5000
_NEVER = 2**62
assert ENTRY.size == ENTRY_SIZE


class Waiting(NamedTuple):
    """An entry in memory. Entries are delivered in the order of these fields; `minute` is the
    entry's file and `place` its index there.
    """

    due_ms: int
    queue_offset: int
    offset: int
    size: int
    minute: int
    place: int


@dataclass(slots=True)
class Bucket:
    """A summary of one file: the number of entries, the number that wait, the log offset of the
    first entry, and the greatest `delivered`.
    """

    count: int = 0
    waiting: int = 0
    first_offset: int = 0
    delivered: int = 0


class Timers:
    """The files in the folder `timer` below `ours`. All methods that touch files raise OSError."""

    def __init__(self, ours: Folder) -> None:
        self.folder = ours.folder(FOLDER, create=True)
        self.buckets: dict[int, Bucket] = {}
        self.near: list[Waiting] = []
        # All waiting entries before this (due_ms, queue_offset) are in `near`, or popped from it.
        self._loaded = (0, 0)
        self._dirty: set[int] = set()
        # The first minute that has waiting entries; None if it must be computed again.
        self._first: int | None = None

    def take_over(self, timer_next: int, scan_from: int) -> None:
        """Loads the summaries of all files, at the start of a schedule process. Removes entries
        from queue offset `timer_next` on, which are read from the queue again. Clears marks of
        deliveries at or behind log offset `scan_from`, which the scan of the log finds.
        """
        for name in self.folder.names():
            if name.isdigit():
                self._take_over(int(name), timer_next, scan_from)

    def _take_over(self, minute: int, timer_next: int, scan_from: int) -> None:
        bucket = Bucket()
        with self.folder.file(_name(minute), write=True) as fd:
            size = disk.size_of(fd)
            for index, row in enumerate(_rows(fd, size // ENTRY_SIZE)):
                _, queue_offset, offset, _, delivered = row
                if queue_offset >= timer_next:
                    break
                if delivered > scan_from:
                    disk.write_at(fd, bytes(8), index * ENTRY_SIZE + 32)
                    self._dirty.add(minute)
                    delivered = 0
                if bucket.count == 0:
                    bucket.first_offset = offset
                bucket.count += 1
                bucket.waiting += delivered == 0
                bucket.delivered = max(bucket.delivered, delivered)
            if size != bucket.count * ENTRY_SIZE:
                disk.set_size(fd, bucket.count * ENTRY_SIZE)
        self.buckets[minute] = bucket
        self._first = None

    def enter(self, entries: list[tuple[int, int, int, int]], now_ms: int) -> None:
        """Adds entries (due_ms, queue_offset, offset, size), which must be in the queue's order. An
        entry that is overdue goes into the file of the present minute.
        """
        by_minute: dict[int, list[tuple[int, int, int, int]]] = {}
        for entry in entries:
            by_minute.setdefault(max(entry[0], now_ms) // MINUTE_MS, []).append(entry)
        for minute, found in by_minute.items():
            bucket = self.buckets.setdefault(minute, Bucket(first_offset=found[0][2]))
            data = b"".join(ENTRY.pack(*entry, 0) for entry in found)
            with self.folder.file(_name(minute), write=True, create=True) as fd:
                disk.write_at(fd, data, bucket.count * ENTRY_SIZE)
            self._dirty.add(minute)
            if self._first is not None:
                self._first = min(self._first, minute)
            for entry in found:
                if entry[:2] < self._loaded:
                    heapq.heappush(self.near, Waiting(*entry, minute, bucket.count))
                bucket.count += 1
                bucket.waiting += 1

    def look_ahead(self, now_ms: int) -> None:
        """Reads the entries that are due in the next 5 s into memory, at most the first MOST_NEAR.
        Does nothing while memory still covers the next second or holds many entries.
        """
        if self._loaded[0] > now_ms + LEAD_MS or len(self.near) > MOST_NEAR // 2:
            return
        until_ms = now_ms + _AHEAD_MS
        minutes = [m for m, b in self.buckets.items() if b.waiting and m * MINUTE_MS < until_ms]
        found = heapq.nsmallest(
            MOST_NEAR, (e for m in minutes for e in self._between(m, self._loaded, until_ms))
        )
        if len(found) == MOST_NEAR:
            self._loaded = (found[-1].due_ms, found[-1].queue_offset + 1)
        else:
            self._loaded = (until_ms, 0)
        self.near = list(heapq.merge(sorted(self.near), found))

    def _between(self, minute: int, after: tuple[int, int], until_ms: int) -> Iterator[Waiting]:
        with self.folder.file(_name(minute)) as fd:
            for first in range(0, self.buckets[minute].count, _CHUNK):
                data = disk.read_at(fd, _CHUNK * ENTRY_SIZE, first * ENTRY_SIZE)
                words = memoryview(data).cast("Q")
                due, delivered = words[0::5].tolist(), words[4::5].tolist()
                for i, (at, mark) in enumerate(zip(due, delivered, strict=True)):
                    if at >= until_ms or mark or at < after[0]:
                        continue
                    _, queue_offset, offset, size, _ = ENTRY.unpack_from(data, i * ENTRY_SIZE)
                    if (at, queue_offset) >= after:
                        yield Waiting(at, queue_offset, offset, size, minute, first + i)

    def next_due_ms(self) -> int | None:
        """When the caller must act next, epoch ms: deliver the next message, or call `look_ahead`.
        None if no message waits.
        """
        times = [self.near[0].due_ms] if self.near else []
        if self._first is None:
            self._first = min((m for m, b in self.buckets.items() if b.waiting), default=_NEVER)
        if self._first != _NEVER and len(self.near) <= MOST_NEAR // 2:
            times.append(max(self._first * MINUTE_MS, self._loaded[0]) - LEAD_MS)
        return min(times, default=None)

    def pop(self) -> Waiting:
        """Takes the next message from memory. It counts as waiting until it is marked."""
        return heapq.heappop(self.near)

    def put_back(self, entry: Waiting) -> None:
        """Puts a message back into memory that could not be delivered now."""
        heapq.heappush(self.near, entry)

    def mark(self, delivered: list[tuple[Waiting, int]]) -> None:
        """Marks messages as delivered at the given log offsets."""
        by_minute: dict[int, list[tuple[int, int]]] = {}
        for entry, offset in delivered:
            by_minute.setdefault(entry.minute, []).append((entry.place, offset + 1))
        for minute, marks in by_minute.items():
            bucket = self.buckets[minute]
            with self.folder.file(_name(minute), write=True) as fd:
                for index, mark in marks:
                    disk.write_at(fd, mark.to_bytes(8, "little"), index * ENTRY_SIZE + 32)
            bucket.waiting -= len(marks)
            if not bucket.waiting:
                self._first = None
            bucket.delivered = max(bucket.delivered, *(mark for _, mark in marks))
            self._dirty.add(minute)

    def take_unsynced(self) -> list[int]:
        """The minutes whose files have changed since the last call, for `sync`."""
        minutes = sorted(self._dirty & self.buckets.keys())
        self._dirty.clear()
        return minutes

    def forget_synced(self) -> None:
        """Counts all files as changed, because a sync failed and does not say what it lost."""
        self._dirty.update(self.buckets)

    def sync(self, minutes: list[int]) -> None:
        """Makes files durable. Another thread may call it, if no file is removed meanwhile."""
        for minute in minutes:
            with self.folder.file(_name(minute), write=True) as fd:
                disk.sync_data(fd)
        self.folder.sync()

    def drop_done(self, durable: int, now_ms: int) -> None:
        """Removes the files of past minutes whose messages were all delivered below log offset
        `durable`, below which a power cut takes nothing back.
        """
        past = now_ms // MINUTE_MS
        done = [
            minute
            for minute, bucket in self.buckets.items()
            if minute < past and not bucket.waiting and bucket.delivered <= durable
        ]
        for minute in done:
            self.folder.unlink(_name(minute))
            del self.buckets[minute]

    def first_offset(self) -> int | None:
        """A log offset below which no waiting message lies; None if none waits."""
        return min((b.first_offset for b in self.buckets.values() if b.waiting), default=None)


def _name(minute: int) -> str:
    return f"{minute:010d}"


def _rows(fd: int, count: int) -> Iterator[tuple[int, ...]]:
    for first in range(0, count, _CHUNK):
        size = min(_CHUNK, count - first) * ENTRY_SIZE
        yield from ENTRY.iter_unpack(disk.read_at(fd, size, first * ENTRY_SIZE))
