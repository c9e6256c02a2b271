"""All operating-system calls for the store's files. Tests inject faults and record writes here.

Files are opened below a folder's descriptor and never through a symbolic link, so that no name from
a client or another program leads out of the store. New files have FILE_MODE, new folders DIR_MODE.
tests/tidy/test_disk_seam.py finds calls of the operating system that bypass this package.
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
from ..errors import StoreError, limited_by_open_files

if TYPE_CHECKING:
    from .recording import Recorder

DIR_MODE = 0o750
FILE_MODE = 0o640
WARM_STEP = 2 * 1024 * 1024
PAGE = 4096
PIECE = 64 << 10
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_SYNC_FILE_RANGE_WRITE = 2
_SECTOR = 512  # the unit of st_blocks


def _recorder_asked_for() -> Recorder | None:
    """The recorder of operations if SILOMQ_DISK_RECORD names a folder for it, which tests set."""
    folder = os.environ.get("SILOMQ_DISK_RECORD")
    if not folder:
        return None
    from .recording import Recorder

    return Recorder(folder)


_recorder = _recorder_asked_for()


class About(NamedTuple):
    """A name's size (bytes), last write (epoch ms), kind (of a link: neither), owner and rights."""

    size: int
    modified_ms: int
    is_folder: bool
    is_file: bool
    owner: int
    is_open_to_all: bool


