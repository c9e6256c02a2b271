"""Tells whether a file is still the one that it was: not replaced, not written, not renamed."""

from __future__ import annotations

import hashlib
import os

from .files import Folder


def stamp(folder: Folder, name: str) -> int:
    """A number above 0 that another file of this name does not have, nor this one after a change of
    its bytes, its name or its rights. It is made of the inode and the time of its last change, to
    which no program can give a value of its choice. Raises FileNotFoundError.
    """
    found = _stat(folder, name)
    digest = hashlib.sha256(f"{found.st_ino}:{found.st_ctime_ns}".encode()).digest()
    return int.from_bytes(digest[:8], "big") | 1


def changed_ns(folder: Folder, name: str) -> int:
    """When the file's bytes, name or rights last changed, epoch ns. A copy has changed when it was
    made, whatever time of writing it was given. Raises FileNotFoundError.
    """
    return _stat(folder, name).st_ctime_ns


def _stat(folder: Folder, name: str) -> os.stat_result:
    return os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
