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

Below the least hash, -2**31, `tags_code` is the address of a unit in RocketMQ's consumequeue_ext
(`enableConsumeQueueExt`), which is not read: the tags are compared in the record.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from ...shm._memory import Mapping
from ..disk import files as disk
from ..disk.files import Folder
from ..disk.paths import file_bases, file_name
from ._entry_counts import HEAD_ENTRIES, count_topic
from .queue_count import QueueCount, bad_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

ENTRY = struct.Struct(">qiq")
ENTRY_SIZE = 20
#: Names and types of an entry's fields, as numpy takes them.
ENTRY_FIELDS = (("offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8"))
LAYOUTS = {"entry": {"offset": (0, 8), "size": (8, 4), "tags_code": (12, 8)}}
#: A `tags_code` below this is an address in consumequeue_ext.
LEAST_TAGS_CODE = -(2**31)
WINDOW_UNIT = 20480
WINDOW_GROWTH = 4
#: Windows from this size on, bytes, are faulted in when they are mapped: their queue fills them.
WARM_WINDOW = 64 * WINDOW_UNIT
BLANK_SIZE = 0x7FFFFFFF
#: A file while it is being made. RocketMQ ignores files beside the topics' folders.
HALF_MADE = "silomq-new"
BLANK_ENTRY = ENTRY.pack(0, BLANK_SIZE, 0)
MAX_QUEUE_ID = 0x7FFFFFFF
# How many threads look at queues at a start, and at how many topics each at a time.
_LOOKERS = 4
_TOPICS = 64
_NUMBER = re.compile("0|[1-9][0-9]{0,9}")
# Python's sign for bytes of a file name that are not UTF-8.
_NO_TEXT = re.compile("[\ud800-\udfff]")
assert ENTRY.size == ENTRY_SIZE
assert WINDOW_UNIT % 4096 == 0
assert WINDOW_UNIT % ENTRY_SIZE == 0


def round_file_size(size: int) -> int:
    """A configured file size (bytes), rounded up to whole entries as RocketMQ does."""
    return (size + ENTRY_SIZE - 1) // ENTRY_SIZE * ENTRY_SIZE


def queue_ids(topic: Folder) -> list[int]:
    """The ids of a topic's queues that have a folder, ascending. Other names are ignored, as in
    RocketMQ: those that are no numbers, or greater ones than a queue id can be.
    """
    numbers = (int(name) for name in topic.names() if _NUMBER.fullmatch(name))
    return sorted(number for number in numbers if number <= MAX_QUEUE_ID)


def entries_below(queue: Folder, file_size: int, limit: int) -> int:
    """The queue offset behind the last entry whose record begins below log offset `limit`; 0
    without any. Behind it lie zeros or, if the log was cut, later entries. Raises OSError.
    """
    return count_entries(queue, file_bases(queue), file_size, limit)


