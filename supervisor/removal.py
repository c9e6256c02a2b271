"""Removes a store that does not run: its files, and what it left in shared memory."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from ..shm import segments
from ..store.disk import paths
from ..store.disk.files import Folder
from .claim import await_old_actors, take_lock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: The names in a store's folder that are RocketMQ's or ours. Whatever else lies there stays.
_NAMES: Final = frozenset(
    (
        *(paths.COMMIT_LOG, paths.CONSUME_QUEUE, paths.INDEX, paths.CONFIG, paths.OURS),
        *(paths.RECOVERY, paths.SOCKET, paths.LOCK, paths.ABORT, paths.HOLES),
        "checkpoint",
    )
)


def remove_store(path: Path) -> None:
    """Removes the store in the folder `path`, and the folder if nothing else is in it. Nothing
    happens if there is no such folder. Raises AlreadyRunning if another process has the store,
    OSError, StoreError.
    """
    with contextlib.suppress(FileNotFoundError):
        with Folder.open(path) as folder, _locked(folder):
            store_id = segments.store_identity(path)
            await_old_actors(store_id, folder.about(".").owner)
            segments.remove_all(store_id)
            for name in folder.names():
                if name in _NAMES:
                    _remove(folder, name)
            rest = folder.names()
        if not rest:
            whole = os.path.abspath(path)
            with Folder.open(os.path.dirname(whole)) as parent:
                parent.remove_folder(os.path.basename(whole))


@contextlib.contextmanager
def _locked(folder: Folder) -> Iterator[None]:
    fd = take_lock(folder)
    try:
        yield
    finally:
        os.close(fd)


def _remove(folder: Folder, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if folder.about(name).is_folder:
            folder.remove_tree(name)
        else:
            folder.unlink(name)
