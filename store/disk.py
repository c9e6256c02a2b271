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
from typing import Self

from ..shm._memory import Mapping
from .errors import StoreError

DIR_MODE = 0o750
FILE_MODE = 0o640
WARM_STEP = 16 * 1024 * 1024
_LIBC = ctypes.CDLL(None, use_errno=True)


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
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        return Folder(f"{self.path}/{name}", os.open(name, flags, dir_fd=self.fd))

    @contextlib.contextmanager
    def file(self, name: str, *, write: bool = False, create: bool = False) -> Iterator[int]:
        """The descriptor of a file, closed afterwards."""
        flags = (os.O_RDWR if write else os.O_RDONLY) | (os.O_CREAT if create else 0)
        fd = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE, dir_fd=self.fd)
        try:
            yield fd
        finally:
            os.close(fd)

    def names(self) -> list[str]:
        return sorted(os.listdir(self.fd))

    def size(self, name: str) -> int:
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_size

    def unlink(self, name: str) -> None:
        os.unlink(name, dir_fd=self.fd)

    def rename(self, name: str, to: Folder, to_name: str) -> None:
        os.rename(name, to_name, src_dir_fd=self.fd, dst_dir_fd=to.fd)

    def sync(self) -> None:
        """Makes the folder's entries durable."""
        os.fsync(self.fd)

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def allocate(fd: int, offset: int, length: int) -> None:
    """Takes real space for the range. OSError with ENOSPC when the disk has none."""
    os.posix_fallocate(fd, offset, length)


def map_file(fd: int, offset: int, length: int, *, writable: bool) -> Mapping:
    """Maps `length` bytes of a file from `offset` on, shared with every process that maps them."""
    return Mapping(fd, offset, length, writable)


def sync_data(fd: int) -> None:
    """fdatasync: the file's bytes, and its size if that changed, are durable when this returns."""
    os.fdatasync(fd)


def sync_mapping(mapping: Mapping, offset: int, length: int) -> None:
    """Msync of the pages that hold the range: its bytes are durable when this returns."""
    mapping.sync(offset, length)


def sync_file_system(folder: Folder) -> None:
    """syncfs: everything written on the folder's file system is durable when this returns."""
    if _LIBC.syncfs(folder.fd) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"syncfs: {os.strerror(error)}", folder.path)


def write_at(fd: int, data: bytes | memoryview, offset: int) -> None:
    """Writes all of `data`, or raises OSError."""
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, offset)
        view = view[done:]
        offset += done


def set_modified(fd: int, time_ms: int) -> None:
    """Gives a file a time of modification, epoch ms."""
    os.utime(fd, ns=(time_ms * 1_000_000, time_ms * 1_000_000))


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
