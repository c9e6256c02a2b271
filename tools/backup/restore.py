"""Brings a backup back: a new store, made of copies of its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...store.disk import files as disk
from ...store.disk.copying import lies_in, own_as, sizes_below
from ...store.disk.files import Folder, exists
from ...store.disk.paths import COMMIT_LOG, CUT_OFF
from ...store.disk.replacing import replace_file
from ...store.errors import Corrupt
from ..raw.files import BadInput
from .copier import Copier
from .folder import MANIFEST, MARK, Manifest, found_in, read_manifest

if TYPE_CHECKING:
    from pathlib import Path


class Restored(msgspec.Struct, frozen=True):
    """What was brought back: the backup's path and manifest, and the bytes that were copied."""

    backup: str
    manifest: Manifest
    copied_bytes: int


def backup_at(path: Path, name: str | None) -> Path:
    """The backup that a user means: the folder `path` itself, or of a folder of backups that with
    the name, or the newest. Raises BadInput.
    """
    if not exists(path):
        raise BadInput(f"there is no folder {path}")
    if not exists(path / MARK):
        if name is not None:
            raise BadInput(f"{path} is no folder of backups, so it has none of the name {name!a}")
        return path
    names = [found.name for found in found_in(path)]
    if not names:
        raise BadInput(f"{path} holds no whole backup")
    if name is not None and name not in names:
        raise BadInput(f"{path} holds no backup {name!a}: silo backups {path} lists them")
    return path / (name or names[-1])


def restore(backup: Path, store: Path) -> Restored:
    """Makes the store in the folder `store`, which must be empty, missing, or left by a restore
    that was cut off. Raises BadInput; Corrupt if the backup lacks a file; OSError (ENOSPC: the disk
    is full). Then the folder counts as no store.
    """
    if lies_in(store, backup):
        raise BadInput(f"{store} lies in the backup {backup}: give another folder")
    if not disk.is_folder(backup):
        raise BadInput(f"{backup} is a file: give the folder of a backup")
    with Folder.open(backup) as source:
        if source.has(CUT_OFF):
            raise Corrupt(f"{backup}/{CUT_OFF}", 0, "this backup was cut off: take another one")
        manifest = read_manifest(source)
        _check_files(source, manifest)
        _must_be_free(store)
        with Folder.open(store, create=True) as target:
            replace_file(target, CUT_OFF, b"")
            _empty(target)
            copier = Copier(source, target, links=False)
            for path, size in manifest.files.items():
                copier.file(path, size)
            _take_space(target, manifest)
            own_as(target, source)
            copier.make_durable()
            target.unlink(CUT_OFF)
            target.sync()
    return Restored(str(backup), manifest, copier.copied_bytes)


def _check_files(source: Folder, manifest: Manifest) -> None:
    """Raises Corrupt, which names the file, if the backup has not all files of its list."""
    found = dict(sizes_below(source))
    for path, size in manifest.files.items():
        has = found.get(path)
        if has is None:
            why = "the backup lacks this file: take another backup"
            raise Corrupt(f"{source.path}/{path}", 0, why)
        if has != size:
            why = f"the file has {has} bytes, and had {size} when the backup was made: take another"
            raise Corrupt(f"{source.path}/{path}", min(has, size), why)


def _must_be_free(store: Path) -> None:
    if not exists(store):
        return
    try:
        with Folder.open(store) as folder:
            names = folder.names()
    except NotADirectoryError as error:
        raise BadInput(f"{store} is a file: give a folder") from error
    if MANIFEST in names:
        raise BadInput(f"{store} is a backup: give a folder of its own")
    if names and CUT_OFF not in names:
        raise BadInput(f"{store} is not empty: give a new folder, or move what is there away")


def _empty(target: Folder) -> None:
    """Removes what a restore left that was cut off."""
    for name in target.names():
        if name == CUT_OFF:
            continue
        if target.about(name).is_folder:
            target.remove_tree(name)
        else:
            target.unlink(name)


def _take_space(target: Folder, manifest: Manifest) -> None:
    """Takes the space of the log's last file, to which the store will append."""
    logs = [path for path in manifest.files if path.startswith(f"{COMMIT_LOG}/")]
    for path in sorted(logs)[-1:]:
        with target.parent(path) as (folder, name), folder.file(name, write=True) as fd:
            disk.allocate(fd, 0, disk.size_of(fd))
            disk.sync_data(fd)
