"""Every call that touches the disk: the one seam where tests inject faults and record writes.

Files are opened below a folder's descriptor and never through a symbolic link, so that no name from
a client or a foreign program leads out of the store. New files have FILE_MODE, new folders
DIR_MODE. tests/tidy/test_disk_seam.py finds calls of the operating system that go round this
package.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Self

from ...shm._memory import Mapping
from ..errors import StoreError

if TYPE_CHECKING:
    from .recording import Recorder

DIR_MODE = 0o750
FILE_MODE = 0o640
WARM_STEP = 16 * 1024 * 1024
PAGE = 4096
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


class About(NamedTuple):
    """What the file system knows of a name: bytes, time of the last write (epoch ms), and whether
    it is a folder. A symbolic link is none.
    """

    size: int
    modified_ms: int
    is_folder: bool


class Space(NamedTuple):
    """Blocks of a file system: all of them, those that are free, those that a user may still take;
    and the bytes of one.
    """

    blocks: int
    free: int
    available: int
    block_size: int


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
    def parent(self, path: str, *, create: bool = False) -> Iterator[tuple[Folder, str]]:
        """The folder in which the last name of a path below this one lies, and that name. With
        `create` the folders on the way are made. Raises as `folder`.
        """
        *folders, name = path.split("/")
        with contextlib.ExitStack() as opened:
            found = self
            for each in folders:
                found = opened.enter_context(found.folder(each, create=create))
            yield found, name

    def open_file(self, name: str, *, write: bool = False, create: bool = False) -> int:
        """The descriptor of a file, which the caller closes."""
        flags = (os.O_RDWR if write else os.O_RDONLY) | (os.O_CREAT if create else 0)
        new = _recorder is not None and create and name not in self.names()
        fd = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE, dir_fd=self.fd)
        if _recorder and new:
            _recorder.created(self.fd, name, fd)
        return fd

    @contextlib.contextmanager
    def file(self, name: str, *, write: bool = False, create: bool = False) -> Iterator[int]:
        """The descriptor of a file, closed afterwards."""
        fd = self.open_file(name, write=write, create=create)
        try:
            yield fd
        finally:
            os.close(fd)

    def read(self, name: str) -> bytes:
        """All of a small file."""
        with self.file(name) as fd:
            return read_at(fd, size_of(fd), 0)

    def names(self) -> list[str]:
        """All names in it. `fd` itself has one place in the folder for all processes that inherited
        it: two that list at once would miss names, or see them twice.
        """
        own = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            return sorted(os.listdir(own))
        finally:
            os.close(own)

    def about(self, name: str) -> About:
        """Size, time and kind of what has this name. Raises FileNotFoundError."""
        found = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        return About(found.st_size, found.st_mtime_ns // 1_000_000, stat.S_ISDIR(found.st_mode))

    def size(self, name: str) -> int:
        return self.about(name).size

    def has(self, name: str) -> bool:
        """Whether there is anything of this name; a link that leads nowhere is something."""
        try:
            self.about(name)
        except FileNotFoundError:
            return False
        return True

    def unlink(self, name: str) -> None:
        os.unlink(name, dir_fd=self.fd)
        if _recorder:
            _recorder.entry("unlink", self.fd, name)

    def remove_folder(self, name: str) -> None:
        """Removes an empty folder. OSError as rmdir."""
        os.rmdir(name, dir_fd=self.fd)
        if _recorder:
            _recorder.entry("unlink", self.fd, name)

    def remove_tree(self, name: str) -> None:
        """Removes a folder with all in it. OSError as rmdir and unlink."""
        with self.folder(name) as inner:
            for each in inner.names():
                if inner.about(each).is_folder:
                    inner.remove_tree(each)
                else:
                    inner.unlink(each)
        self.remove_folder(name)

    def link(self, name: str, to_name: str) -> None:
        """Gives a file a second name here. Raises FileExistsError where that name is taken."""
        os.link(name, to_name, src_dir_fd=self.fd, dst_dir_fd=self.fd, follow_symlinks=False)
        if _recorder:
            _recorder.linked(self.fd, name, to_name)

    def rename(self, name: str, to: Folder, to_name: str) -> None:
        """Gives a file or folder another name, also in another folder; a file of that name goes."""
        os.rename(name, to_name, src_dir_fd=self.fd, dst_dir_fd=to.fd)
        if _recorder:
            _recorder.renamed(self.fd, name, to.fd, to_name)

    def sync(self) -> None:
        """Makes the folder's entries durable."""
        os.fsync(self.fd)
        if _recorder:
            _recorder.folder_synced(self.fd)

    def share(self, gid: int, mode: int, name: str = "") -> None:
        """Gives this folder, or the file `name` in it, to a group (-1: the one it has) with a mode
        of its own.
        """
        if name:
            os.chown(name, -1, gid, dir_fd=self.fd)
            os.chmod(name, mode, dir_fd=self.fd)
        else:
            os.fchown(self.fd, -1, gid)
            os.fchmod(self.fd, mode)

    def is_writable(self) -> bool:
        """Whether this process may make files in it."""
        return os.access(".", os.W_OK, dir_fd=self.fd, effective_ids=True)

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether there is a folder at a path, which is the operator's and may hold links."""
    return os.path.isdir(path)


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether there is anything at a path; a link that leads nowhere is something."""
    return os.path.lexists(path)


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


def append(fd: int, data: bytes | memoryview) -> None:
    """Writes all of `data` behind a file's last byte, or raises OSError."""
    write_at(fd, data, size_of(fd))


def set_modified(fd: int, time_ms: int) -> None:
    """Gives a file a time of modification, epoch ms."""
    os.utime(fd, ns=(time_ms * 1_000_000, time_ms * 1_000_000))


def space_of(folder: Folder) -> Space:
    """Space of the folder's file system."""
    found = os.fstatvfs(folder.fd)
    return Space(found.f_blocks, found.f_bfree, found.f_bavail, found.f_frsize)


def free_bytes(folder: Folder) -> int:
    """Space that an ordinary user may still take on the folder's file system, bytes."""
    found = space_of(folder)
    return found.available * found.block_size


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
