"""Replaces whole files, so that a crash leaves the old or the new one, and copies files."""

from __future__ import annotations

import contextlib
import os

from . import files as disk
from .files import Folder

_STEP = 1 << 20


def replace_file(folder: Folder, name: str, data: bytes, *, keep_backup: bool = False) -> None:
    """Replaces a small file by `data`, durably: after a crash it is the old or the new one.

    With `keep_backup` the old file becomes `name`.bak. Raises OSError. Then, too, the file is
    whole: the old one or, if the sync of the folder failed, the new one, which is not yet durable.
    """
    temporary = f"{name}.tmp"
    with folder.file(temporary, write=True, create=True) as fd:
        disk.set_size(fd, 0)
        disk.write_at(fd, data, 0)
        disk.sync_data(fd)
    if keep_backup:
        _keep_backup(folder, name)
    folder.rename(temporary, folder, name)
    folder.sync()


def _keep_backup(folder: Folder, name: str) -> None:
    """Makes the file its own backup. A second link, renamed over the old backup, does that: at
    every moment there are a main file and, if there was one, a backup.
    """
    backup, link = f"{name}.bak", f"{name}.bak.tmp"
    with contextlib.suppress(FileNotFoundError):
        folder.unlink(link)  # left by a crash before the rename below
    try:
        folder.link(name, link)
    except FileNotFoundError:
        return
    folder.rename(link, folder, backup)
    # A rename does nothing if both names are links of one file, and leaves both. They are if an
    # earlier run made the backup and was killed before it replaced the main file.
    with contextlib.suppress(FileNotFoundError):
        folder.unlink(link)


def own_file(folder: Folder, name: str) -> None:
    """Ends that a file of the log is shared with a backup, before its bytes are changed: it becomes
    a copy, durably, if it has further names (hard links). Raises OSError; then nothing has changed.
    """
    if not folder.has(name) or _links(folder, name) < 2:
        return
    own = f"{name}.own"
    try:
        copy_file(folder, name, folder, own)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            folder.unlink(own)
        raise
    folder.rename(own, folder, name)
    folder.sync()


def _links(folder: Folder, name: str) -> int:
    return os.stat(name, dir_fd=folder.fd, follow_symlinks=False).st_nlink


def copy_file(folder: Folder, name: str, to: Folder, to_name: str) -> None:
    """Copies a file with its time of modification, durably but for the new file's entry in the
    folder. Raises OSError.
    """
    with folder.file(name) as source, to.file(to_name, write=True, create=True) as target:
        disk.set_size(target, 0)
        for at in range(0, disk.size_of(source), _STEP):
            disk.write_at(target, disk.read_at(source, _STEP, at), at)
        disk.set_modified(target, folder.about(name).modified_ms)
        disk.sync_data(target)
