"""The journal of leases (`leases.py`): one file in `silomq/pop`, which the registry writes.

The registry maps the file. A change is one *frame*, which is copied into the mapping before its
request is answered: so what was answered survives the death of every process, in the page cache. A
process that is killed while it copies leaves a frame whose checksum is wrong; reading ends there.
The checksum depends on file and position, so what an older file left there is no frame either.

A file begins with the state of all queues. When it is full, a new one is made under a temporary
name, gets its name once it is whole, and the older one is removed. So the size is bounded by what
is leased. Nothing here is synced: after a power cut the state may be older or missing. Then
messages come again, from the offsets in `config/consumerOffset.json` on.

A file is its header and frames; numbers are little-endian. A frame is its header and entries. An
entry says how a lease is now, or what else has become of a queue (`Kind`). Queues have numbers
within a file.

Layout journal:

======  ====  ====  =======  =======
offset  size  type  field    meaning
======  ====  ====  =======  =======
0       8     u64   magic    "SILOPOP1"
8       8     u64   number   of this file; its name
======  ====  ====  =======  =======

Layout frame:

======  ====  ====  ======  =======
offset  size  type  field   meaning
======  ====  ====  ======  =======
0       4     u32   length  of the entries, bytes; 0 behind the last frame
4       4     u32   crc     CRC-32 of the entries, begun with number and position of the file
======  ====  ====  ======  =======

Layout entry:

======  ====  ====  =========  =======
offset  size  type  field      meaning
======  ====  ====  =========  =======
0       4     u32   kind       what the entry says
4       4     u32   queue      number of the queue within this file
8       8     u64   first      of a lease; an offset; of NAME the queue's id
16      8     u64   popped_ms  of a lease
24      8     u64   due_ms     of a lease
32      8     u64   attempt    of a lease
40      4     u32   mask       of a lease; of NAME the length of the text behind the entry
44      4     u32   times      of a lease
======  ====  ====  =========  =======

The text of NAME is the group, a line feed, and the topic.
"""

from __future__ import annotations

import enum
import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ..disk import files as disk
from ..disk.files import Folder
from ..errors import Corrupt
from .leases import Lease, QueueLeases

if TYPE_CHECKING:
    from ...shm._memory import Mapping as Memory

#: In `silomq/`.
FOLDER: Final = "pop"
JOURNAL: Final = {"magic": (0, 8), "number": (8, 8)}
FRAME: Final = {"length": (0, 4), "crc": (4, 4)}
ENTRY: Final = {
    "kind": (0, 4), "queue": (4, 4), "first": (8, 8), "popped_ms": (16, 8), "due_ms": (24, 8),
    "attempt": (32, 8), "mask": (40, 4), "times": (44, 4),
}  # fmt: skip
LAYOUTS: Final = {"journal": JOURNAL, "frame": FRAME, "entry": ENTRY}
_JOURNAL: Final = struct.Struct("<QQ")
_FRAME: Final = struct.Struct("<II")
_ENTRY: Final = struct.Struct("<IIQQQQII")
_MAGIC: Final = int.from_bytes(b"SILOPOP1", "little")
_OURS: Final = re.compile(r"[0-9]{20}(?:\.tmp)?")
assert _JOURNAL.size == sum(JOURNAL["number"])
assert _FRAME.size == sum(FRAME["crc"])
assert _ENTRY.size == sum(ENTRY["times"])

#: A new file has room for the state, and for four times as much or so many bytes.
_LEAST_ROOM: Final = 4 << 20
#: One file has no more: a start refuses to read it.
_MOST_SIZE: Final = 1 << 30

Key = tuple[str, str, int]  # group, topic, queue id


class Kind(enum.IntEnum):
    """What an entry says of a queue."""

    #: Its group, topic and id; comes first.
    NAME = 1
    #: `first` was never handed out, nor anything behind, and nothing is leased.
    BEGIN = 2
    #: Everything below `first` is done.
    MOVE = 3
    #: A lease is so now.
    LEASE = 4
    #: The group has forgotten the queue.
    FORGET = 5