def count_entries(queue: Folder, bases: list[int], file_size: int, limit: int) -> int:
    """As `entries_below`, for a caller that has the queue's `bases`: the offsets of its files,
    ascending.
    """
    for base in reversed(bases):
        with queue.file(file_name(base)) as fd:
            count = _count_in_file(fd, min(disk.size_of(fd), file_size) // ENTRY_SIZE, limit)
        if count:
            return base // ENTRY_SIZE + count
    return 0


def _count_in_file(fd: int, entries: int, limit: int) -> int:
    """How many entries of a file, which has room for `entries`, lead to records below `limit`.

    The search looks at the first page, then at places twice as far each time, and ends with a
    binary search. A binary search alone would read pages in which nothing was ever written.

    Entries are read, not mapped: a hole on a full disk is then an OSError instead of a SIGBUS.
    """
    head = disk.read_at(fd, HEAD_ENTRIES * ENTRY_SIZE, 0)
    low, high = 0, min(entries, HEAD_ENTRIES)
    while low < high:
        middle = (low + high) // 2
        if _is_below(head[middle * ENTRY_SIZE :], limit):
            low = middle + 1
        else:
            high = middle
    if low < HEAD_ENTRIES:
        return low
    high = 2 * low
    while high <= entries and _is_below(_entry_at(fd, high - 1), limit):
        low, high = high, 2 * high
    high = min(high - 1, entries)
    while low < high:
        middle = (low + high) // 2
        if _is_below(_entry_at(fd, middle), limit):
            low = middle + 1
        else:
            high = middle
    return low


def _entry_at(fd: int, index: int) -> bytes:
    return disk.read_at(fd, ENTRY_SIZE, index * ENTRY_SIZE)


def _is_below(entry: bytes, limit: int) -> bool:
    offset, length, _ = ENTRY.unpack_from(entry)
    return bool(length > 0 and offset < limit)


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
        for topic in self.topics():
            yield from self.queues_of(topic)

    def counts(
        self, limit: int, first: int, *, without: Collection[str] = ()
    ) -> Iterator[QueueCount]:
        """All queues but those of the topics in `without`, counted up to log offset `limit`, in a
        log that begins at `first`. Raises Corrupt as `bad_file`, OSError.

        A start with many queues spends most of its time here. Threads look at several topics at
        once: a cold disk answers several requests in little more time than one.
        """
        with ThreadPoolExecutor(_LOOKERS) as lookers:
            topics = [topic for topic in self.topics() if topic not in without]
            parts = [topics[at : at + _TOPICS] for at in range(0, len(topics), _TOPICS)]
            for part in lookers.map(lambda part: self._counts_of(part, limit, first), parts):
                yield from part

    def _counts_of(self, topics: list[str], limit: int, first: int) -> list[QueueCount]:
        return [
            self._count_one(topic, queue_id, about, limit, first)
            for topic in topics
            for queue_id, *about in self._count_topic(topic, limit, first)
        ]

    def _count_topic(self, topic: str, limit: int, first: int) -> Sequence[tuple[int, ...]]:
        try:
            return count_topic(self.root.fd, os.fsencode(topic), limit, first, MAX_QUEUE_ID)
        except OSError:
            for _, _, folder in self.queues_of(topic):
                for base in file_bases(folder):
                    with folder.file(file_name(base)):  # raises with the path of a bad one
                        pass
            raise

    def _count_one(
        self, topic: str, queue_id: int, about: list[int], limit: int, first: int
    ) -> QueueCount:
        """The count of one queue, from what the kernel says about it. The numbers lie in the first
        page of the queue's last file, unless more entries or earlier files are asked for.
        """
        files, start, end, below, expired = about
        if files == 0:
            return QueueCount(topic, queue_id, 0, 0, "")
        least, at = start // ENTRY_SIZE, end // ENTRY_SIZE
        # Clean removes a queue's first files only together with files of the log.
        name = f"{self.root.path}/{topic}/{queue_id}/{file_name(0)}"
        bad = f"{name} is missing" if start and not first else ""
        in_first_page = max(below, expired) < min(HEAD_ENTRIES, self.file_size // ENTRY_SIZE)
        if files == 1 and in_first_page:  # what a single file lacks, the number of entries tells
            count, least = below and at + below, max(least, expired and at + expired)
            return QueueCount(topic, queue_id, count, least, bad)
        with self.folder(topic, queue_id) as folder:
            bases = file_bases(folder)
            bad = bad or bad_file(folder, bases, self.file_size)
            if in_first_page and below > 0 and (expired > 0 or first <= 0):
                count, gone = at + below, expired and at + expired
            else:
                count = count_entries(folder, bases, self.file_size, limit)
                gone = count_entries(folder, bases, self.file_size, first) if first else 0
        return QueueCount(topic, queue_id, count, max(least, gone), bad)

    def topics(self) -> list[str]:
        """The names in `consumequeue/`, without those that are not UTF-8: no record can have such
        a topic.
        """
        return [name for name in self.root.names() if not _NO_TEXT.search(name)]

    def queues_of(self, topic: str) -> Iterator[tuple[str, int, Folder]]:
        """As `queues`, for one topic; none if the topic has no folder."""
        try:
            parent = self.root.folder(topic)
        except (FileNotFoundError, NotADirectoryError):
            return
        with parent:
            for queue_id in queue_ids(parent):
                try:
                    folder = parent.folder(str(queue_id))
                except (FileNotFoundError, NotADirectoryError):
                    continue
                with folder:
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
            try:
                fd = folder.open_file(file_name(base), write=True)
            except FileNotFoundError:
                blank = 0 if file_bases(folder) else (position - base) // ENTRY_SIZE
                fd = self._create(folder, file_name(base), blank)
            try:
                if disk.size_of(fd) < self.file_size:  # after a power cut
                    disk.set_size(fd, self.file_size)
                disk.allocate(fd, start, length)
                mapping = disk.map_file(fd, start, length, writable=True)
            finally:
                os.close(fd)
            disk.shape_small(mapping)
            if length >= WARM_WINDOW:
                disk.warm(mapping, 0, length)
        return mapping, (base + start) // ENTRY_SIZE

    def _create(self, folder: Folder, name: str, blank: int) -> int:
        """Makes a file that begins with `blank` blank entries, and renames it once it is whole:
        readers and RocketMQ refuse a file of another length. Returns its descriptor, which the
        caller closes. Raises OSError.
        """
        with contextlib.ExitStack() as undo:
            undo.callback(self.remove_half_made)
            self.remove_half_made()  # the name that a killed process left may be that of any file
            fd = self.root.open_file(HALF_MADE, write=True, create=True)
            undo.callback(os.close, fd)
            disk.set_size(fd, self.file_size)
            if blank:
                disk.write_at(fd, BLANK_ENTRY * blank, 0)
            self.root.rename(HALF_MADE, folder, name)
            undo.pop_all()
        return fd

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
