"""What a store holds at one moment: the bounds of its log and of its queues. Spark-free.

For a running store they come from its shared memory. For a stopped store, or a copy, they come from
the files; file sizes are those on the disk, so no settings are needed. Nothing is written, and no
process is blocked.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from ...client.errors import StoreClosed
from ...client.session import Connection
from ...store.commitlog import _scan as kernel
from ...store.commitlog.log_reader import map_log_file
from ...store.consumequeue.queue import (
    BLANK_SIZE,
    ENTRY_SIZE,
    QueueFiles,
    count_entries,
    read_entry,
)
from ...store.disk import files as disk
from ...store.disk.files import Folder
from ...store.disk.paths import (
    ABORT,
    COMMIT_LOG,
    CONSUME_QUEUE,
    OURS,
    SOCKET,
    file_bases,
    file_name,
)
from ...store.errors import StoreError
from ...store.recovery.unsupported import refuse_unsupported
from ...store.status import AckLevel
from ...store.topics.deletions import Deletions

if TYPE_CHECKING:
    from collections.abc import Callable

_ANY_TIME: Final = -(1 << 63)
Queue = tuple[str, int]


class NotAStore(StoreError):
    """A folder that was to be read is not a store."""


class DataLoss(StoreError):
    """Data that was selected is no longer in the store."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A store in the folder `path`. `log_files` are the offsets of its commit-log files, each of
    `log_size` bytes; records lie in [`least`, `end`). `queues` has the bounds [least, end) of each
    queue's offsets. `queues_whole` says whether the queues have all records below `end`; they may
    not after a kill. Records of a topic in `deleted` that lie below the log offset given there
    belong to the deleted topic.
    """

    path: str
    log_size: int
    queue_size: int
    log_files: tuple[int, ...]
    least: int
    end: int
    queues: dict[Queue, tuple[int, int]]
    queues_whole: bool
    deleted: dict[str, int]


class Watch:
    """Takes snapshots of one store, repeatedly; while the store runs they share a connection."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)
        self._link: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self) -> Snapshot:
        """The store as it is now. Raises NotAStore, UnsupportedFeature, OSError."""
        if not disk.is_folder(f"{self.path}/{COMMIT_LOG}"):
            refuse_unsupported(self.path)
            raise NotAStore(
                f"{self.path} is no store: there is no folder {COMMIT_LOG} in it; give the folder "
                f"that holds {COMMIT_LOG} and {CONSUME_QUEUE}"
            )
        if self._link is not None and not self._link.is_alive():
            self.close()
        if self._link is None and disk.exists(f"{self.path}/{SOCKET}"):
            try:
                self._link = Connection(self.path, client="data source")
            except StoreClosed:
                # No process listens at this socket: the store was killed, or this is a copy of it.
                self._link = None
        return of_files(self.path) if self._link is None else of_running(self._link)

    def close(self) -> None:
        """Ends the connection."""
        if self._link is not None:
            self._link.close()
            self._link = None


def take(path: str | os.PathLike[str]) -> Snapshot:
    """The store in folder `path`, as it is now. Raises NotAStore, OSError."""
    with Watch(path) as watch:
        return watch.take()


def of_running(link: Connection) -> Snapshot:
    """A snapshot of the running store behind `link`. Ends are read before beginnings, because files
    may be removed meanwhile; queue ends are read before the log's end, because dispatch follows the
    log.
    """
    control, table, config = link.control, link.table, link.config
    topics = list(table.topics())
    ends = table.queue_column("max_offset")
    leasts = table.queue_column("min_offset")
    queues = {
        (topic.name, queue_id): (min(leasts[slot], ends[slot]), ends[slot])
        for topic in topics
        for queue_id, slot in enumerate(topic.slots)
        if 0 <= slot < len(leasts) and ends[slot]
    }
    # Records that are still in the pool are in no file.
    end = control.load("committed" if config.level == AckLevel.MEMORY else "wrote")
    least = min(control.load("min_offset"), end)
    size = config.file_size_commit_log
    files = tuple(range(least - least % size, end, size))
    path = os.path.abspath(link.path)
    return Snapshot(
        path=path,
        log_size=size,
        queue_size=config.file_size_consume_queue,
        log_files=files,
        least=least,
        end=end,
        queues=queues,
        queues_whole=True,
        deleted=_deleted(path),
    )