def lease_entry(queue: int, lease: Lease) -> bytes:
    """How a lease is now."""
    return _ENTRY.pack(
        Kind.LEASE, queue, lease.first, lease.popped_ms, lease.due_ms, lease.attempt, lease.mask,
        lease.times,
    )  # fmt: skip


def offset_entry(kind: Kind, queue: int, offset: int = 0) -> bytes:
    """One of BEGIN, MOVE and FORGET."""
    return _ENTRY.pack(kind, queue, offset, 0, 0, 0, 0, 0)


def name_entry(queue: int, key: Key) -> bytes:
    """Which queue a number stands for from now on."""
    text = f"{key[0]}\n{key[1]}".encode()
    return _ENTRY.pack(Kind.NAME, queue, key[2], 0, 0, 0, len(text), 0) + text


def _seed(number: int, position: int) -> int:
    return (number ^ position) & 0xFFFFFFFF


def _put(view: memoryview, number: int, at: int, entries: bytes) -> int:
    """Copies a frame into file `number` at a position. Returns the position behind it."""
    begin = at + _FRAME.size
    view[begin : begin + len(entries)] = entries
    _FRAME.pack_into(view, at, len(entries), zlib.crc32(entries, _seed(number, at)))
    return begin + len(entries)


def _name(number: int) -> str:
    return f"{number:020d}"


class _State:
    """What the frames of a file say, entry by entry."""

    def __init__(self) -> None:
        self.names: dict[int, Key] = {}
        self.queues: dict[int, QueueLeases] = {}

    def take(self, entries: bytes) -> None:
        """Takes the entries of a frame. Raises ValueError, struct.error or KeyError for what no
        journal has.
        """
        at = 0
        while at < len(entries):
            kind, queue, first, popped_ms, due_ms, attempt, mask, times = _ENTRY.unpack_from(
                entries, at
            )
            at += _ENTRY.size
            match Kind(kind):
                case Kind.NAME:
                    group, _, topic = entries[at : at + mask].decode().partition("\n")
                    at += mask
                    self.names[queue] = group, topic, first
                    self.queues[queue] = QueueLeases(0)
                case Kind.BEGIN:
                    self.queues[queue] = QueueLeases(first)
                case Kind.MOVE:
                    self.queues[queue].move(first)
                case Kind.LEASE:
                    self.queues[queue].restore(
                        Lease(first, popped_ms, due_ms, times, mask, attempt)
                    )
                case Kind.FORGET:
                    del self.queues[queue], self.names[queue]


def _snapshot(queues: Mapping[Key, QueueLeases]) -> Iterable[bytes]:
    """The entries of all queues, those of each in a frame of its own. Numbers are the order."""
    for number, (key, queue) in enumerate(queues.items()):
        entries = [name_entry(number, key), offset_entry(Kind.BEGIN, number, queue.next)]
        entries += [lease_entry(number, lease) for lease in queue.leases.values()]
        yield b"".join(entries)


