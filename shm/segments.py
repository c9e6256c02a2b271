"""The named objects of a store, shared segments and semaphores, and their removal.

A name holds the store's identity, which is made from the device and inode of its folder. So two
stores never share an object. A copied folder is another store, and a renamed one is the same. Only
the store's user can open segments, whatever the umask. Clients get read-only descriptors over the
registry's socket.

Every user may make objects in /dev/shm, also under the names of a store that does not run. A start
believes what a killed run has left there: which processes to await, how far the log was, the bytes
of the pool. So it takes only objects of root, of its own user, or of the owner of the store's
folder, and removes all others.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import posix_ipc

from ._memory import Mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

MODE = 0o600
#: Where Linux keeps POSIX objects.
SHM = Path("/dev/shm")  # noqa: S108 - not for temporary files
_NAME = re.compile(r"(?:sem\.)?silomq-([0-9a-f]{16})-.+")


def store_identity(folder: str | os.PathLike[str]) -> int:
    """64 bits that identify the store in `folder` on this machine. Raises OSError."""
    found = os.stat(folder)
    digest = hashlib.sha256(f"{found.st_dev}:{found.st_ino}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def object_name(store_id: int, kind: str) -> str:
    """The name of one of the store's objects, as shm_open and sem_open take it."""
    return f"/silomq-{store_id:016x}-{kind}"


def create_segment(store_id: int, kind: str, size: int) -> Mapping:
    """A new zeroed segment, mapped for writing. Raises posix_ipc.ExistentialError if the name is
    taken, OSError when /dev/shm is too small (ENOSPC) or cannot be written to.
    """
    with _explained(f"a segment of {size:,} bytes"):
        return _create_segment(store_id, kind, size)


def _create_segment(store_id: int, kind: str, size: int) -> Mapping:
    memory = posix_ipc.SharedMemory(object_name(store_id, kind), posix_ipc.O_CREX, mode=MODE)
    try:
        os.fchmod(memory.fd, MODE)
        # Allocates the memory now. Otherwise a full /dev/shm would cause a SIGBUS at a later write.
        os.posix_fallocate(memory.fd, 0, size)
        return Mapping(memory.fd, 0, size)
    finally:
        memory.close_fd()


def open_segment(store_id: int, kind: str) -> int:
    """A read-only descriptor of a segment, for clients. The caller closes it. Raises
    posix_ipc.ExistentialError if there is no such segment.
    """
    memory = posix_ipc.SharedMemory(object_name(store_id, kind), flags=0, mode=0, read_only=True)
    return int(memory.fd)


def open_leftover(store_id: int, kind: str, owner: int) -> int | None:
    """A read-only descriptor of a segment that a run before this one has left, which the caller
    closes. None if there is none that root, this user or `owner` has made.
    """
    try:
        fd = open_segment(store_id, kind)
    except (posix_ipc.ExistentialError, posix_ipc.PermissionsError):
        return None
    if _is_trusted(os.fstat(fd), owner):
        return fd
    os.close(fd)
    return None


def _is_trusted(about: os.stat_result, owner: int) -> bool:
    """A second name (hard link) may have been given to an object of another store."""
    users = (0, os.geteuid(), owner)
    return about.st_uid in users and stat.S_ISREG(about.st_mode) and about.st_nlink == 1


def remove_strangers(store_id: int, owner: int) -> list[str]:
    """Removes objects under the store's names that another user has made, and returns their names.
    Raises PermissionError if this user may not.
    """
    removed = []
    for name in leftovers(store_id):
        with contextlib.suppress(FileNotFoundError):
            about = os.lstat(SHM / name)
            if _is_trusted(about, owner):
                continue
            try:
                os.unlink(SHM / name)
            except PermissionError as error:
                why = (
                    f"user {about.st_uid} has made an object of this store's name, which only "
                    "that user and root may remove: remove it"
                )
                raise PermissionError(error.errno, why, str(SHM / name)) from error
            removed.append(name)
    return removed


def map_segment(store_id: int, kind: str) -> Mapping:
    """An existing segment, mapped for writing. Raises posix_ipc.ExistentialError if there is no
    such segment.
    """
    memory = posix_ipc.SharedMemory(object_name(store_id, kind))
    try:
        return Mapping(memory.fd, 0, os.fstat(memory.fd).st_size)
    finally:
        memory.close_fd()


def open_semaphore(store_id: int, kind: str) -> posix_ipc.Semaphore:
    """An existing semaphore. Raises posix_ipc.ExistentialError if there is none."""
    return posix_ipc.Semaphore(object_name(store_id, kind))


def create_semaphore(store_id: int, kind: str) -> posix_ipc.Semaphore:
    """A new semaphore with the count 0. Raises OSError as `create_segment`."""
    with _explained("a semaphore"):
        semaphore = posix_ipc.Semaphore(object_name(store_id, kind), posix_ipc.O_CREX, mode=MODE)
    with contextlib.suppress(FileNotFoundError):
        os.chmod(SHM / f"sem.{semaphore.name[1:]}", MODE)
    return semaphore


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Raises errors again with a sentence that names /dev/shm and says what to do."""
    try:
        yield
    except posix_ipc.ExistentialError:
        raise
    except posix_ipc.PermissionsError as error:
        why = f"cannot make {what} there: this user may not write to it"
        raise PermissionError(errno.EACCES, why, str(SHM)) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            why = (
                f"no room for {what}: free some there (`ls -l {SHM}` lists who has it), or mount "
                f"it larger (`mount -o remount,size=2G {SHM}`)"
            )
        else:
            why = f"cannot make {what} there ({error.strerror}): it must be a tmpfs, mounted rw"
        raise OSError(error.errno, why, str(SHM)) from error


def leftovers(store_id: int) -> list[str]:
    """The names below /dev/shm of this store's objects that exist now."""
    prefix = object_name(store_id, "")[1:]
    names = os.listdir(SHM) if SHM.is_dir() else []
    return sorted(name for name in names if name.removeprefix("sem.").startswith(prefix))


def objects_of_stores() -> dict[int, list[str]]:
    """The names below /dev/shm of all stores' objects, by the stores' identities."""
    found: dict[int, list[str]] = {}
    for name in sorted(os.listdir(SHM) if SHM.is_dir() else []):
        match = _NAME.fullmatch(name)
        if match:
            found.setdefault(int(match[1], 16), []).append(name)
    return found


def remove_all(store_id: int) -> list[str]:
    """Unlinks every object of the store and returns their names. Existing mappings stay valid."""
    removed = []
    for name in leftovers(store_id):
        with contextlib.suppress(posix_ipc.ExistentialError):
            if name.startswith("sem."):
                posix_ipc.unlink_semaphore("/" + name.removeprefix("sem."))
            else:
                posix_ipc.unlink_shared_memory("/" + name)
            removed.append(name)
    return removed
