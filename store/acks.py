"""Ack files: how far one member of a consumer group is in its queues.

The registry makes one for each assignment and hands its descriptor to the member, which maps it and
writes down what it has acknowledged: an acknowledgement is a store to memory, and the page cache
keeps it whoever is killed. The registry reads the file (never maps it: a member could shorten it)
when queues change hands, to save `consumerOffset.json`, and, if everything was killed, at the next
start. Numbers of files ascend, so the newest that names a queue is the one to believe.

A queue's *offset* is its first message that is not acknowledged. Messages behind it that are stand
in its *window*, each at queue offset modulo window as queue offset + 1: a word says itself which
message it speaks of, so nothing is ever cleared.

Layout ack:

======  ====  ====  ============  =======
offset  size  type  field         meaning
======  ====  ====  ============  =======
0       8     u64   magic         "SILOACK1"
8       8     u64   count         queues
16      8     u64   window        words of each queue's window
24      8     u64   about_length  bytes of JSON from offset 64 on: who, and which queues in order
32      8     u64   offsets_at    position of the queues' offsets, `count` words
40      8     u64   windows_at    position of the windows, `count` × `window` words
======  ====  ====  ============  =======
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from . import disk
from .disk import Folder
from .errors import Corrupt

MAGIC: Final = int.from_bytes(b"SILOACK1", "little")
ACK: dict[str, tuple[int, int]] = {
    name: (8 * i, 8)
    for i, name in enumerate(
        ("magic", "count", "window", "about_length", "offsets_at", "windows_at")
    )
}
LAYOUTS = {"ack": ACK}
_HEADER = struct.Struct("<6Q")
_ABOUT_AT: Final = 64
_MOST_WINDOW: Final = 2048
_LEAST_WINDOW: Final = 64
_WINDOW_WORDS: Final = 1 << 21  # of all queues of a member together: 16 MiB

Queue = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a group is in a queue: all below `offset` is acknowledged, and all in `beyond`."""

    offset: int
    beyond: frozenset[int] = frozenset()


class About(msgspec.Struct, frozen=True):
    """Whose ack file it is. `filters` is topic -> (kind, expression)."""

    group: str
    session: int
    model: str
    instance: str
    filters: dict[str, tuple[str, str]]
    queues: list[Queue]


