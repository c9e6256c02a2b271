"""Where the index goes on: what its files hold of records below an offset of the commit log.

Dispatch puts the keys of every record that it meets, whether the index holds them or not. So the
index must end exactly where dispatch begins, also when its files go further, and also in the
middle of a file: what lies behind is taken back, and put again.
"""

from __future__ import annotations

from dataclasses import replace

from ...shm.control import IndexProgress
from ..commitlog.log import CommitLog
from ..disk import files as disk
from ..errors import Corrupt
from ..record.format import Record, decode_record
from .file import ENTRY, ENTRY_SIZE, HEADER, HEADER_SIZE, LAYOUTS, IndexFiles

_CHUNK = ENTRY_SIZE * 50_000
#: Where among the four-byte words of entries the number of the next older one stands; unpacking
#: whole entries takes five times as long.
_OLDER = LAYOUTS["entry"]["prev_index"][0] // 4
_STEP = ENTRY_SIZE // 4


def header_of(index: IndexFiles, name: int) -> IndexProgress | None:
    """What the header of an index file says; None if the file, or what it counts, is not whole."""
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
    """Where the index, which goes on to `found`, ends before the first record at or behind
    commit-log offset `limit`. Raises StoreError for a last file whose size does not fit the
    settings.

    Changes no file: dispatch takes back what the progress does not count. None when a file that
    the answer needs is damaged: then all must be dispatched anew.
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
    """The store timestamp, epoch ms, by which only such index files end as dispatch will not touch
    when it goes on from `found`: what may be promised to be durable. A record's time,
    or 0: nothing is promised.
    """
    if found.count >= index.entries:
        return found.end_time
    before = [name for name in index.names() if name < found.name]
    end = index.end_time(before[-1]) if before else 0
    return end if 0 <= end < found.begin_time else 0


def _entries_below(index: IndexFiles, name: int, count: int, limit: int) -> int:
    """The number of the first of a file's `count` entries that leads to `limit` or behind it:
    entries ascend by record.
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
    """The header of a file as it was when entry number `count` was still to come."""
    if count == header.count:
        return header
    with index.folder.file(str(header.name)) as fd:
        last = disk.read_at(fd, ENTRY_SIZE, index.entry_at(count - 1))
        at, end = index.entry_at(count), index.entry_at(header.count)
        first_in_slot = 0  # of the entries that go: each had made its slot one in use
        while at < end:
            data = disk.read_at(fd, min(_CHUNK, end - at), at)
            first_in_slot += memoryview(data).cast("i")[_OLDER::_STEP].tolist().count(0)
            at += len(data)
    # What the index itself knows of a record that is gone are whole seconds.
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
