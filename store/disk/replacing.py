"""Whole files: replacing one, so that a crash leaves the old or the new one, and copying one."""

from __future__ import annotations

import contextlib

from . import files as disk
from .files import Folder

_STEP = 1 << 20


def replace_file(folder: Folder, name: str, data: bytes, *, keep_backup: bool = False) -> None:
    """Makes `data` the whole of a small file, durably: after a crash it is the old or the new one.

    With `keep_backup` the file of before is `name`.bak then. After an OSError the file is whole
    too; it may be the new one, not yet durable, if the sync of the folder failed.
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
    """Makes the file of that name its backup, and lets it stay: at every moment there is a backup,
    and a main file. So it takes a second link and a rename over the old backup.
    """
    backup, link = f"{name}.bak", f"{name}.bak.tmp"
    with contextlib.suppress(FileNotFoundError):
        folder.unlink(link)  # left by a crash before the rename below
    try:
        folder.link(name, link)
    except FileNotFoundError:
        return
    folder.rename(link, folder, backup)
    # A rename does nothing where both names are links of one file: so it is when a crash came
    # right here.
    with contextlib.suppress(FileNotFoundError):
        folder.unlink(link)


def copy_file(folder: Folder, name: str, to: Folder, to_name: str) -> None:
    """Copies a file with its time of modification, durably."""
    with folder.file(name) as source, to.file(to_name, write=True, create=True) as target:
        disk.set_size(target, 0)
        for at in range(0, disk.size_of(source), _STEP):
            disk.write_at(target, disk.read_at(source, _STEP, at), at)
        disk.set_modified(target, folder.about(name).modified_ms)
        disk.sync_data(target)
