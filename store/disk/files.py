"""Every call that touches the disk: the one seam where tests inject faults and record writes.

Files are opened below a folder's descriptor and never through a symbolic link, so that no name from
a client or a foreign program leads out of the store.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from ...shm._memory import Mapping
from ..errors import StoreError

if TYPE_CHECKING:
    from .recording import Recorder

DIR_MODE = 0o750
FILE_MODE = 0o640
WARM_STEP = 16 * 1024 * 1024
PAGE = 4096
_STEP = 1 << 20
PIECE = 64 << 10
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_SYNC_FILE_RANGE_WRITE = 2


def _recorder_asked_for() -> Recorder | None:
    """The recorder of operations, where the environment names a folder for it: for tests."""
    folder = os.environ.get("SILOMQ_DISK_RECORD")
    if not folder:
        return None
    from .recording import Recorder

    return Recorder(folder)


_recorder = _recorder_asked_for()


class Folder:
    """An open folder. Names are single path components."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, create: bool = False) -> Folder:
        """Opens a folder by path; the path itself may contain links, it is the operator's."""
        if create:
            os.makedirs(path, DIR_MODE, exist_ok=True)
        return cls(os.fspath(path), os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def folder(self, name: str, *, create: bool = False) -> Folder:
        """A folder within. Raises FileNotFoundError, NotADirectoryError for a link, StoreError for
        a name that leads elsewhere.
        """
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise StoreError(f"{name!r} below {self.path} is not a name of a folder within")
        if create:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, DIR_MODE, dir_fd=self.fd)
                if _recorder:
                    _recorder.entry("mkdir", self.fd, name)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        return Folder(f"{self.path}/{name}", os.open(name, flags, dir_fd=self.fd))

    @contextlib.contextmanager
    def file(self, name: str, *, write: bool = False, create: bool = False) -> Iterator[int]:
        """The descriptor of a file, closed afterwards."""
        flags = (os.O_RDWR if write else os.O_RDONLY) | (os.O_CREAT if create else 0)
        new = _recorder is not None and create and name not in self.names()
        fd = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE, dir_fd=self.fd)
        try:
            if _recorder and new:
                _recorder.created(self.fd, name, fd)
            yield fd
        finally:
            os.close(fd)

    def names(self) -> list[str]:
        """All names in it. `fd` itself has one place in the folder for all processes that inherited
        it: two that list at once would miss names, or see them twice.
        """
        own = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            return sorted(os.listdir(own))
        finally:
            os.close(own)

    def size(self, name: str) -> int:
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_size

    def unlink(self, name: str) -> None:
        os.unlink(name, dir_fd=self.fd)
        if _recorder:
            _recorder.entry("unlink", self.fd, name)

    def remove_folder(self, name: str) -> None:
        """Removes an empty folder. OSError as rmdir."""
        os.rmdir(name, dir_fd=self.fd)
        if _recorder:
            _recorder.entry("unlink", self.fd, name)

    def rename(self, name: str, to: Folder, to_name: str) -> None:
        os.rename(name, to_name, src_dir_fd=self.fd, dst_dir_fd=to.fd)
        if _recorder:
            _recorder.renamed(self.fd, name, to.fd, to_name)

    def sync(self) -> None:
        """Makes the folder's entries durable."""
        os.fsync(self.fd)
        if _recorder:
            _recorder.folder_synced(self.fd)

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def allocate(fd: int, offset: int, length: int) -> None:
    """Takes real space for the range. OSError with ENOSPC when the disk has none."""
    os.posix_fallocate(fd, offset, length)
    if _recorder:
        _recorder.changed(fd, "size")


def map_file(fd: int, offset: int, length: int, *, writable: bool) -> Mapping:
    """Maps `length` bytes of a file from `offset` on, shared with every process that maps them."""
    mapping = Mapping(fd, offset, length, writable)
    if _recorder:
        _recorder.mapped(mapping, fd, offset)
    return mapping


def sync_data(fd: int) -> None:
    """fdatasync: the file's bytes, and its size if that changed, are durable when this returns."""
    before = _recorder.look(fd, "sync", 0, os.fstat(fd).st_size) if _recorder else None
    os.fdatasync(fd)
    if _recorder and before:
        _recorder.note(before)


def write_back(fd: int, offset: int, length: int, piece: int = PIECE) -> None:
    """Begins to write the dirty pages of a range (sync_file_range), `piece` bytes at a time, and
    offers the core in between. Nothing is durable by this, but a sync that follows has little left
    to do: in one go it would keep a core for milliseconds, as the kernel does not interrupt itself.
    """
    for at in range(offset, offset + length, piece):
        size = min(piece, offset + length - at)
        if _LIBC.sync_file_range(fd, at, size, _SYNC_FILE_RANGE_WRITE) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"sync_file_range: {os.strerror(error)}")
        os.sched_yield()


def sync_range(mapping: Mapping, offset: int, length: int) -> None:
    """msync: the pages that hold a range of a mapping are durable when this returns."""
    before = _recorder.look_mapped(mapping, offset, length) if _recorder else None
    mapping.sync(offset, length)
    if _recorder and before:
        _recorder.note(before)


