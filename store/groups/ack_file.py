"""Ack files: how far one member of a consumer group is in its queues.

The registry makes a file for each assignment and passes its descriptor to the member. The member
maps the file and stores its acknowledgements there; the page cache keeps them whichever process is
killed. The registry never maps the file, because a member could shorten it. It reads the file when
queues are assigned to another member, to save `consumerOffset.json`, and at the next start if the
whole store was killed. The numbers of files ascend: the newest file that has a queue says how far
the group is in it.

A file holds only numbers, because its member may write anything into it. Its member and queues are
described in NUMBER.json beside it (`About`), which the member can only read. The file has two
parts. The first holds an entry of the layout `offsets` for each queue, in the order of
`About.queues`. The second begins at the next multiple of 64 bytes. For each queue it holds as many
entries of the layout `window` as `window_for` says. Words are little-endian.

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

A message behind the queue's offset has its entry at queue offset modulo window. Each entry holds
the queue offset of its message. So a reader recognises old entries, and no entry need be cleared.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import time
from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from ..disk import files as disk
from ..disk.files import Folder
from ..errors import Corrupt

#: In `silomq/`.
FOLDER: Final = "groups"
OFFSETS: Final = {"offset": (0, 8)}
WINDOW: Final = {"acknowledged": (0, 8)}
LAYOUTS: Final = {"offsets": OFFSETS, "window": WINDOW}
#: Layout -> field -> writer. The registry writes the first values before the member has the file.
WRITERS: Final = {"offsets": {"offset": "member"}, "window": {"acknowledged": "member"}}
_OURS: Final = re.compile(r"0[0-9]{19}(?:\.json|\.tmp)?")
_WORD: Final = struct.Struct("<Q")
_LINE: Final = 64 // _WORD.size  # words: the windows begin at a multiple of it
_MOST_WINDOW: Final = 2048
_LEAST_WINDOW: Final = 64
_WINDOW_WORDS: Final = 1 << 21  # of all queues of a member together: 16 MiB
assert OFFSETS["offset"] == WINDOW["acknowledged"] == (0, _WORD.size)

#: The model of a file that a broker has for the members of a group that it serves. These commit
#: offsets, and acknowledge nothing behind them.
KEPT: Final = "kept"

#: RocketMQ's offsets are signed.
MOST_OFFSET: Final = 2**63 - 1

Queue = tuple[str, int]


class Progress(msgspec.Struct, frozen=True):
    """How far a group is in a queue: the messages below `offset` and those in `beyond` are
    acknowledged. All are queue offsets.
    """

    offset: int
    beyond: frozenset[int] = frozenset()


class About(msgspec.Struct, frozen=True):
    """The member and the queues of an ack file. `filters` is topic -> (kind, expression).

    A file of the model KEPT names the client ids of members on the network, and in `has` the queues
    that they have beside members of other kinds; None stands for all. `resets` are queues whose
    offset was set: the offset, and the number of the file that set it. One with a file below that
    number must not go on from there.
    """

    group: str
    session: Annotated[int, Meta(ge=0, le=MOST_OFFSET)]
    model: str
    instance: str
    filters: dict[str, tuple[str, str]]
    queues: list[tuple[str, Annotated[int, Meta(ge=0, le=2**31 - 1)]]]
    clients: list[str] = []
    has: list[tuple[str, Annotated[int, Meta(ge=0, le=2**31 - 1)]]] | None = None
    resets: list[tuple[str, int, int, int]] = []


def window_for(queues: int, model: str = "") -> int:
    """The number of entries of each queue's window, for a member with so many queues: how far
    behind the queue's offset a message can be acknowledged. Members by the network have none.
    """
    if model == KEPT:
        return 0
    return max(_LEAST_WINDOW, min(_MOST_WINDOW, _WINDOW_WORDS // max(1, queues)))


def _windows_at(queues: int) -> int:
    """The position of the first window, in words."""
    return -(-queues // _LINE) * _LINE


def _size(queues: int, window: int) -> int:
    """Length of a file, bytes; one page for a member without queues."""
    return max(disk.PAGE, _WORD.size * (_windows_at(queues) + queues * window))


def _name(number: int) -> str:
    return f"{number:020d}"


def numbers(folder: Folder) -> list[int]:
    """The numbers of the ack files, oldest first. Files that a killed registry left half-made are
    removed. Names that no registry gives are left alone.
    """
    names = folder.names()
    ours = {name for name in names if _OURS.fullmatch(name)}
    whole = {name for name in ours if f"{name}.json" in ours}
    for name in ours:
        if name[:20] not in whole or name.endswith(".tmp"):
            _set_aside(folder, name)
    return sorted(map(int, whole))


def _set_aside(folder: Folder, name: str) -> None:
    """Removes a file. What is no file stays, as `NAME.bad-TIME` (epoch ms)."""
    try:
        folder.unlink(name)
    except FileNotFoundError:
        return
    except OSError:
        folder.rename(name, folder, f"{name}.bad-{time.time_ns() // 1_000_000}")


def set_aside(folder: Folder, number: int) -> None:
    """Renames the file `number` and its `.json`, which cannot be used, to `NAME.bad-TIME`. Raises
    OSError.
    """
    for name in (f"{_name(number)}.json", _name(number)):
        with contextlib.suppress(FileNotFoundError):
            folder.rename(name, folder, f"{name}.bad-{time.time_ns() // 1_000_000}")


def create(folder: Folder, number: int, about: About, start: Iterable[Progress]) -> None:
    """Makes the file `number`. It exists once its `.json` has its name; `numbers` removes what a
    crash before that left. `start` is the initial progress in each of `about.queues`. Raises
    OSError (ENOSPC).
    """
    count = len(about.queues)
    window, windows_at = window_for(count, about.model), _windows_at(count)
    with folder.file(_name(number), write=True, create=True) as fd:
        disk.allocate(fd, 0, _size(count, window))
        for i, progress in enumerate(start):
            disk.write_at(fd, _WORD.pack(progress.offset), _WORD.size * i)
            for offset in progress.beyond if window else ():
                at = windows_at + i * window + offset % window
                disk.write_at(fd, _WORD.pack(offset + 1), _WORD.size * at)
    with folder.file(f"{_name(number)}.tmp", write=True, create=True) as fd:
        disk.write_at(fd, msgspec.json.encode(about), 0)
    folder.rename(f"{_name(number)}.tmp", folder, f"{_name(number)}.json")


def remove(folder: Folder, number: int) -> None:
    """Removes the file `number` and its `.json`. Raises OSError."""
    folder.unlink(f"{_name(number)}.json")
    folder.unlink(_name(number))


def hand_out(folder: Folder, number: int) -> tuple[int, int]:
    """Two descriptors for the member: one to write the file `number`, one to read its `About`. The
    caller closes them. Raises OSError.
    """
    with (
        folder.file(_name(number), write=True) as words,
        folder.file(f"{_name(number)}.json") as text,
    ):
        first = os.dup(words)
        try:
            return first, os.dup(text)
        except OSError:
            os.close(first)
            raise


def _read_about(fd: int, where: str) -> About:
    try:
        return msgspec.json.decode(disk.read_at(fd, disk.size_of(fd), 0), type=About)
    except (ValueError, RecursionError) as error:  # msgspec's own error is a ValueError
        raise Corrupt(where, 0, f"no description of a member: {error}") from error


def _beyond(window: memoryview, offset: int) -> set[int]:
    """The queue offsets behind `offset` that are acknowledged in a window. There may be thousands
    of windows, most of them empty: an empty one costs only a comparison.
    """
    if window.tobytes() == bytes(window.nbytes):
        return set()
    high = offset + len(window)
    return {word - 1 for word in window.tolist() if offset < word <= high}


class AckReader:
    """Reads one ack file, for the registry. Raises Corrupt if the file was shortened or its
    description is unreadable, FileNotFoundError.
    """

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
        queues = len(self.about.queues)
        if disk.size_of(fd) < _size(queues, window_for(queues, self.about.model)):
            raise Corrupt(self._where, disk.size_of(fd), "the file was shortened")
        return memoryview(disk.read_at(fd, _WORD.size * count, _WORD.size * at)).cast("Q")

    def offsets(self) -> list[int]:
        """The queues' offsets, in the order of `about.queues`. The member may have written any
        number; one that is no queue offset becomes the greatest one.
        """
        with self._folder.file(_name(self.number)) as fd:
            return self._offsets(fd)

    def _offsets(self, fd: int) -> list[int]:
        words = self._words(fd, 0, len(self.about.queues)).tolist()
        return [min(word, MOST_OFFSET) for word in words]

    def progress(self) -> dict[Queue, Progress]:
        """How far the member is in each queue. The offsets are read first. If the member moves one
        meanwhile, the window's acknowledgements behind the older offset still hold.
        """
        count = len(self.about.queues)
        window, windows_at = window_for(count, self.about.model), _windows_at(count)
        found: dict[Queue, Progress] = {}
        with self._folder.file(_name(self.number)) as fd:
            offsets = self._offsets(fd)
            for i, queue in enumerate(self.about.queues):
                words = self._words(fd, windows_at + i * window, window)
                found[queue] = Progress(offsets[i], frozenset(_beyond(words, offsets[i])))
        return found


class AckWriter:
    """A member's own ack file, mapped from the descriptors of `hand_out`. The caller closes them.
    Raises Corrupt, OSError.
    """

    def __init__(self, words: int, text: int) -> None:
        self.about = _read_about(text, "the ack file")
        count = len(self.about.queues)
        self.window = window_for(count, self.about.model)
        mapping = disk.map_file(words, 0, _size(count, self.window), writable=True)
        self._words = memoryview(mapping).cast("B").cast("Q")
        self._windows_at = _windows_at(count)

    def offset(self, i: int) -> int:
        """The queue offset of the first message of queue `i` that is not acknowledged."""
        return self._words[i]

    def beyond(self, i: int) -> set[int]:
        """The queue offsets behind that of queue `i` whose messages are acknowledged."""
        at = self._windows_at + i * self.window
        return _beyond(self._words[at : at + self.window], self.offset(i))

    def mark(self, i: int, queue_offset: int) -> None:
        """Acknowledges the message at `queue_offset` of queue `i`, less than `window` behind the
        queue's offset.
        """
        at = self._windows_at + i * self.window + queue_offset % self.window
        self._words[at] = queue_offset + 1

    def move(self, i: int, offset: int) -> None:
        """Acknowledges all messages of queue `i` below the queue offset `offset`."""
        self._words[i] = offset
