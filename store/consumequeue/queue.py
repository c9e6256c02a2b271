"""Consume queues: one folder for each queue with files of 20-byte entries, and the windows through
which reput writes them.

A queue's file has RocketMQ's length from the start, but is sparse: the space of a window is taken
before the window is mapped. A window is a multiple of 20,480 bytes, the least common multiple of an
entry and a page. It starts small and grows with the queue, so that 40,000 queues do not take 240
GB. `vm.max_map_count` bounds how many windows are mapped.

The dispatch kernel writes the entries (`store/dispatch/_dispatch.pyx`, with `entries.h`).

Layout entry:

======  ====  ====  =========  =======
offset  size  type  field      meaning
======  ====  ====  =========  =======
0       8     i64   offset     of the record in the commit log
8       4     i32   size       of the whole record, bytes
12      8     i64   tags_code  Java hash of the tags; of a delayed message its due time, epoch ms
======  ====  ====  =========  =======
"""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from ...shm._memory import Mapping
from ..disk import files as disk
from ..disk.files import Folder
from ..disk.paths import file_bases, file_name

if TYPE_CHECKING:
    from collections.abc import Iterator

ENTRY = struct.Struct(">qiq")
ENTRY_SIZE = 20
#: Names and types of an entry's fields, as numpy takes them.
ENTRY_FIELDS = (("offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8"))
LAYOUTS = {"entry": {"offset": (0, 8), "size": (8, 4), "tags_code": (12, 8)}}
WINDOW_UNIT = 20480
WINDOW_GROWTH = 16
BLANK_SIZE = 0x7FFFFFFF
#: A file while it is being made. RocketMQ ignores files beside the topics' folders.
HALF_MADE = "silomq-new"
BLANK_ENTRY = ENTRY.pack(0, BLANK_SIZE, 0)
assert ENTRY.size == ENTRY_SIZE
assert WINDOW_UNIT % 4096 == 0
assert WINDOW_UNIT % ENTRY_SIZE == 0


def round_file_size(size: int) -> int:
    """A configured file size (bytes), rounded up to whole entries as RocketMQ does."""
    return (size + ENTRY_SIZE - 1) // ENTRY_SIZE * ENTRY_SIZE


def queue_ids(topic: Folder) -> list[int]:
    """The ids of a topic's queues that have a folder, ascending. Names that are not numbers are
    ignored, as in RocketMQ.
    """
    return sorted(int(name) for name in topic.names() if name.isascii() and name.isdigit())


def entries_below(queue: Folder, file_size: int, limit: int) -> int:
    """The queue offset behind the last entry whose record begins below log offset `limit`; 0
    without any. Raises OSError.

    The search is binary: entries ascend by record. Behind the last one lie zeros or, if the log was
    cut, entries at or above `limit`.
    """
    return count_entries(queue, file_bases(queue), file_size, limit)


def count_entries(queue: Folder, bases: list[int], file_size: int, limit: int) -> int:
    """As `entries_below`, for a caller that has the queue's `bases`: the offsets of its files,
    ascending.
    """
    for base in reversed(bases):
        with queue.file(file_name(base)) as fd:
            # Read, not mapped: a hole on a full disk is then an OSError instead of a SIGBUS.
            low, high = 0, min(disk.size_of(fd), file_size) // ENTRY_SIZE
            while low < high:
                middle = (low + high) // 2
                entry = disk.read_at(fd, ENTRY_SIZE, middle * ENTRY_SIZE)
                offset, length, _ = ENTRY.unpack(entry)
                if length > 0 and offset < limit:
                    low = middle + 1
                else:
                    high = middle
        if low:
            return base // ENTRY_SIZE + low
    return 0


def read_entry(queue: Folder, file_size: int, queue_offset: int) -> tuple[int, int, int]:
    """One entry of a queue, read from its file: (log offset, size, tags code). Raises
    FileNotFoundError if the file has been removed.
    """
    position = queue_offset * ENTRY_SIZE
    at = position % file_size
    with queue.file(file_name(position - at)) as fd:
        offset, size, tags_code = ENTRY.unpack(disk.read_at(fd, ENTRY_SIZE, at))
    return offset, size, tags_code


def last_entry(queue: Folder, file_size: int) -> tuple[int, int] | None:
    """(log offset, size) of the record of the newest entry; None if the queue has no entries, or
    only blank ones.
    """
    count = entries_below(queue, file_size, 1 << 62)
    if count == 0:
        return None
    offset, size, _ = read_entry(queue, file_size, count - 1)
    return None if size == BLANK_SIZE else (offset, size)