class LeaseJournal:
    """The newest journal in `folder`. `queues` is the state of all popped queues, which the caller
    changes and notes. Raises OSError.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.number = 0
        self.queues: dict[Key, QueueLeases] = {}
        #: The queues' numbers in the file.
        self.numbers: dict[Key, int] = {}
        self._next_number = 0
        self._memory: Memory | None = None
        self._view = memoryview(b"")
        self._at = 0
        #: Files that could not be read, and why.
        self.problems: list[str] = []
        self._load()
        for queue in self.queues.values():
            queue.sort()

    def _load(self) -> None:
        """Reads the newest file that can be read. What a killed process left half-made goes."""
        names = sorted((n for n in self._folder.names() if _OURS.fullmatch(n)), reverse=True)
        for name in [name for name in names if name.endswith(".tmp")]:
            self._folder.unlink(name)
            names.remove(name)
        self.number = max(map(int, names), default=0)
        for name in names:
            try:
                self.queues = self._read(name)
            except Corrupt as error:
                self.problems.append(str(error))
            else:
                return

    def _read(self, name: str) -> dict[Key, QueueLeases]:
        where = f"{self._folder.path}/{name}"
        data = b""
        with self._folder.file(name) as fd:
            size = disk.size_of(fd)
            if size > _MOST_SIZE:
                raise Corrupt(where, 0, f"{size} bytes: no journal of leases")
            data = disk.read_at(fd, size, 0)
        if len(data) < _JOURNAL.size or _JOURNAL.unpack_from(data) != (_MAGIC, int(name)):
            raise Corrupt(where, 0, "no journal of leases, or one that a power cut has emptied")
        state, at = _State(), _JOURNAL.size
        try:
            while at + _FRAME.size <= len(data):
                length, crc = _FRAME.unpack_from(data, at)
                entries = data[at + _FRAME.size : at + _FRAME.size + length]
                whole = 0 < length == len(entries)
                if not whole or zlib.crc32(entries, _seed(int(name), at)) != crc:
                    break  # the end, or a frame that was not finished
                state.take(entries)
                at += _FRAME.size + length
        except (ValueError, KeyError, struct.error) as error:
            raise Corrupt(where, at, f"an entry that no journal has: {error}") from error
        return {state.names[number]: queue for number, queue in state.queues.items()}

    # -- writing

    def reserve(self, size: int) -> None:
        """Makes sure that entries of so many bytes can be noted. Raises OSError (ENOSPC); then
        nothing has changed.
        """
        if self._at + _FRAME.size + size > len(self._view):
            self._renew(size)

    def note(self, entries: bytes) -> None:
        """Notes changes that have been made. There must be room for them (`reserve`)."""
        self._at = _put(self._view, self.number, self._at, entries)

    def sync(self) -> None:
        """Makes everything that was noted durable. Raises OSError."""
        if self._memory is not None:
            disk.sync_range(self._memory, 0, self._at)
            self._folder.sync()

    def number_of(self, key: Key, queue: QueueLeases) -> int:
        """Adds a queue that begins, and returns its number. There must be room for its name."""
        number = self._next_number
        self._next_number += 1
        self.queues[key] = queue
        self.numbers[key] = number
        entries = name_entry(number, key) + offset_entry(Kind.BEGIN, number, queue.next)
        self.note(entries)
        return number

    def forget(self, key: Key) -> None:
        """Removes a queue. There must be room."""
        del self.queues[key]
        self.note(offset_entry(Kind.FORGET, self.numbers.pop(key)))

    def _renew(self, size: int) -> None:
        """Goes on in a new file, with room for the state, and for `size` bytes and more."""
        frames = list(_snapshot(self.queues))
        used = _JOURNAL.size + sum(_FRAME.size + len(frame) for frame in frames)
        room = used + max(_LEAST_ROOM, 4 * used, 2 * size)
        room = -(-room // disk.PAGE) * disk.PAGE
        number = self.number + 1
        name, temporary = _name(number), f"{_name(number)}.tmp"
        with self._folder.file(temporary, write=True, create=True) as fd:
            disk.allocate(fd, 0, room)
            memory = disk.map_file(fd, 0, room, writable=True)
        view, at = memoryview(memory).cast("B"), _JOURNAL.size
        _JOURNAL.pack_into(view, 0, _MAGIC, number)
        for frame in frames:
            at = _put(view, number, at, frame)
        self._folder.rename(temporary, self._folder, name)
        self._memory, self._view, self._at, self.number = memory, view, at, number
        self.numbers = {key: n for n, key in enumerate(self.queues)}
        self._next_number = len(self.numbers)
        self._remove_until(number - 1)

    def _remove_until(self, number: int) -> None:
        for name in self._folder.names():
            if _OURS.fullmatch(name) and int(name[:20]) <= number:
                self._folder.unlink(name)
