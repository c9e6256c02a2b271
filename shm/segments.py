"""The named objects of a store, shared segments and semaphores, and the removal of those that a
dead store left.

Names are made of the store's identity, the device and inode of its folder. So two stores never
share an object, a copied folder is another store, and a renamed one is the same. Segments belong to
the store's user and are closed to everybody else, whatever the umask. Clients get read-only
descriptors over the registry's socket.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import posix_ipc

from ._memory import Mapping

MODE = 0o600
_SHM = Path("/dev/shm")  # noqa: S108 - not for temporary files: Linux keeps POSIX objects there


def store_identity(folder: str | os.PathLike[str]) -> int:
    """64 bits that name the store in `folder` on this machine."""
    found = os.stat(folder)
    digest = hashlib.sha256(f"{found.st_dev}:{found.st_ino}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def object_name(store_id: int, kind: str) -> str:
    """The name of one of the store's objects, as shm_open and sem_open take it."""
    return f"/silomq-{store_id:016x}-{kind}"


def create_segment(store_id: int, kind: str, size: int) -> Mapping:
    """A new zeroed segment, mapped for writing. Raises posix_ipc.ExistentialError if the name is
    taken, OSError (ENOSPC) when /dev/shm has too little.
    """
    memory = posix_ipc.SharedMemory(object_name(store_id, kind), posix_ipc.O_CREX, mode=MODE)
    try:
        os.fchmod(memory.fd, MODE)
        # Takes the memory now: a full /dev/shm is an error here, not a SIGBUS later.
        os.posix_fallocate(memory.fd, 0, size)
        return Mapping(memory.fd, 0, size)
    finally:
        memory.close_fd()


def open_segment(store_id: int, kind: str) -> int:
    """A read-only descriptor of a segment, to hand to clients. The caller closes it. Raises
    posix_ipc.ExistentialError if there is none.
    """
    memory = posix_ipc.SharedMemory(object_name(store_id, kind), flags=0, mode=0, read_only=True)
    return int(memory.fd)


def create_semaphore(store_id: int, kind: str) -> posix_ipc.Semaphore:
    """A new semaphore with the count 0."""
    semaphore = posix_ipc.Semaphore(object_name(store_id, kind), posix_ipc.O_CREX, mode=MODE)
    with contextlib.suppress(FileNotFoundError):
        os.chmod(_SHM / f"sem.{semaphore.name[1:]}", MODE)
    return semaphore


def leftovers(store_id: int) -> list[str]:
    """The names below /dev/shm of this store's objects that exist now."""
    prefix = object_name(store_id, "")[1:]
    names = os.listdir(_SHM) if _SHM.is_dir() else []
    return sorted(name for name in names if name.removeprefix("sem.").startswith(prefix))


def remove_all(store_id: int) -> list[str]:
    """Unlinks every object of the store; a process that maps one keeps it. Returns the names."""
    removed = []
    for name in leftovers(store_id):
        with contextlib.suppress(posix_ipc.ExistentialError):
            if name.startswith("sem."):
                posix_ipc.unlink_semaphore("/" + name.removeprefix("sem."))
            else:
                posix_ipc.unlink_shared_memory("/" + name)
            removed.append(name)
    return removed
