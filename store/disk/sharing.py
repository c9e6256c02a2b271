"""Lets a group of users read a store: its files, its folders, and what is made in them later.

A folder with the set-group-id bit gives its group to everything that is made in it, and the bit to
folders. So a store needs `share_tree` for what is there when it starts, and for the rest only a
umask that does not take the group's rights away.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from ..errors import StoreError
from .files import Folder

#: What a umask must take away from others and leave to the group.
UMASK: Final = 0o027
_FOLDER: Final = 0o2050
_FILE: Final = 0o040


def share_tree(folder: Folder, gid: int) -> None:
    """Gives the folder and all that it holds to a group that may read it. Links are left out.
    Others lose their rights to the folder itself. Raises StoreError if this user may not do so.
    """
    about = os.fstat(folder.fd)
    if about.st_gid != gid or stat.S_IMODE(about.st_mode) != 0o2750:
        _give(folder.fd, folder.path, gid, 0o2750)
    _share_inside(folder, gid)


def _share_inside(folder: Folder, gid: int) -> None:
    with os.scandir(folder.fd) as entries:
        found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    for name, about in found:
        if stat.S_ISDIR(about.st_mode):
            with folder.folder(name) as inner:
                _share(inner.fd, inner.path, about, gid, _FOLDER)
                _share_inside(inner, gid)
        elif stat.S_ISREG(about.st_mode) and _is_wrong(about, gid, _FILE):
            with folder.file(name) as fd:
                _share(fd, f"{folder.path}/{name}", about, gid, _FILE)


def _is_wrong(about: os.stat_result, gid: int, rights: int) -> bool:
    return about.st_gid != gid or about.st_mode & rights != rights


def _share(fd: int, path: str, about: os.stat_result, gid: int, rights: int) -> None:
    if _is_wrong(about, gid, rights):
        _give(fd, path, gid, stat.S_IMODE(about.st_mode) | rights)


def _give(fd: int, path: str, gid: int, mode: int) -> None:
    try:
        os.fchown(fd, -1, gid)
        os.fchmod(fd, mode)
    except PermissionError as error:
        raise StoreError(
            f"cannot let group {gid} read {path}: user {os.geteuid()} must own it and be a member "
            f"of the group (socket_group); give it away by: chgrp -R {gid} and chmod -R g+rX"
        ) from error
