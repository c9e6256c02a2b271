"""Ack files: how far one member of a consumer group is in its queues.

The registry makes a file for each assignment and hands its descriptor to the member. The member
maps the file and writes down what it has acknowledged. An acknowledgement is a store to memory, and
the page cache keeps it whichever process is killed. The registry reads the file and never maps it,
because a member could shorten it. It reads when queues change hands, to save `consumerOffset.json`,
and at the next start if the whole store was killed. The numbers of files ascend: the newest file
that names a queue tells how far its group is.

A file is nothing but words, because its member may write anything into it. Whose file it is and
which queues it speaks of stands beside it in NUMBER.json, which the member can only read (`About`).
The file has two parts. The first holds an entry of the layout `offsets` for each queue, in the
order of `About.queues`. The second begins at the next multiple of 64 bytes. It holds, queue by
queue, as many entries of the layout `window` as `window_for` says. Words are little-endian.

Layout offsets:

======  ====  ====  ============  =======
offset  size  type  field         meaning
======  ====  ====  ============  =======
0       8     u64   offset        member: the queue's first message that is not acknowledged
======  ====  ====  ============  =======

Layout window:

======  ====  ====  ============  =======
offset  size  type  field         meaning
======  ====  ====  ============  =======
0       8     u64   acknowledged  member: 1 + queue offset of a message behind `offset`
======  ====  ====  ============  =======

A message behind the queue's offset has its entry at queue offset modulo window. The entry says
itself which message it speaks of, so an old one is told apart and nothing is ever cleared.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from ..disk import files as disk
from ..disk.files import Folder
from ..errors import Corrupt

OFFSETS: Final = {"offset": (0, 8)}
WINDOW: Final = {"acknowledged": (0, 8)}
LAYOUTS: Final = {"offsets": OFFSETS, "window": WINDOW}
#: Layout -> field -> writer. The registry writes the first values before the member has the file.
WRITERS: Final = {"offsets": {"offset": "member"}, "window": {"acknowledged": "member"}}
_WORD: Final = struct.Struct("<Q")
_LINE: Final = 64 // _WORD.size  # words: the windows begin at a multiple of it
_MOST_WINDOW: Final = 2048
_LEAST_WINDOW: Final = 64
_WINDOW_WORDS: Final = 1 << 21  # of all queues of a member together: 16 MiB
assert OFFSETS["offset"] == WINDOW["acknowledged"] == (0, _WORD.size)

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


def _windows_at(queues: int) -> int:
    """Where the windows begin, in words."""
    return -(-queues // _LINE) * _LINE


def _size(queues: int) -> int:
    """Length of a file, bytes; one page for a member without queues."""
    return max(disk.PAGE, _WORD.size * (_windows_at(queues) + queues * window_for(queues)))


def _name(number: int) -> str:
    return f"{number:020d}"


def numbers(folder: Folder) -> list[int]:
    """The numbers of the ack files, oldest first. Files that a killed registry left half-made are
    removed.
    """
    names = folder.names()
    whole = {name[:20] for name in names if len(name) == 25 and name.endswith(".json")}
    for name in names:
        if name[:20] not in whole or name.endswith(".tmp"):
            folder.unlink(name)
    return sorted(int(name) for name in whole)


def create(folder: Folder, number: int, about: About, start: Iterable[Progress]) -> None:
    """Makes the file `number`, whole or not at all. `start` has the first progress of each of
    `about.queues`. Raises OSError (ENOSPC).
    """
    count = len(about.queues)
    window, windows_at = window_for(count), _windows_at(count)
    with folder.file(_name(number), write=True, create=True) as fd:
        disk.allocate(fd, 0, _size(count))
        for i, progress in enumerate(start):
            disk.write_at(fd, _WORD.pack(progress.offset), _WORD.size * i)
            for offset in progress.beyond:
                at = windows_at + i * window + offset % window
                disk.write_at(fd, _WORD.pack(offset + 1), _WORD.size * at)
    with folder.file(f"{_name(number)}.tmp", write=True, create=True) as fd:
        disk.write_at(fd, msgspec.json.encode(about), 0)
    folder.rename(f"{_name(number)}.tmp", folder, f"{_name(number)}.json")


def remove(folder: Folder, number: int) -> None:
    """Removes the file `number`."""
    folder.unlink(f"{_name(number)}.json")
    folder.unlink(_name(number))


def hand_out(folder: Folder, number: int) -> tuple[int, int]:
    """Two descriptors for the member: of the file `number` to write, of its `About` to read. The
    caller closes them. Raises OSError.
    """
    with (
        folder.file(_name(number), write=True) as words,
        folder.file(f"{_name(number)}.json") as text,
    ):
        return os.dup(words), os.dup(text)


def _read_about(fd: int, where: str) -> About:
    try:
        return msgspec.json.decode(disk.read_at(fd, disk.size_of(fd), 0), type=About)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(where, 0, f"no description of a member: {error}") from error


def _beyond(window: memoryview, offset: int) -> set[int]:
    """Messages behind `offset` that a window says are acknowledged. There may be thousands of
    windows, and most are empty: an empty one costs only a comparison.
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
        with folder.file(f"{_name(number)}.json") as fd:
            self.about = _read_about(fd, f"{self._where}.json")
        with folder.file(_name(number)) as fd:
            self._words(fd, 0, 0)

    def _words(self, fd: int, at: int, count: int) -> memoryview:
        """`count` words from word `at` on."""
        if disk.size_of(fd) < _size(len(self.about.queues)):
            raise Corrupt(self._where, disk.size_of(fd), "the file was shortened")
        return memoryview(disk.read_at(fd, _WORD.size * count, _WORD.size * at)).cast("Q")

    def offsets(self) -> list[int]:
        """The queues' offsets, in the order of `about.queues`."""
        with self._folder.file(_name(self.number)) as fd:
            return self._words(fd, 0, len(self.about.queues)).tolist()

    def progress(self) -> dict[Queue, Progress]:
        """How far the member is in each queue. The offsets are read first: if the member moves one
        meanwhile, what the window says of messages behind the older offset is still true.
        """
        count = len(self.about.queues)
        window, windows_at = window_for(count), _windows_at(count)
        found: dict[Queue, Progress] = {}
        with self._folder.file(_name(self.number)) as fd:
            offsets = self._words(fd, 0, count)
            for i, queue in enumerate(self.about.queues):
                words = self._words(fd, windows_at + i * window, window)
                found[queue] = Progress(offsets[i], frozenset(_beyond(words, offsets[i])))
        return found


class AckWriter:
    """A member's own ack file, from the descriptors of `hand_out`, which stay the caller's."""

    def __init__(self, words: int, text: int) -> None:
        self.about = _read_about(text, "the ack file")
        count = len(self.about.queues)
        self.window = window_for(count)
        mapping = disk.map_file(words, 0, _size(count), writable=True)
        self._words = memoryview(mapping).cast("B").cast("Q")
        self._windows_at = _windows_at(count)

    def offset(self, i: int) -> int:
        """The first message of queue `i` that is not acknowledged."""
        return self._words[i]

    def beyond(self, i: int) -> set[int]:
        """Messages of queue `i` behind its offset that are acknowledged."""
        at = self._windows_at + i * self.window
        return _beyond(self._words[at : at + self.window], self.offset(i))

    def mark(self, i: int, queue_offset: int) -> None:
        """Message `queue_offset` of queue `i`, less than `window` behind its offset, is
        acknowledged.
        """
        at = self._windows_at + i * self.window + queue_offset % self.window
        self._words[at] = queue_offset + 1

    def move(self, i: int, offset: int) -> None:
        """All messages of queue `i` below `offset` are acknowledged."""
        self._words[i] = offset
