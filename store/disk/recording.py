"""The recorder of disk operations: what the simulator of power cuts builds its images from.

Switched on by the environment variable SILOMQ_DISK_RECORD, which names a folder; `disk` then tells
it each operation that decides what a power cut can take. All processes of a store append to one
file, `events`, each event by one write: their order in the file is their order in time, for every
process. An operation is recorded when it is over, a sync with what was in the file before it began:
what an event says to be durable is durable wherever a reader of the file finds it.

An event is four bytes of length (little-endian) and a MessagePack array of the fields of `Event`.
Pages are named by digest, and a process writes the bytes of a page once for each digest.
"""

from __future__ import annotations

import hashlib
import os

import msgspec

from ...shm._memory import Mapping

EVENTS = "events"
PAGE = 4096
_ZERO = bytes(PAGE)


class Event(msgspec.Struct, array_like=True):
    """One operation on `path` (absolute), or on the file with this `inode`.

    `pages` maps page numbers to digests of their bytes (b"": zeros), `contents` digests to bytes.
    `size` is that of the file, bytes (-1: the same). `began` is where `events` ended when the pages
    were read: who has written behind it knows better. `to` is the target of a rename, or the second
    name of a link; `said` what a test notes.
    """

    what: str
    path: str = ""
    inode: int = 0
    size: int = 0
    pages: dict[int, bytes] = {}
    contents: dict[bytes, bytes] = {}
    began: int = 0
    to: str = ""
    said: bytes = b""


class Recorder:
    """Appends events to `events` in `folder`. Raises OSError: a recording with holes is none."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._out = os.open(f"{folder}/{EVENTS}", flags, 0o640)
        self._written: set[bytes] = set()
        # Mapping objects cannot be referred to weakly; a new one with the number of a dead one is
        # told to `mapped` before anybody syncs it.
        self._mapped: dict[int, tuple[int, str, int]] = {}

    def note(self, event: Event) -> None:
        """Records an event that is over."""
        body = msgspec.msgpack.encode(event)
        frame = len(body).to_bytes(4, "little") + body
        if os.write(self._out, frame) != len(frame):
            raise OSError(f"the recording in {EVENTS} broke off")

    def entry(self, what: str, folder: int, name: str) -> None:
        """A change of the entry `name` in the folder behind a descriptor."""
        self.note(Event(what, f"{_path(folder)}/{name}"))

    def renamed(self, folder: int, name: str, to: int, to_name: str) -> None:
        self.note(Event("rename", f"{_path(folder)}/{name}", to=f"{_path(to)}/{to_name}"))

    def linked(self, folder: int, name: str, to_name: str) -> None:
        self.note(Event("link", f"{_path(folder)}/{name}", to=f"{_path(folder)}/{to_name}"))

    def created(self, folder: int, name: str, fd: int) -> None:
        self.note(Event("create", f"{_path(folder)}/{name}", os.fstat(fd).st_ino))

    def folder_synced(self, folder: int) -> None:
        self.note(Event("sync_folder", _path(folder)))

    def changed(self, fd: int, what: str, start: int = 0, length: int = 0) -> None:
        """A change of the file itself: what the pages of a range, and its size, are now."""
        self.note(self.look(fd, what, start, length))

    def look(self, fd: int, what: str, start: int = 0, length: int = 0) -> Event:
        """An event with the present bytes of the pages that hold a range of a file."""
        began, found = self._position(), os.fstat(fd)
        first = start // PAGE * PAGE
        data = os.pread(fd, start + length - first, first) if length else b""
        if length and len(data) % PAGE:
            data += os.pread(fd, PAGE - len(data) % PAGE, first + len(data))
        event = Event(what, _path(fd), found.st_ino, found.st_size, began=began)
        return self._with_pages(event, first, data)

    def mapped(self, mapping: Mapping, fd: int, offset: int) -> None:
        """Remembers which file a mapping shows, from which position on."""
        self._mapped[id(mapping)] = (os.fstat(fd).st_ino, _path(fd), offset)

    def look_mapped(self, mapping: Mapping, offset: int, length: int) -> Event:
        """The event of an msync of a range, with the bytes of before it."""
        inode, path, base = self._mapped[id(mapping)]
        event = Event("sync_range", path, inode, size=-1, began=self._position())
        first = offset // PAGE * PAGE
        end = min(-(-(offset + length) // PAGE) * PAGE, mapping.length)
        data = bytes(memoryview(mapping)[first:end])
        return self._with_pages(event, base + first, data)

    def look_at_all(self, folder: int) -> list[Event]:
        """What every file below the store's root holds; `folder` is one that lies in the root."""
        root = os.path.dirname(_path(folder))
        self.note(Event("sync_all_begins", root))
        return [event for path in files_below(root) for event in self.look_at(path, "sync")]

    def look_at(self, path: str, what: str) -> list[Event]:
        """An event with all of a file; none if it is gone by now."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return []
        try:
            return [self.look(fd, what, 0, os.fstat(fd).st_size)]
        finally:
            os.close(fd)

    def all_synced(self, folder: int, files: list[Event]) -> None:
        """A syncfs: these files, and every entry that was there when it began."""
        for event in files:
            self.note(event)
        self.note(Event("sync_all", os.path.dirname(_path(folder))))

    def _position(self) -> int:
        return os.fstat(self._out).st_size

    def _with_pages(self, event: Event, start: int, data: bytes) -> Event:
        """The event, with the pages of `data`, which begins at position `start` of its file."""
        for at in range(0, len(data), PAGE):
            page = data[at : at + PAGE].ljust(PAGE, b"\0")
            digest = b"" if page == _ZERO else hashlib.blake2b(page, digest_size=16).digest()
            event.pages[(start + at) // PAGE] = digest
            if digest and digest not in self._written:
                self._written.add(digest)
                event.contents[digest] = page
        return event


def files_below(root: str) -> list[str]:
    """Paths of the regular files in a folder and all folders in it, without following links."""
    found: list[str] = []
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                found += files_below(entry.path)
            elif entry.is_file(follow_symlinks=False):
                found.append(entry.path)
    return found


def _path(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")
