"""Puts single files of a store into a backup: by a link, from an earlier backup, as a clone or as a
copy.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from ...store.commitlog.seals import SEALS
from ...store.disk import files as disk
from ...store.disk.copying import NO_LINK, clone, copy_bytes, new_file, same_bytes, sync_folders
from ...store.disk.paths import COMMIT_LOG, OURS, file_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...store.disk.files import Folder

#: Up to so many new files are synced one by one. For more of them a sync of the file system is
#: quicker, though it also waits for what others have written there.
_FEW: Final = 256


class Copier:
    """Copies files from the folder `source` to the folder `target`. `previous` are earlier backups,
    the best first. With `links` full files of the log may be linked.

    `files` counts the files by the way that was taken, `copied_bytes` the bytes that were copied.
    """

    def __init__(
        self, source: Folder, target: Folder, previous: Sequence[Folder] = (), *, links: bool
    ) -> None:
        self.source = source
        self.target = target
        self.previous = list(previous)
        self.links = links
        self.files: Counter[str] = Counter()
        self.copied_bytes = 0
        self._clones = True
        self._unsynced: list[str] = []

    def full_log_file(self, base: int, size: int) -> None:
        """Puts a file of the log into the backup that nobody writes to any more. Raises
        FileNotFoundError if it has been removed, OSError.
        """
        path = f"{COMMIT_LOG}/{file_name(base)}"
        if _size(self.target, path) >= 0:  # from a round before
            return
        if (self.links and self._link(path)) or self._reuse_sealed(base, path, size):
            return
        self.file(path, size)

    def _link(self, path: str) -> bool:
        with _at(self.source, path) as (source, name), self._into(path) as (to, _):
            try:
                source.link(name, name, to)
            except OSError as error:
                if error.errno not in NO_LINK:
                    raise
                self.links = False  # another file system, or files of another user
                return False
        self.files["linked"] += 1
        return True

    def _reuse_sealed(self, base: int, path: str, size: int) -> bool:
        """Takes the file over from an earlier backup that has it with the same seal, and so with
        the same bytes.
        """
        seal = f"{OURS}/{SEALS}/{file_name(base)}.json"
        ours = _small(self.source, seal)
        return ours is not None and any(
            _small(backup, seal) == ours
            and _size(backup, path) == size
            and self._take(backup, path)
            for backup in self.previous
        )

    def _take(self, backup: Folder, path: str) -> bool:
        with _at(backup, path) as (folder, name), self._into(path) as (to, _):
            with suppress(FileNotFoundError):
                to.unlink(name)
            try:
                folder.link(name, name, to)
            except OSError as error:
                if error.errno not in NO_LINK:
                    raise
                return False
        self.files["reused"] += 1
        return True

    def file(self, path: str, length: int, size: int | None = None) -> None:
        """Copies the first `length` bytes of a file, and gives the copy `size` bytes (None: as many
        as were copied). Raises FileNotFoundError if the file has been removed, OSError.
        """
        size = length if size is None else size
        with _at(self.source, path) as (source, name), source.file(name) as fd:
            about = source.about(name)
            if length == size and self._reuse_same(path, fd, size, about.modified_ms):
                return
            with self.new(path) as target:
                self._fill(fd, target, length)
                disk.set_size(target, length)
                disk.set_size(target, size)
                disk.set_modified(target, about.modified_ms)

    def _reuse_same(self, path: str, fd: int, size: int, modified_ms: int) -> bool:
        """Takes a whole file over from an earlier backup if it has the same time and bytes."""
        for backup in self.previous:
            with suppress(FileNotFoundError), _at(backup, path) as (folder, name):
                found = folder.about(name)
                if (found.size, found.modified_ms) == (size, modified_ms) and found.is_file:
                    with folder.file(name) as other:
                        same = same_bytes(fd, other, size)
                    if same and self._take(backup, path):
                        return True
        return False

    @contextmanager
    def new(self, path: str) -> Iterator[int]:
        """The descriptor of a new file of the backup, which gets its name at the end. Raises
        OSError.
        """
        with self._into(path) as (folder, name), new_file(folder, name) as fd:
            yield fd
            if path.startswith(COMMIT_LOG):  # then the next backup may use it after a kill
                disk.sync_data(fd)
            else:
                self._unsynced.append(path)

    def _fill(self, source: int, target: int, length: int) -> None:
        self._clones = self._clones and clone(source, target)
        if self._clones:
            if disk.size_of(target) < length:
                raise OSError(errno.ENODATA, f"the file has less than {length} bytes")
            self.files["cloned"] += 1
            return
        copy_bytes(source, target, length)
        self.files["copied"] += 1
        self.copied_bytes += length

    def write(self, path: str, data: bytes) -> None:
        """Makes a small file with these bytes, or replaces it. Raises OSError."""
        with self.new(path) as fd:
            disk.write_at(fd, data, 0)

    def remove(self, path: str) -> None:
        """Removes a file from the backup. A missing file is no error."""
        with suppress(FileNotFoundError), _at(self.target, path) as (folder, name):
            folder.unlink(name)

    def make_folder(self, path: str) -> None:
        """Makes a folder in the backup. Raises OSError."""
        with self._into(f"{path}/."):
            pass

    def _into(self, path: str) -> AbstractContextManager[tuple[Folder, str]]:
        return self.target.parent(path, create=True)

    def make_durable(self) -> None:
        """Makes all that was put into the backup durable. Raises OSError."""
        if len(self._unsynced) > _FEW:
            disk.sync_file_system(self.target)
        else:
            for path in self._unsynced:
                with (
                    suppress(FileNotFoundError),
                    _at(self.target, path) as (folder, name),
                    folder.file(name, write=True) as fd,
                ):
                    disk.sync_data(fd)
        sync_folders(self.target)
        self._unsynced.clear()

    def source_names(self, path: str) -> list[str]:
        """The names of files in a folder of the source; none if it has no such folder. Raises
        OSError.
        """
        with suppress(FileNotFoundError), _at(self.source, f"{path}/.") as (folder, _):
            names = []
            for name in folder.names():
                with suppress(FileNotFoundError):  # removed meanwhile
                    if not folder.about(name).is_folder:
                        names.append(name)
            return names
        return []

    def source_size(self, path: str) -> int:
        """The size of a file of the source. Raises FileNotFoundError."""
        with _at(self.source, path) as (folder, name):
            return folder.size(name)

    def source_bytes(self, path: str) -> bytes | None:
        """The bytes of a small file of the source, None if there is none."""
        return _small(self.source, path)

    def remove_others(self, path: str, names: Collection[str]) -> None:
        """Removes all files but those of these names from a folder of the backup."""
        with _at(self.target, f"{path}/.") as (folder, _):
            for name in set(folder.names()) - set(names):
                folder.unlink(name)

    def remove_folder(self, name: str) -> None:
        """Removes a folder of the backup with all that it holds."""
        with suppress(FileNotFoundError):
            self.target.remove_tree(name)


def _at(root: Folder, path: str) -> AbstractContextManager[tuple[Folder, str]]:
    return root.parent(path)


def _size(root: Folder, path: str) -> int:
    """The size of a file, -1 if there is none."""
    try:
        with _at(root, path) as (folder, name):
            return folder.size(name)
    except FileNotFoundError:
        return -1


def _small(root: Folder, path: str) -> bytes | None:
    """The bytes of a small file, None if there is none."""
    try:
        with _at(root, path) as (folder, name):
            return folder.read(name)
    except FileNotFoundError:
        return None
