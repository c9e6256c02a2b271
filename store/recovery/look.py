"""Reads the files of a stopped or crashed store and makes the plan of a start. It changes no file,
and it refuses damage behind the log's end.

The log is scanned from the progress record's `flushed`, and dispatch continues from its
`dispatched`, so the work is bounded by the data that was not durable. If RocketMQ has run on the
store since (its checkpoint is not the one that this store wrote), its files say where to begin.

The plan does not read the records that `apply` will dispatch. So only `apply` finds queues that
stand in no file but in these records, and queue ids above `max_queues`.
"""

from __future__ import annotations

import time

from ...conf.settings import Settings
from ...shm.control import IndexProgress, Progress
from ..commitlog import _scan as kernel
from ..commitlog.log_end import LogEnd, find_end, refuse_damage, torn_behind
from ..config import topics as topics_json
from ..consumequeue.queue import ENTRY_SIZE, QueueFiles, count_entries
from ..disk.paths import ABORT, TOPICS, StoreFolders, file_bases
from ..index.rewind import index_below, kept_until
from ..topics.deletions import Deletions, DeletionsPlan, plan_deletions
from . import checkpoint, durable_progress, power_cut, rocketmq_progress
from .checkpoint import Checkpoint
from .layout_version import check_layout
from .plan import (
    NOTHING_KNOWN,
    OURS_KNOWN,
    ROCKETMQ_KNOWN,
    DispatchPlan,
    LastRun,
    LogPlan,
    QueueFound,
    RecoveryPlan,
    StartingPoint,
    TopicFound,
)
from .store_files import StoreFiles


def look(folders: StoreFolders, settings: Settings, *, from_pool: int = 0) -> RecoveryPlan:
    """The plan of a start of the store in `folders`, which no other process may use. `from_pool` is
    how many bytes the start has just written from the pool to the log.

    Raises Corrupt for damage that a start must not cut off, StoreError for files that do not fit
    the settings or were made by a newer version, OSError.
    """
    began = time.monotonic()
    files = StoreFiles.of(folders, settings)
    has_layout = check_layout(folders)
    run = look_at_last_run(files)
    log = look_at_log(files, run, check_crc=settings.check_crc_on_recover)
    deletions = plan_deletions(Deletions.read(folders.ours), files.queues, log.first, log.end.end)
    dispatch = look_at_queues_and_index(files, run.start, log, deletions)
    if not (run.start and run.start.progress.dispatch_count) or dispatch.anew:
        deletions = deletions.counted_anew()
    topics, problem = look_at_topics(folders, settings, deletions, dispatch.queues)
    return RecoveryPlan(
        new_layout=not has_layout,
        run=run,
        log=log,
        deletions=deletions,
        topics=topics,
        topics_problem=problem,
        dispatch=dispatch,
        from_pool=from_pool,
        looking_ms=round((time.monotonic() - began) * 1000),
    )


def look_at_last_run(files: StoreFiles) -> LastRun:
    """Finds out whether this store or RocketMQ ran last, whether it stopped cleanly, and what is
    durable.
    """
    crashed = ABORT in files.folders.root.names()
    record = durable_progress.read(files.folders.ours)
    noted = checkpoint.read(files.folders.root)
    clean, start, known_from = False, None, NOTHING_KNOWN
    if record is not None and record.agrees_with(noted or Checkpoint()):
        known_from, clean = OURS_KNOWN, record.clean and not crashed
        start = StartingPoint(record.flushed, record.progress, record.store_time_ms)
    elif noted is not None and (record is not None or not power_cut.ran_here(files.folders.ours)):
        known_from, clean = ROCKETMQ_KNOWN, not crashed
        index = files.index if files.indexed else None
        start = rocketmq_progress.starting_point(files.log, files.queues, index, noted, clean=clean)
    return LastRun(
        known_from=known_from,
        clean=clean,
        power_lost=not clean and power_cut.machine_stopped(files.folders.ours),
        checkpoint=noted or Checkpoint(),
        start=start,
    )


def look_at_log(files: StoreFiles, run: LastRun, *, check_crc: bool) -> LogPlan:
    """Finds the end of the commit log and the torn bytes behind it. Raises Corrupt for damage.

    It scans the log also after a clean stop, because RocketMQ may have appended since.
    """
    log = files.log
    bases = log.bases()
    first = bases[0] if bases else 0
    start = max(first, run.start.flushed) if run.start else first
    end = LogEnd(start, 0, 0, kernel.NOTHING)
    if bases:
        end = find_end(log, start, check_crc=check_crc)
        refuse_damage(log, end, run.checkpoint.durable_time_ms, power_cut=run.power_lost)
    return LogPlan(
        files=tuple(bases),
        file_size=log.file_size,
        scanned_from=start,
        end=end,
        torn=torn_behind(log, end.end),
        half_made=tuple(log.half_made()),
        empty=log.empty_last(),
    )


