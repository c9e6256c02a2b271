"""The starting point of a store that RocketMQ wrote last, found in RocketMQ's own files.

After a clean stop the queues and the index are complete. After a crash the checkpoint decides, as
in RocketMQ. Dispatch continues from the newest commit-log file that begins before its times. Index
files that were not full and durable are made anew.
"""

from __future__ import annotations

from ...shm.progress import IndexProgress, Progress
from ..commitlog.log import CommitLog
from ..consumequeue.queue import QueueFiles, last_entry
from ..disk import files as disk
from ..index.file import ENTRY, ENTRY_SIZE, IndexFiles
from ..index.rewind import header_of, record_at
from ..record.properties import index_keys
from .checkpoint import Checkpoint
from .plan import StartingPoint


def starting_point(
    log: CommitLog,
    queues: QueueFiles,
    index: IndexFiles | None,
    checkpoint: Checkpoint,
    *,
    clean: bool,
) -> StartingPoint:
    """The starting point according to RocketMQ's files.

    A store without queue files is dispatched from its first log file on. Then the index may be
    ahead of dispatch, and the start rewinds it. `index` is None if keys are not indexed.
    """
    bases = log.bases()
    first = bases[0] if bases else 0
    start = behind_newest_entry(queues) if clean else _crash_start(log, checkpoint)
    # RocketMQ verifies the last three files of a log that was stopped cleanly.
    flushed = max(first, min(log.base_of(start), bases[-3] if len(bases) > 3 else first))
    last = IndexProgress()
    if index is not None:
        last, indexed, complete = _index_progress(
            log, index, None if clean else checkpoint.index_msg_timestamp
        )
        if not clean or not complete or not last.name:
            start = min(start, indexed)
    return StartingPoint(
        flushed, Progress(dispatched=max(first, start), index=last), durable=flushed
    )


def behind_newest_entry(queues: QueueFiles) -> int:
    """The log offset behind the newest record that has a queue entry."""
    newest = 0
    for _, _, folder in queues.queues():
        entry = last_entry(folder, queues.file_size)
        if entry is not None:
            newest = max(newest, entry[0] + entry[1])
    return newest


def _crash_start(log: CommitLog, checkpoint: Checkpoint) -> int:
    """The offset of the newest log file whose first record and its queue entry were durable; 0
    without one.
    """
    for base in reversed(log.bases()):
        record = record_at(log, base)
        if record is not None and 0 < record.store_timestamp <= checkpoint.safe_time_ms:
            return base
    return 0


def _index_progress(
    log: CommitLog, index: IndexFiles, durable_until: int | None
) -> tuple[IndexProgress, int, bool]:
    """The newest index file that counts, the log offset from which keys must be added, and whether
    all files count.

    `durable_until` is the index time (epoch ms) of a crashed store's checkpoint: only full files
    that end until then count. None makes all files count. Dispatch removes the others.
    """
    last = IndexProgress()
    names = index.names()
    for name in names:
        header = header_of(index, name)
        if header is None:
            break
        full = header.count >= index.entries
        if durable_until is not None and (header.end_time > durable_until or not full):
            break
        last = header
    end = last.end_offset
    record = record_at(log, end) if last.name else None
    # Some keys of the last record may be in a file that does not count.
    whole = record is not None and _entries_of(index, last, end) >= len(
        index_keys(record.properties)
    )
    indexed = end + record.total_size if record is not None and whole else end
    return last, indexed, not names or last.name == names[-1]


def _entries_of(index: IndexFiles, last: IndexProgress, offset: int) -> int:
    """How many of the last entries of an index file belong to the record at `offset`."""
    found = 0
    with index.folder.file(str(last.name)) as fd:
        while found < last.count - 1:
            entry = disk.read_at(fd, ENTRY_SIZE, index.entry_at(last.count - 1 - found))
            if ENTRY.unpack(entry)[1] != offset:
                break
            found += 1
    return found
