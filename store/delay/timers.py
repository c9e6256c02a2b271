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
24      4     u32   size          of the record, bytes
28      4     u32   key           checksum of the message's UNIQ_KEY; 0 if it is not known
32      8     u64   delivered     offset of the delivered record + 1; 0 while it waits
======  ====  ====  ============  =======
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import msgspec

from ...shm._checksum import crc32c
from ..disk import files as disk
from ..disk.files import Folder

FOLDER = "timer"
MINUTE_MS = 60_000
ENTRY = struct.Struct("<3Q2IQ")
ENTRY_SIZE = 40
LAYOUTS = {
    "entry": {
        "due_ms": (0, 8),
        "queue_offset": (8, 8),
        "offset": (16, 8),
        "size": (24, 4),
        "key": (28, 4),
        "delivered": (32, 8),
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
_DIGITS = 10  # of a file's name
#: In place of the log offset of a delivery: the message is done without one. No delivery has this
#: offset: the message that waits lies before it in the log.
NEVER_DELIVERED = 0
assert ENTRY.size == ENTRY_SIZE


#: A new entry: (due_ms, queue_offset, offset, size, key).
Entry = tuple[int, int, int, int, int]


def key_checksum(key: str) -> int:
    """What an entry has of its message's UNIQ_KEY: most other messages need not be read in the
    search for a key.
    """
    return crc32c(key.encode()) or 1


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


#: The order of delivery: (due_ms, queue_offset).
Key = tuple[int, int]


class Bucket(msgspec.Struct):
    """A summary of one file: the number of entries, the number that wait, the log offset of the
    first entry, and the greatest `delivered`.

    Entries before `head` are delivered below a log offset that `first_waiting` was asked for. `low`
    is the queue offset of the entry at `head`, -1 if it is to be read. `parts` has the first and
    the last (due_ms, queue_offset) of each _CHUNK entries.
    """

    count: int = 0
    waiting: int = 0
    first_offset: int = 0
    delivered: int = 0
    head: int = 0
    low: int = -1
    parts: list[tuple[Key, Key]] = []

    def count_in(self, key: Key) -> None:
        """Counts one entry more."""
        if self.count % _CHUNK == 0:
            self.parts.append((key, key))
        elif not self.parts[-1][0] <= key <= self.parts[-1][1]:
            first, last = self.parts[-1]
            self.parts[-1] = min(first, key), max(last, key)
        self.count += 1

    def parts_between(self, after: Key, before: Key) -> list[int]:
        """The indexes of the parts that may hold entries from `after` on and before `before`."""
        return [i for i, (low, high) in enumerate(self.parts) if low < before and high >= after]


class Timers:
    """The files in the folder `timer` below `ours`. All methods that touch files raise OSError.

    `beat` is called in long loops, so that a file of any size costs the schedule process no
    heartbeat.
    """

    def __init__(self, ours: Folder, beat: Callable[[], object] = lambda: None) -> None:
        self.beat = beat
        self.folder = ours.folder(FOLDER, create=True)
        self.buckets: dict[int, Bucket] = {}
        self.near: list[Waiting] = []
        # All waiting entries before this (due_ms, queue_offset) are in `near`, or popped from it.
        self._loaded = (0, 0)
        self._dirty: set[int] = set()
        # Minutes whose files hold entries that were due in an earlier minute.
        self._overdue: set[int] = set()
        # The first minute that has waiting entries; None if it must be computed again.
        self._first: int | None = None

    def take_over(self, timer_next: int, scan_from: int) -> None:
        """Loads the summaries of all files, at the start of a schedule process. Removes entries
        from queue offset `timer_next` on, which are read from the queue again. Clears marks of
        deliveries at or behind log offset `scan_from`, which the scan of the log finds. It keeps
        the marks of messages that are never delivered: no cancel is read again.
        """
        for name in self.folder.names():
            if len(name) == _DIGITS and name.isascii() and name.isdigit():
                self._take_over(int(name), timer_next, scan_from)
        # It is not known which changes the schedule process before this one had synced.
        self._dirty.update(self.buckets)

    def _take_over(self, minute: int, timer_next: int, scan_from: int) -> None:
        bucket = Bucket()
        with self.folder.file(_name(minute), write=True) as fd:
            size = disk.size_of(fd)
            for index, row in enumerate(self._rows(fd, size // ENTRY_SIZE)):
                due, queue_offset, offset, record_size, _, delivered = row
                if queue_offset >= timer_next or record_size == 0:
                    break  # zeros: a power cut left the file's length without its bytes
                if delivered > max(scan_from, NEVER_DELIVERED + 1):
                    disk.write_at(fd, bytes(8), index * ENTRY_SIZE + 32)
                    delivered = 0
                if due // MINUTE_MS < minute:
                    self._overdue.add(minute)
                if bucket.count == 0:
                    bucket.first_offset = offset
                bucket.count_in((due, queue_offset))
                bucket.waiting += delivered == 0
                bucket.delivered = max(bucket.delivered, delivered)
            if size != bucket.count * ENTRY_SIZE:
                disk.set_size(fd, bucket.count * ENTRY_SIZE)
        self.buckets[minute] = bucket
        self._first = None

    def enter(self, entries: list[Entry], now_ms: int) -> None:
        """Adds entries, which must be in the queue's order. An entry that is overdue goes into the
        file of the present minute.
        """
        by_minute: dict[int, list[Entry]] = {}
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
                if entry[0] // MINUTE_MS < minute:
                    self._overdue.add(minute)
                if entry[:2] < self._loaded:
                    heapq.heappush(self.near, Waiting(*entry[:4], minute, bucket.count))
                bucket.count_in(entry[:2])
                bucket.waiting += 1

    def look_ahead(self, now_ms: int) -> None:
        """Reads the entries that are due in the next 5 s into memory, at most the first MOST_NEAR.
        Does nothing while memory still covers the next second or holds many entries.
        """
        if self._loaded[0] > now_ms + LEAD_MS or len(self.near) > MOST_NEAR // 2:
            return
        until: Key = (now_ms + _AHEAD_MS, 0)
        found: list[Waiting] = []
        for minute, bucket in self.buckets.items():
            if not bucket.waiting or minute * MINUTE_MS >= until[0]:
                continue
            for part in bucket.parts_between(self._loaded, until):
                if bucket.parts[part][0] >= until:  # the parts before it had enough
                    continue
                found += self._part(minute, part, self._loaded, until)
                if len(found) >= MOST_NEAR:
                    found.sort()
                    del found[MOST_NEAR:]
                    until = (found[-1].due_ms, found[-1].queue_offset + 1)
        self._loaded = until
        self.near = sorted(self.near + found)

    def _part(
        self, minute: int, part: int, after: Key, before: Key, keys: Collection[int] = ()
    ) -> list[Waiting]:
        """The waiting entries of one part of a file, from `after` on and before `before`. With
        `keys` only those that have one of these checksums.
        """
        self.beat()
        first = part * _CHUNK
        with self.folder.file(_name(minute)) as fd:
            data = disk.read_at(fd, _CHUNK * ENTRY_SIZE, first * ENTRY_SIZE)
        found = []
        for place, row in enumerate(ENTRY.iter_unpack(data), first):
            due, queue_offset, offset, size, key, mark = row
            if mark or (keys and key not in keys):
                continue
            if after <= (due, queue_offset) < before:
                found.append(Waiting(due, queue_offset, offset, size, minute, place))
        return found

    def waiting_between(
        self, from_ms: int, until_ms: int, keys: Collection[str]
    ) -> Iterator[Waiting]:
        """The waiting entries that are due from `from_ms` to `until_ms` and may have one of these
        UNIQ_KEYs. They are in the files of these minutes, and of later ones in which such entries
        were entered.
        """
        first = from_ms // MINUTE_MS
        minutes = {minute for minute in self._overdue if minute > first}
        minutes.update(range(first, until_ms // MINUTE_MS + 1))
        after, before = (from_ms, 0), (until_ms + 1, 0)
        checksums = {0, *map(key_checksum, keys)}
        for minute in minutes & self.buckets.keys():
            if self.buckets[minute].waiting:
                for part in self.buckets[minute].parts_between(after, before):
                    yield from self._part(minute, part, after, before, checksums)

    def give_up(self, cancelled: list[Waiting]) -> None:
        """Marks messages as done that will never be delivered."""
        self.mark([(entry, NEVER_DELIVERED) for entry in cancelled])
        # By their places: `put_back` may have given an entry another time.
        gone = {(entry.minute, entry.place) for entry in cancelled}
        self.near = [entry for entry in self.near if (entry.minute, entry.place) not in gone]
        heapq.heapify(self.near)

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
                for done, (index, mark) in enumerate(marks):
                    if done % _CHUNK == 0:
                        self.beat()
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
            self._overdue.discard(minute)

    def first_waiting(self, below: int) -> int | None:
        """The least queue offset of an entry that is not delivered below log offset `below`; None
        without one. `below` must not decrease from call to call.

        The first entries of all files are read once. After that a call reads only what was
        delivered since.
        """
        while True:
            found = [
                (bucket.low, minute)
                for minute, bucket in self.buckets.items()
                if bucket.head < bucket.count
            ]
            if not found:
                return None
            low, minute = min(found)
            if not self._move_head(minute, below) and low >= 0:
                return low

    def _move_head(self, minute: int, below: int) -> bool:
        """Moves a file's `head` over entries that are delivered below log offset `below`. Whether
        it moved, or was read for the first time.
        """
        bucket = self.buckets[minute]
        before = bucket.head, bucket.low
        with self.folder.file(_name(minute)) as fd:
            while bucket.head < bucket.count:
                self.beat()
                data = disk.read_at(fd, _CHUNK * ENTRY_SIZE, bucket.head * ENTRY_SIZE)
                for _, queue_offset, _, _, _, delivered in ENTRY.iter_unpack(data):
                    if not 0 < delivered <= below:
                        bucket.low = queue_offset
                        return (bucket.head, bucket.low) != before
                    bucket.head += 1
        return True

    def _rows(self, fd: int, count: int) -> Iterator[tuple[int, ...]]:
        for first in range(0, count, _CHUNK):
            self.beat()
            size = min(_CHUNK, count - first) * ENTRY_SIZE
            yield from ENTRY.iter_unpack(disk.read_at(fd, size, first * ENTRY_SIZE))

    def first_offset(self) -> int | None:
        """A log offset below which no waiting message lies; None if none waits."""
        return min((b.first_offset for b in self.buckets.values() if b.waiting), default=None)


def _name(minute: int) -> str:
    return f"{minute:0{_DIGITS}d}"
