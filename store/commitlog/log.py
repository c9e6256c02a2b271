"""The commit log's files, for the store's own processes that make, write and remove them. Other
readers use `LogReader`.
"""

from __future__ import annotations

import contextlib
import errno

import msgspec

from ...shm._memory import Mapping
from ..disk import files as disk
from ..disk.paths import StoreFolders, file_bases, file_name
from ..disk.sparse import data_behind, data_span, unwrite
from ..errors import StoreError
from .log_reader import map_log_file

_NEW = "allocating-"


class LogFile(msgspec.Struct, frozen=True):
    """One mapped commit-log file: bytes [base, base + len(mapping)) of the log."""

    base: int
    mapping: Mapping

    @property
    def end(self) -> int:
        return self.base + self.mapping.length


class CommitLog:
    """The files below `commitlog/`, each of `file_size` bytes."""

    def __init__(self, folders: StoreFolders, file_size: int) -> None:
        self.folders = folders
        self.file_size = file_size

    def bases(self) -> list[int]:
        """The offsets of the files, ascending. A last file of zero bytes, which a crash of RocketMQ
        can leave, is left out. Raises OSError.

        Of a log that a start has looked at they follow each other without a gap, but for files
        that a killed clean has left at the front.
        """
        found = file_bases(self.folders.commit_log)
        return found[:-1] if found and self._is_empty(found[-1]) else found

    def _is_empty(self, base: int) -> bool:
        try:
            return self.folders.commit_log.size(file_name(base)) == 0
        except FileNotFoundError:  # removed meanwhile
            return False

    def sizes(self) -> dict[int, int]:
        """The size in bytes of everything that has the name of a log file, by offset; -1 for what
        is no file. Raises OSError.
        """
        folder = self.folders.commit_log
        found = {}
        for base in file_bases(folder):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                about = folder.about(file_name(base))
                found[base] = about.size if about.is_file else -1
        return found

    def base_of(self, offset: int) -> int:
        """The offset at which the file begins that holds log offset `offset`."""
        return offset - offset % self.file_size

    def open(self, base: int, *, writable: bool = False) -> LogFile:
        """Maps a whole file. Raises FileNotFoundError; StoreError for a file of another size."""
        folder = self.folders.commit_log
        size = folder.size(file_name(base))
        if size != self.file_size:
            raise StoreError(
                f"{folder.path}/{file_name(base)} has {size} bytes, the setting "
                f"mapped_file_size_commit_log says {self.file_size}: set it to the size the "
                "store was made with"
            )
        return LogFile(base, map_log_file(folder, base, size, writable=writable))

    def create(self, base: int) -> None:
        """Makes a file whose blocks are allocated, durably. It is renamed into the log once it is
        whole, so an unfinished file never counts. Raises OSError (ENOSPC: the disk is full).
        """
        ours = self.folders.ours
        temporary = _NEW + file_name(base)
        try:
            with ours.file(temporary, write=True, create=True) as fd:
                disk.allocate(fd, 0, self.file_size)
                # A power cut must not leave a file of this name and another size.
                disk.sync_data(fd)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                ours.unlink(temporary)
            raise
        ours.rename(temporary, self.folders.commit_log, file_name(base))
        self.folders.commit_log.sync()

    def half_made(self) -> list[str]:
        """Names of the unfinished files that a killed allocate process left, in `silomq/`."""
        return [name for name in self.folders.ours.names() if name.startswith(_NEW)]

    def remove_half_made(self) -> None:
        """Removes the unfinished files of a killed allocate process."""
        for name in self.half_made():
            self.folders.ours.unlink(name)

    def empty_last(self) -> str:
        """The name of the last file if it has zero bytes, otherwise ""."""
        last = file_bases(self.folders.commit_log)[-1:]
        return file_name(last[0]) if last and self._is_empty(last[0]) else ""

    def remove_empty_last(self) -> None:
        """Removes the last file if it has zero bytes."""
        name = self.empty_last()
        if name:
            self.folders.commit_log.unlink(name)

    def remove_from(self, base: int) -> list[int]:
        """Unlinks the files from offset `base` on, and returns their offsets. They must be unused:
        a store that stops removes the files that were made ahead.
        """
        gone = [found for found in self.bases() if found >= base]
        for found in reversed(gone):
            self.folders.commit_log.unlink(file_name(found))
        return gone

    def data_span(self, base: int, position: int) -> tuple[int, int]:
        """The span (begin, end) of the data in a file from `position` (bytes into it) on; the
        file's size twice if there is none.
        """
        with self.folders.commit_log.file(file_name(base)) as fd:
            return data_span(fd, position)

    def holds_data(self, base: int) -> bool:
        """Whether a file of any size holds a byte that is not zero. Raises OSError."""
        with self.folders.commit_log.file(file_name(base)) as fd:
            return next(data_behind(fd, 0), None) is not None

    def sync_range(self, base: int, start: int, stop: int) -> None:
        """Makes the log offsets [start, stop) durable, which lie in the file at `base`. Raises
        OSError.
        """
        disk.sync_range(self.open(base, writable=True).mapping, start - base, stop - start)

    def unwrite_from(self, end: int) -> None:
        """Makes the rest of the last file, from the log's end on, count as never written. Its pages
        were warmed, so the next start would read up to a whole file of zeros. Raises OSError.
        """
        start = end + -end % disk.PAGE
        base = self.base_of(end)
        if start < base + self.file_size and base in self.bases():
            with self.folders.commit_log.file(file_name(base), write=True) as fd:
                unwrite(fd, start - base, base + self.file_size - start)


def disk_full(error: OSError) -> bool:
    """Whether an error means that the disk is full or the user's quota is used up."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