class Folder:
    """An open folder. Names are single path components."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    @classmethod
    @limited_by_open_files()
    def open(cls, path: str | os.PathLike[str], *, create: bool = False) -> Folder:
        """Opens a folder by path, which may contain links: the operator chooses it."""
        if create:
            os.makedirs(path, DIR_MODE, exist_ok=True)
        return cls(os.fspath(path), os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    @limited_by_open_files()
    def folder(self, name: str, *, create: bool = False) -> Folder:
        """Opens a folder within, and makes it with `create` if it is missing. Raises
        FileNotFoundError, NotADirectoryError (also for a link), StoreError for a name that is not
        one component.
        """
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise StoreError(f"{name!r} below {self.path} is not a name of a folder within")
        if create and not self.has(name):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, DIR_MODE, dir_fd=self.fd)
                if _recorder:
                    _recorder.entry("mkdir", self.fd, name)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._naming(name):
            return Folder(f"{self.path}/{name}", os.open(name, flags, dir_fd=self.fd))

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Gives an OSError the whole path: the kernel's calls know the name alone."""
        try:
            yield
        except OSError as error:
            error.filename = f"{self.path}/{name}"
            raise

    @contextlib.contextmanager
    def parent(self, path: str, *, create: bool = False) -> Iterator[tuple[Folder, str]]:
        """The folder that holds the last component of `path`, which is relative to this folder, and
        that component. With `create` missing folders are made. Raises as `folder`.
        """
        *folders, name = path.split("/")
        with contextlib.ExitStack() as opened:
            found = self
            for each in folders:
                found = opened.enter_context(found.folder(each, create=create))
            yield found, name

    @limited_by_open_files()
    def open_file(self, name: str, *, write: bool = False, create: bool = False) -> int:
        """The descriptor of a file, which the caller closes. Raises OSError with the path, also for
        a link, a folder, or a FIFO (whose opening would wait without O_NONBLOCK).
        """
        flags = (os.O_RDWR if write else os.O_RDONLY) | (os.O_CREAT if create else 0)
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        with self._naming(name):
            fd = os.open(name, flags, FILE_MODE, dir_fd=self.fd)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
                raise IsADirectoryError(errno.EISDIR, "it is not a file")
        if _recorder and create:
            _recorder.created(self.fd, name, fd)
        return fd

    @contextlib.contextmanager
    def file(self, name: str, *, write: bool = False, create: bool = False) -> Iterator[int]:
        """The descriptor of a file; the context closes it. Raises OSError, also for a link."""
        fd = self.open_file(name, write=write, create=create)
        try:
            yield fd
        finally:
            os.close(fd)

    def read(self, name: str) -> bytes:
        """The bytes of a small file. Raises OSError."""
        with self.file(name) as fd:
            return read_at(fd, size_of(fd), 0)

    @limited_by_open_files()
    def names(self) -> list[str]:
        """All names in the folder, sorted. Lists through a new descriptor: the processes that
        inherited `fd` share its read position, so two that list at once would miss names.
        """
        own = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            return sorted(os.listdir(own))
        finally:
            os.close(own)

    def about(self, name: str) -> About:
        """The metadata of a name. Raises FileNotFoundError."""
        with self._naming(name):
            found = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        mode, ms = found.st_mode, found.st_mtime_ns // 1_000_000
        kind = (stat.S_ISDIR(mode), stat.S_ISREG(mode), found.st_uid, bool(mode & stat.S_IWOTH))
        return About(found.st_size, ms, *kind)

    def size(self, name: str) -> int:
        return self.about(name).size

    def has(self, name: str) -> bool:
        """Whether the name exists; a link whose target is missing does."""
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
        """Removes an empty folder. Raises OSError as rmdir."""
        os.rmdir(name, dir_fd=self.fd)
        if _recorder:
            _recorder.entry("unlink", self.fd, name)

    def remove_tree(self, name: str) -> None:
        """Removes a folder with all that it holds. Raises OSError as rmdir and unlink."""
        with self.folder(name) as inner:
            for each in inner.names():
                if inner.about(each).is_folder:
                    inner.remove_tree(each)
                else:
                    inner.unlink(each)
        self.remove_folder(name)

    def link(self, name: str, to_name: str, to: Folder | None = None) -> None:
        """Gives a file a second name, here or in `to`. Raises FileExistsError, OSError (EXDEV)."""
        into = to or self
        os.link(name, to_name, src_dir_fd=self.fd, dst_dir_fd=into.fd, follow_symlinks=False)
        if _recorder:
            _recorder.linked(self.fd, name, into.fd, to_name)

    def rename(self, name: str, to: Folder, to_name: str) -> None:
        """Renames a file or folder, also into another folder, and replaces a file there."""
        os.rename(name, to_name, src_dir_fd=self.fd, dst_dir_fd=to.fd)
        if _recorder:
            _recorder.renamed(self.fd, name, to.fd, to_name)

    def sync(self) -> None:
        """Makes the folder's entries durable (fsync). Raises OSError."""
        before = _recorder.look_in(self.fd) if _recorder else None
        os.fsync(self.fd)
        if _recorder and before:
            _recorder.note(before)

    def share(self, gid: int, mode: int, name: str) -> None:
        """Sets group (-1: no change) and mode of the file `name`. Raises OSError."""
        os.chown(name, -1, gid, dir_fd=self.fd, follow_symlinks=False)
        os.chmod(name, mode, dir_fd=self.fd)

    def is_writable(self) -> bool:
        """Whether this process may make files in the folder."""
        return os.access(".", os.W_OK, dir_fd=self.fd, effective_ids=True)

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    __del__ = close  # for a folder that nobody has closed


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a path leads to a folder. The operator chooses the path, so it may contain links."""
    return os.path.isdir(path)


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether a path exists; a link whose target is missing does."""
    return os.path.lexists(path)


def allocate(fd: int, offset: int, length: int) -> None:
    """Allocates the blocks of a range, bytes. Raises OSError (ENOSPC) if the disk has no space.

    The kernel takes what there is before it finds that it is not enough. A file that cannot fit is
    not begun, because for that moment nobody else could write to the disk.
    """
    found = os.fstatvfs(fd)
    wanted = length - os.fstat(fd).st_blocks * _SECTOR
    if found.f_blocks and wanted > found.f_bfree * found.f_frsize:  # some tell nothing
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.posix_fallocate(fd, offset, length)
    if _recorder:
        _recorder.changed(fd, "size")


def map_file(fd: int, offset: int, length: int, *, writable: bool) -> Mapping:
    """Maps `length` bytes of a file from position `offset` on (MAP_SHARED). Raises OSError."""
    mapping = Mapping(fd, offset, length, writable)
    if _recorder:
        _recorder.mapped(mapping, fd, offset)
    return mapping


def sync_data(fd: int) -> None:
    """fdatasync: the file's bytes, and its size if that changed, are durable when this returns.
    Raises OSError.
    """
    before = _recorder.look(fd, "sync", 0, os.fstat(fd).st_size) if _recorder else None
    os.fdatasync(fd)
    if _recorder and before:
        _recorder.note(before)


