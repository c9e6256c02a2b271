"""Progress of a store that another program wrote last: what RocketMQ's own files say of it.

After a clean stop the queues and the index are complete. After a crash RocketMQ trusts what its
checkpoint says was durable: dispatch goes on from the newest commit-log file that begins before
that time, and index files that were not full and durable are made anew.
"""

from __future__ import annotations

from ..shm.control import PROGRESS
from . import disk
from .checkpoint import Checkpoint
from .commitlog import CommitLog
from .consumequeue import QueueFiles, last_entry
from .errors import Corrupt
from .index import ENTRY_SIZE, HEADER, HEADER_SIZE, IndexFiles
from .properties import index_keys
from .record import Record, decode_record

_NO_INDEX = {name: 0 for name in PROGRESS if name not in ("dispatched", "dispatch_count")}


def progress_of(
    log: CommitLog,
    queues: QueueFiles,
    index: IndexFiles | None,
    checkpoint: Checkpoint,
    *,
    clean: bool,
) -> dict[str, int]:
    """The fields of the layout `progress` (shm/control.py) and `flushed`, the offset to scan from.

    A store whose queues are all gone is dispatched from its first file on.
    """
    bases = log.bases()
    first = bases[0] if bases else 0
    start = _clean_start(queues) if clean else _crash_start(log, checkpoint)
    # What RocketMQ verifies of a cleanly stopped log are its last three files.
    flushed = max(first, min(log.base_of(start), bases[-3] if len(bases) > 3 else first))
    found = dict(_NO_INDEX)
    if index is not None:
        found, indexed = _index_progress(
            log, index, None if clean else checkpoint.index_msg_timestamp
        )
        start = min(start, indexed) if not clean or not found["index_name"] else start
    return found | {"flushed": flushed, "dispatched": max(first, start), "dispatch_count": 0}


def _clean_start(queues: QueueFiles) -> int:
    """Behind the newest record that has a queue entry."""
    newest = 0
    for _, _, folder in queues.queues():
        entry = last_entry(folder, queues.file_size)
        if entry is not None:
            newest = max(newest, entry[0] + entry[1])
    return newest


def _crash_start(log: CommitLog, checkpoint: Checkpoint) -> int:
    """The newest file whose first record was durable, with its queue entry, for sure."""
    for base in reversed(log.bases()):
        record = _record_at(log, base)
        if record is not None and 0 < record.store_timestamp <= checkpoint.safe_time_ms:
            return base
    return 0


def _index_progress(
    log: CommitLog, index: IndexFiles, durable_until: int | None
) -> tuple[dict[str, int], int]:
    """(index fields of the newest file that counts, offset from which records are to be indexed).

    `durable_until` is the checkpoint's, epoch ms, of a crashed store: only full files that end
    before count. None trusts all files. Those that do not count are removed when dispatch begins.
    """
    last: dict[str, int] = dict(_NO_INDEX)
    indexed = 0
    for name in index.names():
        header = _header(index, name)
        if header is None:
            break
        begin_time, end_time, begin, end, slots, count = header
        if durable_until is not None and (end_time > durable_until or count < index.entries):
            break
        last = {
            "index_name": name,
            "index_count": max(count, 1),
            "index_slots": slots,
            "begin_time": begin_time,
            "end_time": end_time,
            "begin_offset": begin,
            "end_offset": end,
        }
        # The keys of the last record may go on in a file that does not count.
        record = _record_at(log, end)
        whole = record is not None and _entries_of(index, name, count, end) >= len(
            index_keys(record.properties)
        )
        indexed = end + record.total_size if record is not None and whole else end
    return last, indexed


def _entries_of(index: IndexFiles, name: int, count: int, offset: int) -> int:
    """How many of the newest entries of an index file belong to the record at `offset`."""
    found = 0
    with index.folder.file(str(name)) as fd:
        while found < count - 1:
            entry = disk.read_at(fd, ENTRY_SIZE, index.entry_at(count - 1 - found))
            if int.from_bytes(entry[4:12], "big") != offset:
                break
            found += 1
    return found


def _header(index: IndexFiles, name: int) -> tuple[int, int, int, int, int, int] | None:
    """The header of an index file; None if the file or what it counts is not whole."""
    if index.folder.size(str(name)) != index.size:
        return None
    with index.folder.file(str(name)) as fd:
        begin_time, end_time, begin, end, slots, count = HEADER.unpack(
            disk.read_at(fd, HEADER_SIZE, 0)
        )
    sound = 0 <= count <= index.entries and slots >= 0 and 0 <= begin <= end
    return (begin_time, end_time, begin, end, slots, count) if sound else None


def _record_at(log: CommitLog, offset: int) -> Record | None:
    """The record at an offset of the log, None if there is none."""
    base = log.base_of(offset)
    if base not in log.bases():
        return None
    try:
        view = memoryview(log.open(base).mapping)
        return decode_record(view, offset - base, check_crc=False)
    except Corrupt:
        return None
