"""The folder of a store's backups: its mark, its lock, and the backups in it."""

from __future__ import annotations

import calendar
import contextlib
import fcntl
import os
import re
import time
from typing import TYPE_CHECKING, Final, Self

import msgspec

from ...store.disk.copying import lies_in
from ...store.disk.files import Folder, exists
from ...store.disk.paths import CUT_OFF
from ...store.disk.replacing import replace_file
from ...store.errors import Corrupt, StoreError
from ..raw.files import BadInput

if TYPE_CHECKING:
    from pathlib import Path

#: In the folder of backups: what it is.
MARK: Final = "silomq-backups"
MANIFEST: Final = "backup.json"
FORMAT: Final = 1
_UNFINISHED: Final = "unfinished-"
_LOCK: Final = "lock"
_NAME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d{6}\.\d{3}Z")
_MOST_MANIFEST: Final = 256 << 20
_ABOUT: Final = (
    "The folders here are backups of a SiloMQ store, named by their time (UTC). Each is a whole\n"
    "store by itself. silo restore brings one back; silo backups shows them.\n"
)


class Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """What `backup.json` says. `store` is the path of the source, the log has the offsets [begin,
    end), `files` are the sizes by path.
    """

    format: int
    store: str
    made: str
    begin: int
    end: int
    files: dict[str, int]


class BackupFound(msgspec.Struct, frozen=True):
    """A whole backup: its name, and what its manifest says (None if that is unreadable)."""

    name: str
    manifest: Manifest | None = None


class InUse(StoreError):
    """Another process makes a backup in the folder."""


class BackupFolder:
    """The folder at `path`, locked against other backups; a context manager. It is made if it is
    missing. `store` is the source.

    Raises BadInput if the folder lies in the store, or holds something else; InUse, OSError.
    """

    def __init__(self, path: Path, store: Path) -> None:
        if lies_in(path, store):
            raise BadInput(f"{path} lies in the store {store}: give a folder outside it")
        if lies_in(store, path):
            raise BadInput(f"the store {store} lies in {path}: give a folder of its own")
        if exists(path):
            _must_be_ours(path)
        with contextlib.ExitStack() as opened:
            self.root = opened.enter_context(Folder.open(path, create=True))
            lock = self.root.open_file(_LOCK, write=True, create=True)
            opened.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InUse(f"another backup into {path} is under way: wait for it") from error
            if not self.root.has(MARK):
                replace_file(self.root, MARK, _ABOUT.encode())
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def names(self) -> list[str]:
        """The names of the whole backups, oldest first."""
        return _names(self.root)

    def leftovers(self) -> list[str]:
        """The names of backups that were cut off."""
        return [name for name in self.root.names() if name.startswith(_UNFINISHED)]

    def begin(self) -> Folder:
        """A new folder for a backup, marked as unfinished, durably. Its name follows all others,
        also if the clock has stepped back.
        """
        taken = (*self.names(), *(each.removeprefix(_UNFINISHED) for each in self.leftovers()))
        newest = max((_time_of(name) for name in taken if _NAME.fullmatch(name)), default=0)
        name = _name_at(max(time.time_ns() // 1_000_000, newest + 1))
        new = self.root.folder(_UNFINISHED + name, create=True)
        replace_file(new, CUT_OFF, b"")
        self.root.sync()
        return new

    def finish(self, new: Folder) -> str:
        """Gives a folder that `begin` made its name, once all in it is durable: the name."""
        unfinished = new.path.rpartition("/")[2]
        name = unfinished.removeprefix(_UNFINISHED)
        new.unlink(CUT_OFF)
        new.sync()
        self.root.rename(unfinished, self.root, name)
        self.root.sync()
        return name

    def discard(self, new: Folder) -> None:
        """Removes a folder that `begin` made. An error is not raised: the next backup removes it,
        and the caller has an error of its own to report.
        """
        with contextlib.suppress(OSError):
            self.root.remove_tree(new.path.rpartition("/")[2])

    def keep(self, newest: int) -> list[str]:
        """Removes all backups but the `newest` ones: their names. A backup that is being removed
        counts as one that was cut off.
        """
        gone = self.names()[:-newest]
        for name in gone:
            with self.root.folder(name) as folder:
                replace_file(folder, CUT_OFF, b"")
            self.root.rename(name, self.root, _UNFINISHED + name)
            self.root.remove_tree(_UNFINISHED + name)
        return gone


def found_in(path: Path) -> list[BackupFound]:
    """The whole backups in a folder of backups, oldest first. Raises BadInput, OSError."""
    if not exists(path):
        raise BadInput(f"there is no folder {path}")
    _must_be_ours(path)
    with Folder.open(path) as root:
        found = []
        for name in _names(root):
            with root.folder(name) as folder:
                try:
                    found.append(BackupFound(name, read_manifest(folder)))
                except Corrupt:
                    found.append(BackupFound(name))
        return found


def read_manifest(folder: Folder) -> Manifest:
    """What `backup.json` says. Raises Corrupt if it is missing or is no manifest."""
    path = f"{folder.path}/{MANIFEST}"
    try:
        if folder.size(MANIFEST) > _MOST_MANIFEST:
            raise Corrupt(path, 0, f"it has more than {_MOST_MANIFEST} bytes")
        found = msgspec.json.decode(folder.read(MANIFEST), type=Manifest)
    except FileNotFoundError:
        why = "it is missing: this folder is no backup, or a part of one"
        raise Corrupt(path, 0, why) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(path, 0, f"this is no list of a backup's files ({error})") from error
    if found.format != FORMAT:
        why = f"its format is {found.format}, this SiloMQ knows {FORMAT}: use the one that made it"
        raise Corrupt(path, 0, why)
    return found


def _must_be_ours(path: Path) -> None:
    """Raises BadInput for a folder that holds anything but backups."""
    try:
        with Folder.open(path) as root:
            names = root.names()
    except NotADirectoryError as error:
        raise BadInput(f"{path} is a file: give a folder") from error
    if MARK not in names and set(names) - {_LOCK, f"{MARK}.tmp"}:
        raise BadInput(f"{path} is not empty and holds no backups: give a folder of its own")


def _names(root: Folder) -> list[str]:
    return [name for name in root.names() if _NAME.fullmatch(name)]


def _name_at(at_ms: int) -> str:
    stamp = time.strftime("%Y-%m-%dT%H%M%S", time.gmtime(at_ms // 1000))
    return f"{stamp}.{at_ms % 1000:03d}Z"


def _time_of(name: str) -> int:
    """Epoch ms of a backup's name."""
    seconds = calendar.timegm(time.strptime(name[:17], "%Y-%m-%dT%H%M%S"))
    return seconds * 1000 + int(name[18:21])
