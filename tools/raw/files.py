"""A store's files as the tools see them: opened for reading only, mapped read-only, never made.

A folder that does not look like a store raises BadInput, which says where and what to do. The
command then ends with exit status 2, and nothing has been changed.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import msgspec

from ...conf.settings import Settings, load
from ...shm._memory import Mapping
from ...store.commitlog.log import CommitLog
from ...store.commitlog.log_reader import map_log_file
from ...store.consumequeue import queue as consumequeue
from ...store.disk import files as disk
from ...store.disk.files import Folder
from ...store.disk.paths import ABORT, COMMIT_LOG, CONSUME_QUEUE, INDEX, file_name
from ...store.errors import StoreError
from ...store.index import file as index
from ...store.record.javahash import java_parse_int
from ...store.recovery.checkpoint import (
    CHECKPOINT,
    CHECKPOINT_FIELDS_SIZE,
    CHECKPOINT_SIZE,
    Checkpoint,
    parse,
)
from ...store.recovery.layout import known_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ...store.disk.paths import StoreFolders

_MAPPED = 64
_HINTS = {
    COMMIT_LOG: "--set mapped_file_size_commit_log={0}",
    CONSUME_QUEUE: "--set mapped_file_size_consume_queue={0}",
    INDEX: "--set max_hash_slot_num=... --set max_index_num=...",
}


class BadInput(StoreError):
    """A tool cannot work on its input."""


class MappedName(msgspec.Struct, frozen=True):
    """One file of fixed size: its name as a number, its bytes, when it was last written (epoch
    ms).
    """

    base: int
    size: int
    mtime_ms: int


def read_settings(
    config: Path | None, overrides: Sequence[str], store: str | os.PathLike[str] | None = None
) -> Settings:
    """The settings with the sizes of the files in the folder `store`, as far as it knows them.
    Raises SettingError, OSError as `load`, and StoreError as `known_sizes`.

    max_message_size has its least value here, because the tools append nothing. So the settings are
    legal for a store of small files too.
    """
    return load(
        config,
        overrides=("max_message_size=10", *overrides),
        remembered=None if store is None else lambda _: known_sizes(store, of_lost=True),
    )


class StoreFiles:
    """The files of the store at `path`, with the sizes in `settings`. Raises BadInput.

    The last files that were used stay mapped; `close` drops the mappings.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Settings) -> None:
        self.path = os.fspath(path)
        self.settings = settings
        self.log_size = settings.mapped_file_size_commit_log
        self.queue_size = consumequeue.round_file_size(settings.mapped_file_size_consume_queue)
        self.index_size = (
            index.HEADER_SIZE
            + index.SLOT_SIZE * settings.max_hash_slot_num
            + index.ENTRY_SIZE * settings.max_index_num
        )
        self._views: OrderedDict[str, memoryview] = OrderedDict()
        if not disk.is_folder(self.path):
            what = "is not a folder" if disk.exists(self.path) else "does not exist"
            raise BadInput(f"{self.path} {what}: give the folder of a store")
        if not disk.is_folder(f"{self.path}/{COMMIT_LOG}"):
            self._names("")  # raises BadInput if the folder cannot be read
            raise BadInput(
                f"{self.path} has no folder {COMMIT_LOG}: it is not a store; give the folder that "
                f"holds {COMMIT_LOG}, {CONSUME_QUEUE} and {INDEX}"
            )
        self.log = self._log_files()
        self.log_bases = frozenset(file.base for file in self.log)

    def _log_files(self) -> list[MappedName]:
        """The files of the log. Those of a wrong length are left out if others have the right one:
        they are damaged. Otherwise the settings are wrong.
        """
        with Folder.open(f"{self.path}/{COMMIT_LOG}") as folder:
            log = CommitLog(cast("StoreFolders", SimpleNamespace(commit_log=folder)), self.log_size)
            sizes = log.sizes()
        damaged = {base for base, size in sizes.items() if size != self.log_size}
        if len(damaged) == len(sizes):
            damaged = set()
        return self._mapped(COMMIT_LOG, self.log_size, without=damaged)

    @property
    def clean(self) -> bool:
        """Whether the store was stopped in order: there is no file `abort`."""
        return not disk.exists(f"{self.path}/{ABORT}")

    def log_path(self, base: int) -> str:
        """Path of a commit-log file."""
        return f"{self.path}/{COMMIT_LOG}/{file_name(base)}"

    def queue_path(self, topic: str, queue_id: int, base: int | None = None) -> str:
        """Path of a queue's folder, or of a file in it."""
        folder = f"{self.path}/{CONSUME_QUEUE}/{topic}/{queue_id}"
        return folder if base is None else f"{folder}/{file_name(base)}"

    def has_extension(self, topic: str) -> bool:
        """Whether entries of the topic's queues may lead to RocketMQ's consumequeue_ext instead of
        having the hash of the tags.
        """
        return disk.is_folder(f"{self.path}/{CONSUME_QUEUE}_ext/{topic}")

    def index_path(self, name: int) -> str:
        """Path of an index file."""
        return f"{self.path}/{INDEX}/{name:017d}"

    def queues(self) -> list[tuple[str, int]]:
        """The queues that have a folder, by topic and number. Skips other folders, as RocketMQ
        does.
        """
        found = []
        for topic in self._names(CONSUME_QUEUE):
            if topic == consumequeue.HALF_MADE:
                continue
            self._must_be_folder(f"{CONSUME_QUEUE}/{topic}")
            for name in self._names(f"{CONSUME_QUEUE}/{topic}"):
                self._must_be_folder(f"{CONSUME_QUEUE}/{topic}/{name}")
                try:
                    queue_id = java_parse_int(name)
                except ValueError:
                    continue
                if str(queue_id) == name:
                    found.append((topic, queue_id))
        return sorted(found, key=queue_order)

    def queue_files(self, topic: str, queue_id: int) -> list[MappedName]:
        """The files of one queue, ascending."""
        return self._mapped(f"{CONSUME_QUEUE}/{topic}/{queue_id}", self.queue_size)

    def index_files(self) -> list[int]:
        """Names of the index files as numbers, ascending."""
        return [found.base for found in self._mapped(INDEX, self.index_size, digits=17)]

    def log_view(self, base: int) -> memoryview:
        """All bytes of the commit-log file at `base`, mapped read-only."""
        return self._kept(
            self.log_path(base), lambda folder, _: map_log_file(folder, base, self.log_size)
        )

    def view(self, path: str) -> memoryview:
        """All bytes of a file of queues or index, mapped read-only."""
        return self._kept(path, _map_whole)

    def map(self, path: str) -> memoryview:
        """All bytes of a file of queues or index, mapped read-only. The caller keeps the view."""
        place, _, name = path.rpartition("/")
        try:
            with Folder.open(place) as folder:
                return memoryview(_map_whole(folder, name)).toreadonly()
        except OSError as error:
            raise _unreadable(path, error) from error

    def _kept(self, path: str, make: Callable[[Folder, str], Mapping]) -> memoryview:
        """A file's mapping, made again if it is not among the last used."""
        view = self._views.pop(path, None)
        if view is None:
            place, _, name = path.rpartition("/")
            try:
                with Folder.open(place) as folder:
                    view = memoryview(make(folder, name)).toreadonly()
            except OSError as error:
                raise _unreadable(path, error) from error
            while len(self._views) >= _MAPPED:
                self._views.popitem(last=False)
        self._views[path] = view
        return view

    @staticmethod
    def read_ahead(view: memoryview, offset: int, length: int) -> None:
        """Asks the kernel to read a part of a mapped file that will be used soon."""
        mapping = view.obj
        assert isinstance(mapping, Mapping)
        disk.read_ahead(mapping, offset, length)

    def checkpoint(self) -> Checkpoint:
        """The checkpoint; all zero if the file is missing, as in RocketMQ. Raises BadInput."""
        data = self.small_file(CHECKPOINT)
        if data is None:
            return Checkpoint()
        if len(data) < CHECKPOINT_FIELDS_SIZE:
            raise BadInput(
                f"{self.path}/{CHECKPOINT} has {len(data)} bytes, not {CHECKPOINT_SIZE}: restore "
                "it from a copy, or remove it (then all of the log is read again)"
            )
        return parse(data)

    def small_file(self, name: str) -> bytes | None:
        """The bytes of a file below the store's folder; None if there is no such file."""
        try:
            with Folder.open(self.path) as root, root.parent(name) as (folder, last):
                return folder.read(last)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(f"{self.path}/{name}", error) from error

    def json_files(self) -> list[str]:
        """The JSON files below `config`, relative to the store's folder."""
        return [f"config/{name}" for name in self._names("config") if name.endswith(".json")]

    def close(self) -> None:
        """Drops all mappings."""
        self._views.clear()

    def _names(self, folder: str) -> list[str]:
        path = f"{self.path}/{folder}" if folder else self.path
        try:
            with Folder.open(path) as opened:
                return opened.names()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unreadable(path, error) from error

    def _about(self, folder: str, name: str) -> disk.About:
        path = f"{self.path}/{folder}"
        try:
            with Folder.open(path) as opened:
                return opened.about(name)
        except OSError as error:
            raise _unreadable(f"{path}/{name}", error) from error

    def _must_be_folder(self, name: str) -> None:
        with Folder.open(self.path) as root, root.parent(name) as (folder, last):
            if not folder.about(last).is_folder:
                raise BadInput(
                    f"{self.path}/{name} is not a folder: it is none of the store's; move it away"
                )

    def _mapped(
        self, folder: str, size: int, digits: int = 20, without: Collection[int] = ()
    ) -> list[MappedName]:
        """The files of `folder`, each of `size` bytes, but for those in `without`. An empty last
        file is left out: a crash leaves it, and both SiloMQ and RocketMQ drop it. Folders within
        are ignored. Raises BadInput.
        """
        found = []
        names = self._names(folder)
        for name in names:
            path = f"{self.path}/{folder}/{name}"
            if disk.is_folder(path):
                continue
            about = self._about(folder, name)
            if len(name) != digits or not (name.isascii() and name.isdigit()):
                raise BadInput(
                    f"{path} is none of the store's files (their names are {digits} digits): "
                    "move it away"
                )
            if int(name) in without:
                continue
            if about.size != size:
                if about.size == 0 and name == names[-1]:
                    continue
                raise self._wrong_size(folder, path, about.size, size)
            found.append(MappedName(int(name), size, about.modified_ms))
        return found

    def _wrong_size(self, folder: str, path: str, has: int, wanted: int) -> BadInput:
        kind = folder.split("/", maxsplit=1)[0]
        hint = _HINTS[kind].format(has)
        return BadInput(
            f"{path} has {has} bytes, by the settings it must have {wanted}: give the store's own "
            f"({hint}), or restore the file from a copy"
        )


def _map_whole(folder: Folder, name: str) -> Mapping:
    with folder.file(name) as fd:
        return disk.map_file(fd, 0, disk.size_of(fd), writable=False)


def queue_order(queue: tuple[str, int]) -> tuple[bytes, int]:
    """A key that sorts queues by topic as Java does, by UTF-16 units."""
    return queue[0].encode("utf-16-be", "surrogatepass"), queue[1]


def _unreadable(path: str, error: OSError) -> BadInput:
    return BadInput(f"cannot read {path}: {error.strerror or error}; run as a user who may")