class QueueFiles:
    """The folders below `consumequeue/`, and windows into their files."""

    def __init__(self, root: Folder, file_size: int) -> None:
        self.root = root
        self.file_size = round_file_size(file_size)

    def folder(self, topic: str, queue_id: int, *, create: bool = False) -> Folder:
        """The folder of one queue, which the caller closes. Raises FileNotFoundError if there is
        none; with `create` it is made.
        """
        with self.root.folder(topic, create=create) as parent:
            return parent.folder(str(queue_id), create=create)

    def queues(self) -> Iterator[tuple[str, int, Folder]]:
        """All queues that have a folder: (topic, queue id, folder). A folder is closed when the
        iterator moves on.
        """
        for topic in self.root.names():
            yield from self.queues_of(topic)

    def queues_of(self, topic: str) -> Iterator[tuple[str, int, Folder]]:
        """As `queues`, for one topic; none if the topic has no folder."""
        try:
            parent = self.root.folder(topic)
        except (FileNotFoundError, NotADirectoryError):
            return
        with parent:
            for queue_id in queue_ids(parent):
                with parent.folder(str(queue_id)) as folder:
                    yield topic, queue_id, folder

    def window(
        self, topic: str, queue_id: int, queue_offset: int, size: int
    ) -> tuple[Mapping, int]:
        """Maps entries around `queue_offset` for writing: (mapping, queue offset of its first
        entry).

        The mapping has up to `size` bytes (a multiple of WINDOW_UNIT) of one file, and their space
        is taken. A missing file is made. In a queue's first file, blank entries fill the places
        before `queue_offset`, as in RocketMQ. Raises OSError (ENOSPC: the disk is full).
        """
        position = queue_offset * ENTRY_SIZE
        base = position - position % self.file_size
        start = (position - base) // WINDOW_UNIT * WINDOW_UNIT
        length = min(size, self.file_size - start)
        with self.folder(topic, queue_id, create=True) as folder:
            name = file_name(base)
            if name not in folder.names():
                blank = 0 if file_bases(folder) else (position - base) // ENTRY_SIZE
                self._create(folder, name, blank)
            with folder.file(name, write=True) as fd:
                if disk.size_of(fd) < self.file_size:  # after a power cut
                    disk.set_size(fd, self.file_size)
                disk.allocate(fd, start, length)
                mapping = disk.map_file(fd, start, length, writable=True)
                disk.shape_small(mapping)
                if length > WINDOW_UNIT:
                    disk.warm(mapping, 0, length)
        return mapping, (base + start) // ENTRY_SIZE

    def _create(self, folder: Folder, name: str, blank: int) -> None:
        """Makes a file that begins with `blank` blank entries, and renames it once it is whole:
        readers and RocketMQ refuse a file of another length. Raises OSError.
        """
        self.remove_half_made()
        try:
            with self.root.file(HALF_MADE, write=True, create=True) as fd:
                disk.set_size(fd, self.file_size)
                if blank:
                    disk.write_at(fd, BLANK_ENTRY * blank, 0)
        except OSError:
            self.remove_half_made()
            raise
        self.root.rename(HALF_MADE, folder, name)

    def has_half_made(self) -> bool:
        """Whether a killed process left a file that it had not finished to make."""
        try:
            self.root.size(HALF_MADE)
        except FileNotFoundError:
            return False
        return True

    def remove_half_made(self) -> bool:
        """Removes the file that a killed process had not finished to make. True if there was
        one.
        """
        try:
            self.root.unlink(HALF_MADE)
        except FileNotFoundError:
            return False
        return True

    def entry(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int, int]:
        """One entry, read from its file: (log offset, size, tags code). Raises
        FileNotFoundError.
        """
        with self.folder(topic, queue_id) as folder:
            return read_entry(folder, self.file_size, queue_offset)

    def set_modified(self, topic: str, queue_id: int, queue_offset: int, time_ms: int) -> None:
        """Sets the time of modification, epoch ms, of the file that holds an entry. Raises
        OSError.
        """
        position = queue_offset * ENTRY_SIZE
        folder = self.folder(topic, queue_id)
        try:
            with folder.file(file_name(position - position % self.file_size), write=True) as fd:
                disk.set_modified(fd, time_ms)
        finally:
            folder.close()

    def sync(self, topic: str, queue_id: int, first: int, end: int) -> None:
        """Makes the entries [first, end) of a queue durable, in all files that hold them. Entries
        before `first` must be durable already. Raises OSError.

        A missing file is no error: clean removes only files whose entries are durable.
        """
        folder = self.folder(topic, queue_id)
        try:
            for base in file_bases(folder):
                if first * ENTRY_SIZE < base + self.file_size and base < end * ENTRY_SIZE:
                    with (
                        contextlib.suppress(FileNotFoundError),
                        folder.file(file_name(base), write=True) as fd,
                    ):
                        disk.sync_data(fd)
            # A new file is durable only with its name, which was not synced when it was made.
            if first == 0 or (first - 1) * ENTRY_SIZE // self.file_size != (
                (end - 1) * ENTRY_SIZE // self.file_size
            ):
                folder.sync()
        finally:
            folder.close()
        if first == 0:  # the same holds for the queue's and the topic's folder
            with self.root.folder(topic) as parent:
                parent.sync()
            self.root.sync()


def window_limit() -> int:
    """How many windows a process may map: `vm.max_map_count` less a reserve for its other
    mappings.
    """
    try:
        allowed = int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        allowed = 65530
    return max(64, allowed - allowed // 8 - 1024)
