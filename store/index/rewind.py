"""Computes the state of the index at an offset of the commit log where dispatch will begin.

Dispatch adds the keys of every record that it reads, even if the index has them. So the index must
end exactly where dispatch begins, also in the middle of a file. Entries behind that place are
removed, and dispatch adds them again.
"""

from __future__ import annotations

from msgspec.structs import replace

from ...shm.progress import IndexProgress
from ..commitlog.log import CommitLog
from ..disk import files as disk
from ..errors import Corrupt
from ..record.format import Record, decode_record
from .file import ENTRY, ENTRY_SIZE, HEADER, HEADER_SIZE, LAYOUTS, IndexFiles

_CHUNK = ENTRY_SIZE * 50_000
#: The place of prev_index among the four-byte words of an entry. To read these words alone takes a
#: fifth of the time of unpacking entries.
_OLDER = LAYOUTS["entry"]["prev_index"][0] // 4
_STEP = ENTRY_SIZE // 4


def header_of(index: IndexFiles, name: int) -> IndexProgress | None:
    """The values in the header of an index file; None if the file has another size or the values
    are impossible. Raises OSError.
    """
    if index.folder.size(str(name)) != index.size:
        return None
    with index.folder.file(str(name)) as fd:
        begin_time, end_time, begin, end, slots, count = HEADER.unpack(
            disk.read_at(fd, HEADER_SIZE, 0)
        )
    if not (0 <= count <= index.entries and slots >= 0 and 0 <= begin <= end):
        return None
    if begin_time < 0 or end_time < 0:
        return None
    return IndexProgress(name, max(count, 1), slots, begin_time, end_time, begin, end)


def index_below(
    index: IndexFiles, log: CommitLog, found: IndexProgress, limit: int
) -> IndexProgress | None:
    """The state of the index, which now ends at `found`, before it had records at or behind log
    offset `limit`. None if a file that is needed is damaged: then the whole index must be made
    anew. Raises Corrupt if the size of the last file does not fit the settings.

    It changes no file: dispatch undoes the entries that the progress does not count.
    """
    if not found.name or found.end_offset < limit:
        return found
    index.check_size(found.name)
    for name in reversed([name for name in index.names() if name <= found.name]):
        header = found if name == found.name else header_of(index, name)
        if header is None:
            return None
        count = _entries_below(index, name, header.count, limit)
        if count > 1:
            rewound = _rewound(index, log, header, count)
            if not header.begin_offset <= rewound.end_offset <= header.end_offset:
                return None
            return rewound
    return IndexProgress()


def kept_until(index: IndexFiles, found: IndexProgress) -> int:
    """The store timestamp (epoch ms) at which the last index file ends that dispatch will not
    change if it continues from `found`. The checkpoint may call the index durable up to it. 0 if
    there is no such file.
    """
    if found.count >= index.entries:
        return found.end_time
    before = [name for name in index.names() if name < found.name]
    end = index.end_time(before[-1]) if before else 0
    return end if 0 <= end < found.begin_time else 0


def _entries_below(index: IndexFiles, name: int, count: int, limit: int) -> int:
    """The number of the first of a file's `count` entries whose record is at or behind `limit`. The
    search is binary, because entries ascend by record.
    """
    low, high = 1, count
    with index.folder.file(str(name)) as fd:
        while low < high:
            middle = (low + high) // 2
            if _offset(disk.read_at(fd, ENTRY_SIZE, index.entry_at(middle))) < limit:
                low = middle + 1
            else:
                high = middle
    return low


def _rewound(index: IndexFiles, log: CommitLog, header: IndexProgress, count: int) -> IndexProgress:
    """The header of a file as it was before entry number `count` was added."""
    if count == header.count:
        return header
    with index.folder.file(str(header.name)) as fd:
        last = disk.read_at(fd, ENTRY_SIZE, index.entry_at(count - 1))
        at, end = index.entry_at(count), index.entry_at(header.count)
        first_in_slot = 0  # removed entries that were the first in their slot
        while at < end:
            data = disk.read_at(fd, min(_CHUNK, end - at), at)
            first_in_slot += memoryview(data).cast("i")[_OLDER::_STEP].tolist().count(0)
            at += len(data)
    # If the record has been removed, only the whole seconds in the index are left of its time.
    _, last_offset, seconds, _ = ENTRY.unpack(last)
    rounded = header.begin_time + 1000 * max(0, seconds)
    record = record_at(log, last_offset)
    return replace(
        header,
        count=count,
        slots=max(0, header.slots - first_in_slot),
        end_time=rounded if record is None else max(0, record.store_timestamp),
        end_offset=last_offset,
    )


def _offset(entry: bytes) -> int:
    offset: int = ENTRY.unpack(entry)[1]
    return offset


def record_at(log: CommitLog, offset: int) -> Record | None:
    """The record at an offset of the log, None if there is none."""
    base = log.base_of(offset)
    if base not in log.bases():
        return None
    try:
        view = memoryview(log.open(base).mapping)
        return decode_record(view, offset - base, check_crc=False)
    except Corrupt:
        return None