def window_for(queues: int) -> int:
    """Messages of one queue that may be acknowledged out of order."""
    return max(_LEAST_WINDOW, min(_MOST_WINDOW, _WINDOW_WORDS // max(1, queues)))


def _name(number: int) -> str:
    return f"{number:020d}"


def numbers(folder: Folder) -> list[int]:
    """The ack files there are, oldest first."""
    return sorted(int(name) for name in folder.names() if len(name) == 20 and name.isdigit())


def create(folder: Folder, number: int, about: About, start: Iterable[Progress]) -> None:
    """Makes the file `number`, whole or not at all; `start` goes with `about.queues`. Raises
    OSError (ENOSPC).
    """
    text = msgspec.json.encode(about)
    count, window = len(about.queues), window_for(len(about.queues))
    offsets_at = (_ABOUT_AT + len(text) + 63) // 64 * 64
    windows_at = (offsets_at + 8 * count + 63) // 64 * 64
    header = _HEADER.pack(MAGIC, count, window, len(text), offsets_at, windows_at)
    temporary = f"{_name(number)}.tmp"
    with folder.file(temporary, write=True, create=True) as fd:
        disk.allocate(fd, 0, windows_at + 8 * count * window)
        disk.write_at(fd, header.ljust(_ABOUT_AT, b"\0") + text, 0)
        for i, progress in enumerate(start):
            disk.write_at(fd, struct.pack("<Q", progress.offset), offsets_at + 8 * i)
            for offset in progress.beyond:
                at = windows_at + 8 * (i * window + offset % window)
                disk.write_at(fd, struct.pack("<Q", offset + 1), at)
    folder.rename(temporary, folder, _name(number))


def remove(folder: Folder, number: int) -> None:
    """Removes the file `number`."""
    folder.unlink(_name(number))


def _parse(data: bytes, where: str) -> tuple[tuple[int, ...], bytes]:
    """(header fields, JSON) of the first bytes of a file. Raises Corrupt."""
    if len(data) < _ABOUT_AT:
        raise Corrupt(where, 0, "an ack file has a header of 64 bytes")
    head = _HEADER.unpack_from(data)
    magic, count, window, length, offsets_at, windows_at = head
    if (
        magic != MAGIC
        or window < 1
        or _ABOUT_AT + length > offsets_at
        or offsets_at + 8 * count > windows_at
        or offsets_at % 8
        or windows_at % 8
    ):
        raise Corrupt(where, 0, "this is not the header of an ack file")
    return head, data[_ABOUT_AT : _ABOUT_AT + length]


def _about(text: bytes, count: int, where: str) -> About:
    try:
        about = msgspec.json.decode(text, type=About)
    except msgspec.DecodeError as error:
        raise Corrupt(where, _ABOUT_AT, f"no description of a member: {error}") from error
    if len(about.queues) != count:
        raise Corrupt(where, _ABOUT_AT, f"{len(about.queues)} queues described, {count} counted")
    return about


def _beyond(window: memoryview, offset: int) -> set[int]:
    """Messages behind `offset` that a window says are acknowledged. Most windows say nothing, and
    there are thousands: they cost a comparison.
    """
    if window.tobytes() == bytes(window.nbytes):
        return set()
    high = offset + len(window)
    return {word - 1 for word in window.tolist() if offset < word <= high}


class AckReader:
    """The registry's view of one ack file, by reading. Raises Corrupt, FileNotFoundError."""

    def __init__(self, folder: Folder, number: int) -> None:
        self.number = number
        self._folder = folder
        self._where = f"{folder.path}/{_name(number)}"
        with folder.file(_name(number)) as fd:
            size = disk.size_of(fd)
            data = disk.read_at(fd, min(size, 4096), 0)
            head, text = _parse(data, self._where)
            _, self._count, self._window, length, self._offsets_at, self._windows_at = head
            if self._windows_at + 8 * self._count * self._window > size:
                raise Corrupt(self._where, size, "the file is shorter than its header says")
            if len(text) < length:
                text = disk.read_at(fd, length, _ABOUT_AT)
        self.about = _about(text, self._count, self._where)

    def _words(self, fd: int, at: int, count: int) -> memoryview:
        data = disk.read_at(fd, 8 * count, at)
        if len(data) != 8 * count:
            raise Corrupt(self._where, at, "the file was shortened")
        return memoryview(data).cast("Q")

    def offsets(self) -> list[int]:
        """The queues' offsets, in the order of `about.queues`."""
        with self._folder.file(_name(self.number)) as fd:
            return self._words(fd, self._offsets_at, self._count).tolist()

    def progress(self) -> dict[Queue, Progress]:
        """How far the member is in each queue. The offsets are read first: what a window says of
        messages that were behind them stays true.
        """
        found: dict[Queue, Progress] = {}
        with self._folder.file(_name(self.number)) as fd:
            offsets = self._words(fd, self._offsets_at, self._count)
            for i, queue in enumerate(self.about.queues):
                at = self._windows_at + 8 * i * self._window
                words = self._words(fd, at, self._window)
                found[queue] = Progress(offsets[i], frozenset(_beyond(words, offsets[i])))
        return found


class AckWriter:
    """A member's own ack file, given by descriptor `fd` (which stays the caller's)."""

    def __init__(self, fd: int) -> None:
        head, text = _parse(disk.read_at(fd, 4096, 0), "the ack file")
        _, count, self.window, length, offsets_at, windows_at = head
        if len(text) < length:
            text = disk.read_at(fd, length, _ABOUT_AT)
        self.about = _about(text, count, "the ack file")
        self._mapping = disk.map_file(fd, 0, windows_at + 8 * count * self.window, writable=True)
        self._words = memoryview(self._mapping).cast("B").cast("Q")
        self._offsets_at = offsets_at // 8
        self._windows_at = windows_at // 8

    def offset(self, i: int) -> int:
        return self._words[self._offsets_at + i]

    def beyond(self, i: int) -> set[int]:
        """Messages of queue `i` behind its offset that are acknowledged."""
        at = self._windows_at + i * self.window
        return _beyond(self._words[at : at + self.window], self.offset(i))

    def mark(self, i: int, queue_offset: int) -> None:
        """Message `queue_offset` of queue `i`, less than `window` behind its offset, is
        acknowledged.
        """
        self._words[self._windows_at + i * self.window + queue_offset % self.window] = (
            queue_offset + 1
        )

    def move(self, i: int, offset: int) -> None:
        """All messages of queue `i` below `offset` are acknowledged."""
        self._words[self._offsets_at + i] = offset
