"""The recorder of disk operations. The simulator of power cuts builds its disk images from them.

The environment variable SILOMQ_DISK_RECORD names its folder and enables it. `files.py` then records
each operation that decides which bytes a power cut can take back. All processes of a store append
to one file, `events`, each event with one write. So events stand in the file in their order in
time.

An operation is recorded after it is over. A sync is recorded with the bytes or names that were
there before it began. So where a reader finds an event, what it calls durable is durable. A process
may be killed between an operation and its record. What it did shows in the next sync of the folder
or the file; until then a power cut may take it back anyway.

An event is MARK, four bytes of length (little-endian) and a MessagePack array of the fields of
`Event`. A kill may cut it short, and the next one follows at once: readers look for its MARK.
Digests identify pages, and a process writes the bytes of a page once for each digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import os

import msgspec

from ...shm._memory import Mapping

EVENTS = "events"
MARK = bytes.fromhex("f3a94c17d06be582")
PAGE = 4096
_ZERO = bytes(PAGE)


class Event(msgspec.Struct, array_like=True):
    """One operation on `path` (absolute), or on the file with this `inode`.

    `pages` maps page numbers to digests of their bytes (b"": zeros), `contents` digests to bytes.
    `size` is the file's length in bytes (-1: unchanged). `began` is the length of `events` when the
    pages or names were read: events from there on may hold newer ones. `names` are all names in a
    folder with the inodes of their files, 0 for a folder. `to` is the target of a rename or the
    second name of a link. `said` is a note of a test.
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
    names: dict[str, int] = {}


class Recorder:
    """Appends events to the file `events` in `folder`. Raises OSError if an event cannot be
    written, because a recording with gaps is useless.
    """

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._out = os.open(f"{folder}/{EVENTS}", flags, 0o640)
        self._written: set[bytes] = set()
        # By id, because Mapping objects have no weak references. A new object may get the id of a
        # dead one, but `mapped` replaces its entry before the first sync.
        self._mapped: dict[int, tuple[int, str, int]] = {}

    def note(self, event: Event) -> None:
        """Writes an event whose operation is over. Raises OSError."""
        body = msgspec.msgpack.encode(event)
        frame = MARK + len(body).to_bytes(4, "little") + body
        if os.write(self._out, frame) != len(frame):
            raise OSError(f"the recording in {EVENTS} broke off")

    def entry(self, what: str, folder: int, name: str) -> None:
        """Records a change of the entry `name` in the folder behind a descriptor."""
        self.note(Event(what, f"{_path(folder)}/{name}"))

    def renamed(self, folder: int, name: str, to: int, to_name: str) -> None:
        self.note(Event("rename", f"{_path(folder)}/{name}", to=f"{_path(to)}/{to_name}"))

    def linked(self, folder: int, name: str, to: int, to_name: str) -> None:
        self.note(Event("link", f"{_path(folder)}/{name}", to=f"{_path(to)}/{to_name}"))

    def created(self, folder: int, name: str, fd: int) -> None:
        """Records that a file is there, which was opened and made if it was missing. It is not new
        if a killed process made it and could not record that.
        """
        event = self.look(fd, "create", 0, os.fstat(fd).st_size)
        event.path = f"{_path(folder)}/{name}"
        self.note(event)

    def look_in(self, folder: int) -> Event:
        """The event of a sync of a folder, with its present names: to be called before it."""
        event = Event("sync_folder", _path(folder), began=self._position(), names={})
        with os.scandir(event.path) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                event.names[entry.name] = 0 if is_folder else entry.inode()
        return event

    def changed(self, fd: int, what: str, start: int = 0, length: int = 0) -> None:
        """Records a change of a file: its size, and the bytes of the pages of a range."""
        self.note(self.look(fd, what, start, length))

    def look(self, fd: int, what: str, start: int = 0, length: int = 0) -> Event:
        """An event with the present bytes of the pages that hold a range of a file. It is not
        recorded yet.
        """
        began, found = self._position(), os.fstat(fd)
        first = start // PAGE * PAGE
        data = os.pread(fd, start + length - first, first) if length else b""
        if length and len(data) % PAGE:
            data += os.pread(fd, PAGE - len(data) % PAGE, first + len(data))
        event = Event(what, _path(fd), found.st_ino, found.st_size, began=began)
        return self._with_pages(event, first, data)

    def mapped(self, mapping: Mapping, fd: int, offset: int) -> None:
        """Remembers which file is mapped, and from which position on."""
        self._mapped[id(mapping)] = (os.fstat(fd).st_ino, _path(fd), offset)

    def look_mapped(self, mapping: Mapping, offset: int, length: int) -> Event:
        """The event of an msync of a range, with the present bytes: to be called before it."""
        inode, path, base = self._mapped[id(mapping)]
        event = Event("sync_range", path, inode, size=-1, began=self._position())
        first = offset // PAGE * PAGE
        end = min(-(-(offset + length) // PAGE) * PAGE, mapping.length)
        data = bytes(memoryview(mapping)[first:end])
        return self._with_pages(event, base + first, data)

    def look_at_all(self, folder: int) -> list[Event]:
        """Events with the bytes of every file below the store's root. `folder` lies in the root."""
        root = os.path.dirname(_path(folder))
        self.note(Event("sync_all_begins", root))
        return [event for path in files_below(root) for event in self.look_at(path, "sync")]

    def look_at(self, path: str, what: str) -> list[Event]:
        """An event with all bytes of a file; an empty list if the file has been removed."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return []
        try:
            return [self.look(fd, what, 0, os.fstat(fd).st_size)]
        finally:
            os.close(fd)

    def all_synced(self, folder: int, files: list[Event]) -> None:
        """Records a syncfs: `files` are durable, and all entries that existed when it began."""
        for event in files:
            self.note(event)
        self.note(Event("sync_all", os.path.dirname(_path(folder))))

    def _position(self) -> int:
        return os.fstat(self._out).st_size

    def _with_pages(self, event: Event, start: int, data: bytes) -> Event:
        """Adds the pages of `data` to an event; `data` begins at position `start` of its file."""
        for at in range(0, len(data), PAGE):
            page = data[at : at + PAGE].ljust(PAGE, b"\0")
            digest = b"" if page == _ZERO else hashlib.blake2b(page, digest_size=16).digest()
            event.pages[(start + at) // PAGE] = digest
            if digest and digest not in self._written:
                self._written.add(digest)
                event.contents[digest] = page
        return event


def files_below(root: str) -> list[str]:
    """The paths of the regular files in a folder and in all folders below it. Links are not
    followed. A folder that is removed meanwhile has none.
    """
    found: list[str] = []
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    found += files_below(entry.path)
            elif entry.is_file(follow_symlinks=False):
                found.append(entry.path)
    return found


def _path(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")
