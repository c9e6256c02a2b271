"""Progress of a store that another program wrote last: what RocketMQ's own files say of it.

After a clean stop the queues and the index are complete. After a crash RocketMQ trusts what its
checkpoint says was durable: dispatch goes on from the newest commit-log file that begins before
that time, and index files that were not full and durable are made anew.
"""

from __future__ import annotations

from ..commitlog.log import CommitLog
from ..consumequeue.queue import QueueFiles, last_entry
from ..disk import files as disk
from ..index.file import ENTRY, ENTRY_SIZE, IndexFiles
from ..index.rewind import NO_INDEX, index_fields, record_at
from ..record.properties import index_keys
from .checkpoint import Checkpoint


def progress_of(
    log: CommitLog,
    queues: QueueFiles,
    index: IndexFiles | None,
    checkpoint: Checkpoint,
    *,
    clean: bool,
) -> dict[str, int]:
    """The fields of the layout `progress` (shm/control.py) and `flushed`, the offset to scan from.

    A store whose queues are all gone is dispatched from its first file on. The index may go further
    than dispatch then: start-up takes it back.
    """
    bases = log.bases()
    first = bases[0] if bases else 0
    start = _clean_start(queues) if clean else _crash_start(log, checkpoint)
    # What RocketMQ verifies of a cleanly stopped log are its last three files.
    flushed = max(first, min(log.base_of(start), bases[-3] if len(bases) > 3 else first))
    found = NO_INDEX
    if index is not None:
        found, indexed, complete = _index_progress(
            log, index, None if clean else checkpoint.index_msg_timestamp
        )
        if not clean or not complete or not found["index_name"]:
            start = min(start, indexed)
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
        record = record_at(log, base)
        if record is not None and 0 < record.store_timestamp <= checkpoint.safe_time_ms:
            return base
    return 0


def _index_progress(
    log: CommitLog, index: IndexFiles, durable_until: int | None
) -> tuple[dict[str, int], int, bool]:
    """(index fields of the newest file that counts, offset from which records are to be indexed,
    whether all files count).

    `durable_until` is the checkpoint's, epoch ms, of a crashed store: only full files that end
    before count. None trusts all files. Those that do not count are removed when dispatch begins.
    """
    last: dict[str, int] = NO_INDEX
    names = index.names()
    for name in names:
        found = index_fields(index, name)
        if found is None:
            break
        full = found["index_count"] >= index.entries
        if durable_until is not None and (found["end_time"] > durable_until or not full):
            break
        last = found
    end = last["end_offset"]
    record = record_at(log, end) if last["index_name"] else None
    # The keys of the last record may go on in a file that does not count.
    whole = record is not None and _entries_of(index, last, end) >= len(
        index_keys(record.properties)
    )
    indexed = end + record.total_size if record is not None and whole else end
    return last, indexed, not names or last["index_name"] == names[-1]


def _entries_of(index: IndexFiles, fields: dict[str, int], offset: int) -> int:
    """How many of the newest entries of an index file belong to the record at `offset`."""
    found, count = 0, fields["index_count"]
    with index.folder.file(str(fields["index_name"])) as fd:
        while found < count - 1:
            entry = disk.read_at(fd, ENTRY_SIZE, index.entry_at(count - 1 - found))
            if ENTRY.unpack(entry)[1] != offset:
                break
            found += 1
    return found
