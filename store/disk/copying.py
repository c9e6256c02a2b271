"""Copies of single files into another folder, which may be on another file system.

The ways, the cheapest first: a hard link (`Folder.link`), a *clone*, which shares its blocks with
the original until one of the two is written (btrfs, XFS), and a plain copy.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from . import files as disk
from .files import Folder

_FICLONE = 0x40049409
_STEP = 1 << 20
#: What the system answers if a file cannot be cloned into that place, or linked there.
_NO_CLONE = (errno.EXDEV, errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EPERM)
NO_LINK = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)


def clone(source: int, target: int) -> bool:
    """Makes the empty file `target` a clone of `source` (descriptors). False if the file system
    cannot do that. Raises OSError.
    """
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno in _NO_CLONE:
            return False
        raise
    return True


def copy_bytes(source: int, target: int, length: int) -> None:
    """Copies the first `length` bytes; pieces of nothing but zeros become holes. Raises OSError,
    ENODATA if the source is shorter.
    """
    at = 0
    while at < length:
        data = disk.read_at(source, min(_STEP, length - at), at)
        if not data:
            raise OSError(errno.ENODATA, f"the file ends at {at}, and {length} bytes are needed")
        if data.count(0) != len(data):
            disk.write_at(target, data, at)
        at += len(data)


def same_bytes(one: int, other: int, length: int) -> bool:
    """Whether two files have the same first `length` bytes. Raises OSError."""
    for at in range(0, length, _STEP):
        size = min(_STEP, length - at)
        if disk.read_at(one, size, at) != disk.read_at(other, size, at):
            return False
    return True


@contextmanager
def new_file(folder: Folder, name: str) -> Iterator[int]:
    """The descriptor of a new file. It gets its name at the end of the context, so that a file of
    this name is whole; after an exception there is none. Raises OSError.
    """
    part = f"{name}.part"
    try:
        with folder.file(part, write=True, create=True) as fd:
            disk.set_size(fd, 0)
            yield fd
    except BaseException:
        folder.unlink(part)
        raise
    folder.rename(part, folder, name)


def own_as(folder: Folder, like: Folder) -> None:
    """Gives a folder and all that it holds to the owner and the group of another folder, so that
    the store's user can use what root has copied. Other users keep what they make. Raises OSError.
    """
    if os.geteuid() == 0:
        about = os.fstat(like.fd)
        _give(folder, about.st_uid, about.st_gid)


def _give(folder: Folder, uid: int, gid: int) -> None:
    for name in folder.names():
        if folder.about(name).is_folder:
            with folder.folder(name) as inner:
                _give(inner, uid, gid)
        else:
            os.chown(name, uid, gid, dir_fd=folder.fd, follow_symlinks=False)
    os.fchown(folder.fd, uid, gid)


def sync_folders(folder: Folder) -> None:
    """Makes the entries of a folder and of all folders below it durable. Raises OSError."""
    for name in folder.names():
        if folder.about(name).is_folder:
            with folder.folder(name) as inner:
                sync_folders(inner)
    folder.sync()


def sizes_below(folder: Folder, prefix: str = "") -> Iterator[tuple[str, int]]:
    """The path below the folder and the size in bytes of each file in it. Raises OSError."""
    for name in folder.names():
        about = folder.about(name)
        if about.is_folder:
            with folder.folder(name) as inner:
                yield from sizes_below(inner, f"{prefix}{name}/")
        else:
            yield f"{prefix}{name}", about.size


def lies_in(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> bool:
    """Whether `path`, which need not exist, is the folder or lies below it, also by way of links
    or of another mount of the same folder. Raises OSError.
    """
    if not os.path.exists(folder):
        return False
    wanted = os.stat(folder)
    at = os.path.realpath(path)
    while True:
        try:
            if os.path.samestat(os.stat(at), wanted):
                return True
        except (FileNotFoundError, NotADirectoryError):
            pass  # not made yet: its parents count
        above = os.path.dirname(at)
        if above == at:
            return False
        at = above
