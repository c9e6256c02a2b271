"""Where the commit log of a store that does not run ends, and how large its files are."""

from __future__ import annotations

from collections.abc import Mapping

from ...store.commitlog import _scan as kernel
from ...store.commitlog.log_reader import LogReader
from ...store.disk import files as disk
from ...store.disk.files import Folder
from ...store.disk.paths import file_name
from ...store.errors import Corrupt
from ...store.record.fields import HEAD_BYTES, head_of, queue_place_of
from ...store.record.format import MIN_RECORD_BYTES


def size_of_single(log: Folder, base: int) -> int:
    """The size of a log's only file; 0 if it may have been cut short: it neither ends with an
    end-of-file record nor has room.
    """
    with log.file(file_name(base)) as fd:
        size = disk.size_of(fd)
        view = memoryview(disk.map_file(fd, 0, size, writable=False) if size else b"")
    ends = kernel.scan(view, 0, base, check_crc=False)[3] if size else kernel.NOTHING
    has_room = size > 0 and kernel.used_end(view, 0) < size
    return size if has_room or ends == kernel.END_OF_FILE else 0


def first_queued(log: Folder, size: int, start: int, end: int, deleted: Mapping[str, int]) -> int:
    """The log offset of the first record from `start` on that belongs into a queue; `end` without
    one. Half messages, and messages of topics that were deleted later, do not.
    """
    reader = LogReader(log, size)
    while start < end:
        behind = start - start % size + size
        try:
            view = memoryview(reader.file(behind - size))
        except (FileNotFoundError, Corrupt):  # reading what lies there says so
            start = behind
            continue
        at = size - (behind - start)
        head = head_of(view, at) if behind - start >= MIN_RECORD_BYTES else None
        if head is None or not head.is_record or head.total_size < MIN_RECORD_BYTES:
            start = behind  # the end-of-file record
            continue
        place = queue_place_of(view, at)
        if place.queued and start >= deleted.get(place.topic.decode("utf-8", "replace"), 0):
            return start
        start += place.size
    return end


def log_end(log: Folder, size: int, bases: list[int], known: int) -> int:
    """The log offset behind the last whole record. The scan begins at `known`, where a record or a
    file begins, or at the last file that begins with a record of its own.
    """
    reader = LogReader(log, size)
    start = known
    for base in reversed(bases):
        head = head_of(bytes(memoryview(reader.file(base))[:HEAD_BYTES]))
        if head.is_record and head.physical_offset == base:
            start = max(start, base)
            break
    while start - start % size in bases:
        base = start - start % size
        view = memoryview(reader.file(base))
        check_crc = True
        position, _, _, why = kernel.scan(view, start - base, base, check_crc, refuse_torn=True)
        start = base + position
        if why not in (kernel.END_OF_FILE, kernel.FULL):
            break
    return start
