"""A disk as a power cut finds it: what is durable, what may be, and images of both.

Built from the events of a recording (`silomq.store.disk.recording`), which name every operation in
its order. The disk promises what POSIX does and no more: a file's bytes and size after a sync of
the file, an entry after a sync of its folder, all of both after syncfs. Whatever else was written
by the time of the cut is there or is not, page by page and entry by entry.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import msgspec

from silomq.store.disk.recording import EVENTS, MARK, PAGE, Event

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Operations after which a file's bytes are durable. "sync_ahead" is allocate's, of the pages that
#: append may write and flush may sync meanwhile.
SYNCS = ("sync", "sync_range", "sync_ahead")
FOLDER = 0  # an entry that is no file: there is no such inode
SECTOR = 512
_ZERO = bytes(PAGE)


def events(folder: Path) -> Iterator[tuple[int, Event]]:
    """The events of a recording, each with the position behind it, as `Event.began` counts: who
    began there knew of it, and who began before did not. An unfinished one is left out.
    """
    data = (folder / EVENTS).read_bytes()
    decoder = msgspec.msgpack.Decoder(Event)
    head = len(MARK) + 4
    at = data.find(MARK)
    while at >= 0:
        end = at + head + int.from_bytes(data[at + len(MARK) : at + head], "little")
        if end == len(data) or data.startswith(MARK, end):
            yield end, decoder.decode(memoryview(data)[at + head : end])
            at = end if end < len(data) else -1
        else:  # its process was killed
            at = data.find(MARK, at + 1)


@dataclass
class File:
    """A file from its creation on, an event that ends at position `made_at`. Each page has the
    versions that may be on the disk, the durable one first.

    Two processes that read a page at the same time may record it in another order than they read
    it in. What may be older than a sync is therefore left out, except by flush itself: what it
    records is at least what it promises.
    """

    made_at: int
    pages: dict[int, list[bytes]] = field(default_factory=dict)
    synced_at: dict[int, int] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=lambda: [0])  # the durable one first

    def see(self, event: Event) -> None:
        """Pages as they were in memory: on the disk or not."""
        for page, digest in event.pages.items():
            versions = self.pages.setdefault(page, [b""])
            if versions[-1] != digest and self.synced_at.get(page, self.made_at) <= event.began:
                versions.append(digest)

    def sync(self, at: int, event: Event) -> None:
        """Pages that are durable now."""
        for page, digest in event.pages.items():
            last = self.synced_at.get(page, self.made_at)
            if event.what == "sync_range" or last <= event.began:
                self.pages[page] = [digest]
                self.synced_at[page] = at

    def grow(self, size: int, *, durable: bool) -> None:
        if self.sizes[-1] != size:
            self.sizes.append(size)
        if durable:
            del self.sizes[:-1]


class Disk:
    """The files below `root` as events make them. `said` are what tests noted, in order.

    With `drop` the events of that kind are not believed: a disk that lies.
    """

    def __init__(self, root: Path, *, drop: str = "") -> None:
        self.root = os.path.realpath(root)
        self.drop = drop
        self.files: dict[int, File] = {}  # by number: an inode may be used again
        self.inodes: dict[int, int] = {}
        self.contents: dict[bytes, bytes] = {b"": _ZERO}
        self.entries: dict[str, int] = {}
        self.durable: dict[str, int] = {}
        self.begun: dict[str, int] = {}
        self.changed_at: dict[str, int] = {}  # where the last event of a name ends
        self.said: list[bytes] = []

    @classmethod
    def at(cls, root: Path, recording: Path, cut: int, *, drop: str = "") -> Self:
        """The disk after the first `cut` events."""
        disk = cls(root, drop=drop)
        for number, (at, event) in enumerate(events(recording)):
            if number == cut:
                break
            disk.apply(at, event)
        return disk

    def apply(self, at: int, event: Event) -> None:
        self.contents.update(event.contents)
        if event.what == self.drop:
            # What was written stays written; it is only not durable.
            event.what = "seen" if event.pages else "nothing"
        path, to = (name.removeprefix(self.root).lstrip("/") for name in (event.path, event.to))
        match event.what:
            case "said":
                self.said.append(event.said)
            case "mkdir":
                self.entries[path] = FOLDER
            case "create":
                self._created(at, path, event)
            case "unlink":
                self._unlink(path)
            case "link":
                self._link(path, to)
            case "rename":
                self._rename(path, to)
            case "sync_folder":
                self._folder_synced(at, path, event)
            case "sync_all_begins":
                self.begun = dict(self.entries)
            case "sync_all":
                self.durable = dict(self.begun)
            case _:
                self._file(at, path, event)
        if event.what in {"mkdir", "create", "unlink", "link", "rename"}:
            self.changed_at[path] = self.changed_at[to] = at

    def _link(self, path: str, to: str) -> None:
        if path in self.entries:  # or a sync of the folder will show it
            self.entries[to] = self.entries[path]

    def _unlink(self, path: str) -> None:
        gone = self.entries.pop(path, None)
        if gone not in self.entries.values():
            self.inodes = {inode: n for inode, n in self.inodes.items() if n != gone}

    def _rename(self, path: str, to: str) -> None:
        if path not in self.entries or self.entries.get(to) == self.entries[path]:
            return  # a sync of the folder has shown it already, or two names of one file: both stay
        self._unlink(to)
        self.entries[to] = self.entries.pop(path)

    def _folder_synced(self, at: int, folder: str, event: Event) -> None:
        """The names that the folder had when the sync began are durable, and those that it had not
        are durably gone. Killed processes may have made or removed some without a record.
        """
        listed = {f"{folder}/{name}".lstrip("/"): inode for name, inode in event.names.items()}
        inside = [p for p in self.entries | self.durable if p and os.path.dirname(p) == folder]
        for path in inside:
            if path not in listed:
                if self.changed_at.get(path, 0) <= event.began:
                    self._unlink(path)
                if self.durable.pop(path, None) == FOLDER:
                    self._forget_below(path)
        for path, inode in listed.items():
            if path not in self.entries and self.changed_at.get(path, 0) <= event.began:
                self._appear(at, path, inode)
            if path in self.entries:
                self.durable[path] = self.entries[path]

    def _forget_below(self, folder: str) -> None:
        """What was in a folder that is durably gone is not in the next one of that name."""
        for path in [path for path in self.durable if path.startswith(f"{folder}/")]:
            del self.durable[path]

    def _appear(self, at: int, path: str, inode: int) -> None:
        """A name that no record tells of."""
        if inode == FOLDER:
            self.entries[path] = FOLDER
        elif inode in self.inodes:
            number = self.inodes[inode]
            for before in [name for name, known in self.entries.items() if known == number]:
                del self.entries[before]
            self.entries[path] = number
        else:
            self._make(at, path, inode)

    def _created(self, at: int, path: str, event: Event) -> None:
        number = self.inodes.get(event.inode)
        if number is None or self.entries.get(path) != number:
            self._make(at, path, event.inode)
        self._file(at, path, event)

    def _make(self, at: int, path: str, inode: int) -> None:
        number = len(self.files) + 1
        self.files[number] = File(at)
        self.inodes[inode] = self.entries[path] = number

    def _file(self, at: int, path: str, event: Event) -> None:
        number = self.inodes.get(event.inode)
        if number is None:  # it was looked at before its creation was noted
            return
        file = self.files[number]
        if event.what in SYNCS:
            file.sync(at, event)
        else:
            file.see(event)
        size = file.sizes[-1] if event.size < 0 else event.size
        file.grow(size, durable=event.what in SYNCS)

    # -- images

    def image(self, rng: random.Random, folder: Path) -> None:
        """Writes into `folder` a state that a power cut may leave; `rng` chooses which."""
        keep = _taste(rng)
        entries: dict[str, int] = {}
        for path in sorted(self.entries | self.durable):
            old, new = self.durable.get(path), self.entries.get(path)
            inode = old if old == new else (new if keep(path) else old)
            if inode is not None:
                entries[path] = inode
        for path, inode in entries.items():
            parents = path.split("/")[:-1]
            if all("/".join(parents[: i + 1]) in entries for i in range(len(parents))):
                if inode == FOLDER:
                    (folder / path).mkdir()
                else:
                    self._write(rng, keep, self.files[inode], folder / path)

    def _write(
        self, rng: random.Random, keep: Callable[[str], bool], file: File, path: Path
    ) -> None:
        size = rng.choice(file.sizes) if not keep(str(path)) else file.sizes[-1]
        loose = [page for page, versions in file.pages.items() if len(versions) > 1]
        torn = max(loose) if loose and rng.random() < 0.5 else -1
        with path.open("wb") as out:
            out.truncate(size)
            for page, versions in file.pages.items():
                digest = versions[0]
                if len(versions) > 1 and keep(str(path)):
                    digest = versions[-1] if rng.random() < 0.8 else rng.choice(versions)
                data = self.contents[digest]
                if page == torn:
                    data = self._tear(rng, versions)
                if data != _ZERO:
                    os.pwrite(out.fileno(), data[: max(0, size - page * PAGE)], page * PAGE)

    def _tear(self, rng: random.Random, versions: list[bytes]) -> bytes:
        """A page of which only some sectors were written."""
        old, new = self.contents[versions[0]], self.contents[versions[-1]]
        sectors = [
            (new if rng.random() < 0.5 else old)[at : at + SECTOR] for at in range(0, PAGE, SECTOR)
        ]
        return b"".join(sectors)

    def loose_pages(self) -> int:
        """Pages whose fate is open."""
        return sum(len(v) > 1 for file in self.files.values() for v in file.pages.values())


def _taste(rng: random.Random) -> Callable[[str], bool]:
    """How much of what is not durable got through: nothing, all, each piece by itself, or whole
    files and no others.
    """
    share = rng.choice((0.0, 0.1, 0.5, 0.5, 0.9, 1.0))
    if rng.random() < 0.7:
        return lambda _path: rng.random() < share
    chosen: dict[str, bool] = {}
    return lambda path: chosen.setdefault(path, rng.random() < share)