def look_at_queues_and_index(
    files: StoreFiles, start: StartingPoint | None, log: LogPlan, deletions: DeletionsPlan
) -> DispatchPlan:
    """Finds the offset from which dispatch continues. If queues or index have less than the
    starting point says, the whole log is dispatched anew.
    """
    limit = min(start.progress.dispatched, log.end.end) if start else log.first
    queues = _queues_below(files.queues, limit, log.first, deletions)
    begin, anew = Progress(dispatched=log.first), ""
    if start:
        anew = _missing(files, start.progress, queues, deletions)
        index = None if anew else _index_below(files, start.progress.index, limit)
        if index is None:
            anew = anew or "an index file is damaged"
            queues = _queues_below(files.queues, log.first, log.first, deletions)
        else:
            count = start.progress.dispatch_count or sum(queue.count for queue in queues)
            begin = Progress(limit, count, index)
    return DispatchPlan(
        begin=begin,
        queues=queues,
        anew=anew,
        index_kept_ms=kept_until(files.index, begin.index),
        half_made=files.queues.has_half_made(),
    )


def _queues_below(
    queues: QueueFiles, limit: int, first: int, deletions: DeletionsPlan
) -> tuple[QueueFound, ...]:
    """For every queue, its entries of records below log offset `limit`, in a log that begins at
    `first`. A clean start spends most of its time here.
    """
    found = []
    gone = frozenset(deletions.without_queues)
    for topic, queue_id, folder in queues.queues():
        if topic in gone:
            continue
        bases = file_bases(folder)
        count = count_entries(folder, bases, queues.file_size, limit)
        expired = count_entries(folder, bases, queues.file_size, first) if first else 0
        least = max(expired, bases[0] // ENTRY_SIZE if bases else 0)
        found.append(QueueFound(topic, queue_id, count, least))
    return tuple(found)


def _missing(
    files: StoreFiles,
    known: Progress,
    queues: tuple[QueueFound, ...],
    deletions: DeletionsPlan,
) -> str:
    """Which queue entries or index file of the starting point are missing, as a text; "" if none
    are.
    """
    entries = sum(queue.count for queue in queues)
    if entries + deletions.entries < known.dispatch_count:
        return f"the queues hold {entries} entries of {known.dispatch_count}"
    name = known.index.name
    if files.indexed and name and name not in files.index.names():
        return f"the index file {name} is gone"
    return ""


def _index_below(files: StoreFiles, known: IndexProgress, limit: int) -> IndexProgress | None:
    """The state of the index if dispatch begins at `limit`; None if a file of it is damaged. Raises
    StoreError for an index file that does not fit the settings.
    """
    if not files.indexed:
        return known
    found = index_below(files.index, files.log, known, limit)
    if found and found.name:
        files.index.check_size(found.name)
    return found


def look_at_topics(
    folders: StoreFolders,
    settings: Settings,
    deletions: DeletionsPlan,
    queues: tuple[QueueFound, ...],
) -> tuple[tuple[TopicFound, ...], str]:
    """The topics of topics.json, then those that only have queue files; and the problem of
    topics.json, or "". Raises Corrupt if topics.json and its backup are unreadable.
    """
    saved, loaded = topics_json.load(f"{folders.config.path}/{TOPICS}")
    nums: dict[str, int] = {}  # topic -> 1 + greatest id of a queue that has files
    for queue in queues:
        nums[queue.topic] = max(nums.get(queue.topic, 0), queue.queue_id + 1)
    topics = [
        TopicFound(
            name=name,
            write_nums=config.write_queue_nums,
            read_nums=config.read_queue_nums,
            perm=config.perm,
            least=nums.pop(name, 0),
            since=deletions.below(name),
            configured=True,
        )
        for name, config in saved.topics.items()
        if name not in deletions.finished
    ]
    topics += [
        TopicFound.unconfigured(
            name, max(least, settings.default_topic_queue_nums), deletions.below(name)
        )
        for name, least in nums.items()
    ]
    return tuple(topics), loaded.problem or ""