def of_files(path: str) -> Snapshot:
    """A snapshot of a store that does not run, from its files. Raises NotAStore, and
    UnsupportedFeature for a store of RocketMQ whose records or queues are of another kind.
    """
    refuse_unsupported(path)
    clean = not disk.exists(f"{path}/{ABORT}")
    with Folder.open(path) as root:
        with root.folder(COMMIT_LOG) as log:
            bases = file_bases(log)
            # A crash leaves an empty last file, which both SiloMQ and RocketMQ drop.
            while bases and not log.size(file_name(bases[-1])):
                bases.pop()
            size = log.size(file_name(bases[0])) if bases else 0
            _check_sizes(log, bases, size)
            end = _log_end(log, bases, size, check_crc=not clean) if bases else 0
        # A file that lacks in between counts: its reader says that it is missing.
        files = tuple(range(bases[0], end, size)) if bases else ()
        least = files[0] if files else end
        queue_size = 0
        queues: dict[Queue, tuple[int, int]] = {}
        if disk.is_folder(f"{path}/{CONSUME_QUEUE}"):
            with root.folder(CONSUME_QUEUE) as folder:
                queue_size, queues = _queues(folder, least, end)
    return Snapshot(
        path=path,
        log_size=size,
        queue_size=queue_size,
        log_files=files,
        least=least,
        end=end,
        queues=queues,
        queues_whole=clean and bool(queues),
        deleted=_deleted(path),
    )


def _deleted(path: str) -> dict[str, int]:
    if not disk.is_folder(f"{path}/{OURS}"):  # a store of RocketMQ's
        return {}
    with Folder.open(path) as root, root.folder(OURS) as ours:
        topics = Deletions.read(ours).topics
    return {topic: deletion.below for topic, deletion in topics.items()}


def _check_sizes(log: Folder, bases: list[int], size: int) -> None:
    for base in bases:
        found = log.size(file_name(base))
        if found != size or base % size:
            raise NotAStore(
                f"{log.path}/{file_name(base)} has {found} bytes, and the first file of the log "
                f"{size}: all must be as long, and named by multiples of that; copy it again"
            )


def _log_end(log: Folder, bases: list[int], size: int, *, check_crc: bool) -> int:
    """Where the log ends: behind the last good record. Bad bytes before that are damage, which the
    reader of the log reports.
    """
    for base in reversed(bases):
        view = memoryview(map_log_file(log, base, size))
        position, _, _, why = kernel.scan(view, 0, base, check_crc)
        while why not in (kernel.FULL, kernel.END_OF_FILE):
            found, _ = kernel.find_record(view, position + 1, base, _ANY_TIME)
            if found < 0:
                break
            position, _, _, why = kernel.scan(view, found, base, check_crc)
        if position:
            return base + position
    return bases[0]


def _queues(root: Folder, least: int, end: int) -> tuple[int, dict[Queue, tuple[int, int]]]:
    """The size of the queues' files, and the bounds of each queue, counting records in [least,
    end).
    """
    found: dict[Queue, tuple[int, int]] = {}
    size = 0
    for topic, queue_id, folder in QueueFiles(root, ENTRY_SIZE).queues():
        bases = file_bases(folder)
        if not bases:
            continue
        size = size or folder.size(file_name(bases[0]))
        high = count_entries(folder, bases, size, end)
        low = bases[0] // ENTRY_SIZE

        def is_there(offset: int, queue: Folder = folder, size: int = size) -> bool:
            at, length, _ = read_entry(queue, size, offset)
            return at >= least and length != BLANK_SIZE

        found[topic, queue_id] = (first_true(is_there, low, high), high)
    return size, found


def first_true(test: Callable[[int], bool], low: int, high: int) -> int:
    """The first number of [low, high) that passes `test`, if all after it pass too; `high` if none
    does.
    """
    while low < high:
        middle = (low + high) // 2
        if test(middle):
            high = middle
        else:
            low = middle + 1
    return low
