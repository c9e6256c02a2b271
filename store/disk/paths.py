"""The names of a store's folders and files. Those of mapped files are RocketMQ's."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from typing import Self

from .files import Folder

COMMIT_LOG = "commitlog"
CONSUME_QUEUE = "consumequeue"
INDEX = "index"
CONFIG = "config"
OURS = "silomq"
RECOVERY = "recovery"
TOPICS = "topics.json"
PROGRESS = "progress"
SOCKET = "silomq.sock"
LOCK = "lock"
ABORT = "abort"
#: Beside the mapped files, so that everybody who may read these can read it.
HOLES = "holes.json"
#: In a backup until it is whole (`tools/backup`).
CUT_OFF = "unfinished-backup"
LAYOUT_VERSION = 2
LAYOUT_FILE = "layout"
_FILE_NAME = re.compile("[0-9]{20}")


def made_by_a_store(address: str) -> bool:
    """Whether the address of a SOCKET is one that a store has bound: by its folder's descriptor. A
    service manager binds an absolute path.
    """
    return address.startswith("/proc/")


def file_name(offset: int) -> str:
    """The name of a mapped file: the offset of its first byte, in twenty digits."""
    return f"{offset:020d}"


def file_bases(folder: Folder) -> list[int]:
    """The offsets of the mapped files in `folder`, ascending. Names that are not twenty digits are
    ignored. Raises OSError.
    """
    bases = (int(name) for name in folder.names() if _FILE_NAME.fullmatch(name))
    return sorted(base for base in bases if base < 1 << 63)


class StoreFolders:
    """The open folders of the store at `path`; a context manager that closes them. With `create`
    missing folders are made.

    Raises OSError, with the path, if one of them cannot be opened or made. Then none stays open.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = False) -> None:
        with ExitStack() as opened:
            self.root = opened.enter_context(Folder.open(path, create=create))
            self.commit_log, self.consume_queue, self.index, self.config, self.ours = (
                opened.enter_context(self.root.folder(name, create=create))
                for name in (COMMIT_LOG, CONSUME_QUEUE, INDEX, CONFIG, OURS)
            )
            if create:
                # A durable message needs durable entries of the folders that lead to its file.
                self.root.sync()
            opened.pop_all()

    def close(self) -> None:
        folders = (
            self.ours,
            self.config,
            self.index,
            self.consume_queue,
            self.commit_log,
            self.root,
        )
        for folder in folders:
            folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