def sync_file_system(folder: Folder) -> None:
    """syncfs: everything written on the folder's file system is durable when this returns."""
    before = _recorder.look_at_all(folder.fd) if _recorder else []
    if _LIBC.syncfs(folder.fd) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"syncfs: {os.strerror(error)}", folder.path)
    if _recorder:
        _recorder.all_synced(folder.fd, before)


def write_at(fd: int, data: bytes | memoryview, offset: int) -> None:
    """Writes all of `data`, or raises OSError."""
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, offset)
        if _recorder:
            _recorder.changed(fd, "write", offset, done)
        view = view[done:]
        offset += done


def set_modified(fd: int, time_ms: int) -> None:
    """Gives a file a time of modification, epoch ms."""
    os.utime(fd, ns=(time_ms * 1_000_000, time_ms * 1_000_000))


def replace_file(folder: Folder, name: str, data: bytes) -> None:
    """Makes `data` the whole of a small file, durably: after a crash it is the old or the new
    one.
    """
    temporary = f"{name}.tmp"
    with folder.file(temporary, write=True, create=True) as fd:
        set_size(fd, 0)
        write_at(fd, data, 0)
        sync_data(fd)
    folder.rename(temporary, folder, name)
    folder.sync()


def _written(fd: int, position: int) -> Iterator[tuple[int, int]]:
    """The ranges of a file at or behind `position` that are no holes: (first, behind the last)."""
    size = size_of(fd)
    while position < size:
        try:
            position = os.lseek(fd, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no data any more
                return
            raise
        hole = os.lseek(fd, position, os.SEEK_HOLE)
        yield position, hole
        position = hole


def data_behind(fd: int, position: int) -> Iterator[tuple[int, bytes]]:
    """The pages with other bytes than zeros, from `position` on: (position, bytes). Holes are not
    read.
    """
    for first, hole in _written(fd, position):
        at = first
        while at < hole:
            stop = min(hole, at - at % _STEP + _STEP)
            data = os.pread(fd, stop - at, at)
            if data.count(0) != len(data):
                yield from _pages(at, data)
            at = stop


def data_span(fd: int, position: int) -> tuple[int, int]:
    """From the first to behind the last byte at or behind `position` that was ever written; (end,
    end) of the file without any. To look elsewhere would only make pages of zeros.
    """
    ranges = list(_written(fd, position))
    size = size_of(fd)
    return (ranges[0][0], ranges[-1][1]) if ranges else (size, size)


def _pages(position: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        stop = min(len(data), at + PAGE - (position + at) % PAGE)
        if any(data[at:stop]):
            yield position + at, data[at:stop]
        at = stop


def clear_behind(fd: int, position: int) -> int:
    """Makes all bytes from `position` on zeros, durably; how many bytes lay in pages that had
    others.
    """
    cleared = 0
    for at, data in data_behind(fd, position):
        write_at(fd, bytes(len(data)), at)
        cleared += len(data)
    if cleared:
        sync_data(fd)
    return cleared


def free_bytes(folder: Folder) -> int:
    """Space that an ordinary user may still take on the folder's file system, bytes."""
    found = os.fstatvfs(folder.fd)
    return found.f_bavail * found.f_frsize


def shape_for_sync(mapping: Mapping) -> None:
    """Under SYNC_FLUSH, before anything of a commit-log file is read or written through a mapping.

    A store through a mapping dirties a whole page-cache folio, which read-ahead makes up to 2 MiB
    large, and the next sync writes all of it. MADV_RANDOM turns read-ahead off for the mapping, so
    folios are single pages.
    """
    mapping.advise_random()


def shape_small(mapping: Mapping, offset: int = 0) -> None:
    """For the part from `offset` on of a mapping of a large file that is written bit by bit:
    without MADV_RANDOM each first fault reads zeros ahead (8 MiB on some disks), long before or
    without need.
    """
    mapping.advise_random(offset)


def read_ahead(mapping: Mapping, offset: int, length: int) -> None:
    """Asks for a range of a mapping that will be read soon; what lies behind its end is left out.
    Faults alone read ahead by 128 KiB on most disks, and wait for each of them.
    """
    mapping.will_need(min(offset, mapping.length), length)


def warm(mapping: Mapping, offset: int, length: int) -> bool:
    """Faults a range in for writing; False where the kernel cannot (before Linux 5.14). A full disk
    raises ENOSPC.
    """
    try:
        mapping.populate(offset, length)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return False
        if error.errno == errno.EFAULT:
            raise OSError(errno.ENOSPC, "the disk could not give space for the mapping") from error
        raise
    return True


def set_size(fd: int, size: int) -> None:
    """Makes a file `size` bytes long without taking space for them."""
    os.ftruncate(fd, size)
    if _recorder:
        _recorder.changed(fd, "size")


def size_of(fd: int) -> int:
    """Length of an open file, bytes."""
    return os.fstat(fd).st_size


def read_at(fd: int, size: int, offset: int) -> bytes:
    """Up to `size` bytes from `offset` on; fewer at the end of the file."""
    parts = []
    while size > 0:
        part = os.pread(fd, size, offset)
        if not part:
            break
        parts.append(part)
        size -= len(part)
        offset += len(part)
    return b"".join(parts)