def write_back(fd: int, offset: int, length: int, piece: int = PIECE) -> None:
    """Starts to write the dirty pages of a range (sync_file_range), `piece` bytes at a time, and
    yields the core after each piece. Raises OSError.

    This makes nothing durable, but the sync that follows has little left to do. One sync of all
    would keep a core for milliseconds, because the kernel does not preempt itself there.
    """
    for at in range(offset, offset + length, piece):
        size = min(piece, offset + length - at)
        if _LIBC.sync_file_range(fd, at, size, _SYNC_FILE_RANGE_WRITE) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"sync_file_range: {os.strerror(error)}")
        os.sched_yield()


def sync_range(mapping: Mapping, offset: int, length: int, *, ahead: bool = False) -> None:
    """msync: the pages of a range of a mapping are durable when this returns. `ahead` is for pages
    that another process may write and sync meanwhile. Raises OSError.
    """
    before = _recorder.look_mapped(mapping, offset, length) if _recorder else None
    mapping.sync(offset, length)
    if _recorder and before:
        if ahead:
            before.what = "sync_ahead"
        _recorder.note(before)


def sync_file_system(folder: Folder) -> None:
    """syncfs: all that was written to the folder's file system is durable when this returns. Raises
    OSError.
    """
    before = _recorder.look_at_all(folder.fd) if _recorder else []
    if _LIBC.syncfs(folder.fd) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"syncfs: {os.strerror(error)}", folder.path)
    if _recorder:
        _recorder.all_synced(folder.fd, before)


def write_at(fd: int, data: bytes | memoryview, offset: int) -> None:
    """Writes all of `data` at position `offset`. Raises OSError; then a part may be written."""
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, offset)
        if _recorder:
            _recorder.changed(fd, "write", offset, done)
        view = view[done:]
        offset += done


def append(fd: int, data: bytes | memoryview) -> None:
    """Writes all of `data` at the end of a file. Raises OSError; then a part may be written."""
    write_at(fd, data, size_of(fd))


def set_modified(fd: int, time_ms: int) -> None:
    """Sets the time of a file's last modification, epoch ms."""
    os.utime(fd, ns=(time_ms * 1_000_000, time_ms * 1_000_000))


def in_small_folios(mapping: Mapping) -> None:
    """Has faults of a mapping make folios of a page each (store/disk/__init__.py)."""
    mapping.advise_random()


def in_large_folios(mapping: Mapping) -> None:
    """Has faults of a mapping make folios of 2 MiB (store/disk/__init__.py)."""
    mapping.advise_huge()


def shape_small(mapping: Mapping, offset: int = 0) -> None:
    """Sets MADV_RANDOM from position `offset` of a mapping on, for files that are written a few
    bytes at a time: a first fault would read up to 8 MiB of zeros ahead on some disks.
    """
    mapping.advise_random(offset)


def read_ahead(mapping: Mapping, offset: int, length: int) -> None:
    """Asks the kernel to read a range of a mapping that will be used soon (MADV_WILLNEED), up to
    the mapping's end. Otherwise each fault reads 128 KiB ahead on most disks, and waits for them.
    """
    mapping.will_need(min(offset, mapping.length), length)


def warm(mapping: Mapping, offset: int, length: int) -> bool:
    """Faults the pages of a range in for writing (MADV_POPULATE_WRITE). False if the kernel cannot
    (before Linux 5.14). Raises OSError, ENOSPC if the disk is full.
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
    """Sets the length of a file, bytes. It allocates no space for more length. Raises OSError."""
    os.ftruncate(fd, size)
    if _recorder:
        _recorder.changed(fd, "size")


def size_of(fd: int) -> int:
    """Length of an open file, bytes."""
    return os.fstat(fd).st_size


def read_at(fd: int, size: int, offset: int) -> bytes:
    """Up to `size` bytes from position `offset` on, fewer at the file's end. Raises OSError."""
    parts = []
    while size > 0:
        part = os.pread(fd, size, offset)
        if not part:
            break
        parts.append(part)
        size -= len(part)
        offset += len(part)
    return b"".join(parts)
