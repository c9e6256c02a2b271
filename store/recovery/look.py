"""Reads the files of a stopped or crashed store and makes the plan of a start. It changes no file,
and it refuses damage behind the log's end.

The log is scanned from the progress record's `flushed`, and dispatch continues from its
`dispatched`, so the work is bounded by the data that was not durable. If RocketMQ has run on the
store since (its checkpoint is not the one that this store wrote), its files say where to begin.

The plan does not read the records that `apply` will dispatch. So only `apply` finds queues that
stand in no file but in these records, and queue ids above `max_queues`.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from ...conf.settings import Settings
from ...shm.progress import IndexProgress, Progress
from ..commitlog import _scan as kernel
from ..commitlog.holes import Holes
from ..commitlog.log_end import LogEnd, find_end, refuse_damage, refuse_older_copy, torn_behind
from ..commitlog.seals import sealed_bases
from ..config import topics as topics_json
from ..consumequeue.queue import QueueFiles
from ..consumequeue.queue_count import QueueCount
from ..disk.files import Folder
from ..disk.paths import ABORT, TOPICS, StoreFolders
from ..errors import Corrupt
from ..index.rewind import index_below, kept_until
from ..pulse import Pulse, unheard
from ..topics import makers
from ..topics.deletions import Deletions, DeletionsPlan, plan_deletions
from . import checkpoint, durable_progress, log_begin, power_cut, rocketmq_progress
from .checkpoint import Checkpoint
from .durable_progress import DurableProgress
from .layout import check_layout
from .log_files import (
    NOTHING_OF_THE_LOG,
    KnownLog,
    contiguous,
    missing_ranges,
    refuse_missing,
)
from .plan import (
    MEMORY_KNOWN,
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
from .pool_recovery import PoolPlan, PoolRest, judge
from .shared_progress import SharedProgress
from .state_files import check_state_files
from .store_files import StoreFiles

#: What the system says of a name that is a link, a folder or a device.
_NO_FILE = (errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.ENODEV, errno.ENXIO)


def look(
    folders: StoreFolders,
    settings: Settings,
    *,
    pool: PoolRest | None = None,
    published: SharedProgress | None = None,
    pulse: Pulse = unheard,
) -> RecoveryPlan:
    """The plan of a start of the store in `folders`, which no other process may use. `pool` is what
    only the pool of the killed store has, `published` what a killed store without a pool has left
    in shared memory. `pulse` hears how far it is.

    Raises Corrupt for damage that a start must not cut off, StoreError for files that do not fit
    the settings or were made by a newer version, OSError.
    """
    try:
        return _look(folders, settings, pool, published, pulse)
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        why = f"this is none of the store's files ({error.strerror}): restore it from a copy"
        raise Corrupt(error.filename or folders.root.path, 0, why) from error


def _look(
    folders: StoreFolders,
    settings: Settings,
    pool: PoolRest | None,
    published: SharedProgress | None,
    pulse: Pulse,
) -> RecoveryPlan:
    began = time.monotonic()
    files = StoreFiles.of(folders, settings)
    layout = check_layout(folders, settings)
    check_state_files(folders)
    run = look_at_last_run(files, published)
    log, from_pool = look_at_log(
        files, run, pool, check_crc=settings.check_crc_on_recover, pulse=pulse
    )
    deleted = Deletions.read(folders.ours)
    deletions = plan_deletions(deleted, files.queues, log.first, log.end.end)
    dispatch = look_at_queues_and_index(files, run.start, log, deletions, pulse)
    if not (run.start and run.start.progress.dispatch_count) or dispatch.anew:
        deletions = deletions.counted_anew()
    made = {
        name: min(nums, settings.max_queues)
        for name, nums in makers.read(folders.ours).queues.items()
    }
    topics, problem = look_at_topics(folders, settings, deletions, dispatch.queues, made)
    problem = "; ".join(filter(None, (deleted.problem, problem)))
    return RecoveryPlan(
        layout=layout,
        run=run,
        log=log,
        deletions=deletions,
        topics=topics,
        topics_problem=problem,
        made=made,
        dispatch=dispatch,
        pool=from_pool,
        looking_ms=round((time.monotonic() - began) * 1000),
    )


def look_at_last_run(files: StoreFiles, published: SharedProgress | None = None) -> LastRun:
    """Finds out whether this store or RocketMQ ran last, whether it stopped cleanly, and what is
    durable. Raises Corrupt if RocketMQ ran last and files are missing: they say what is durable.
    """
    last = LastWriter.of(files.folders.root, files.folders.ours)
    power_lost = not last.clean and power_cut.machine_stopped(files.folders.ours)
    start, known_from, reached = None, last.known_from, 0
    if last.known_from == OURS_KNOWN and last.record is not None:
        record = last.record
        start = StartingPoint(record.flushed, record.progress, record.flushed, record.store_time_ms)
        if published and not last.clean and not power_lost and _follows(published, record):
            reached = published.wrote
            known = known_log(last, files.folders.ours, files.log.file_size)
            refuse_missing(files.log, missing_ranges(files.log, replace(known, end=reached)))
            if published.is_in(files.log, record.flushed):
                known_from = MEMORY_KNOWN
                start = StartingPoint(
                    reached, published.progress, record.flushed, published.store_time_ms
                )
    elif last.known_from == ROCKETMQ_KNOWN and last.noted is not None:
        known = known_log(last, files.folders.ours, files.log.file_size)
        refuse_missing(files.log, missing_ranges(files.log, known))
        index = files.index if files.indexed else None
        start = rocketmq_progress.starting_point(
            files.log, files.queues, index, last.noted, clean=last.clean
        )
    return LastRun(
        known_from=known_from,
        clean=last.clean,
        power_lost=power_lost,
        checkpoint=last.noted or Checkpoint(),
        start=start,
        reached=reached,
    )


def _follows(published: SharedProgress, durable: DurableProgress) -> bool:
    """Whether a killed run can have come from the durable state to the published one."""
    return (
        durable.flushed <= published.wrote
        and durable.progress.dispatched <= published.progress.dispatched <= published.wrote
    )


class LastWriter(msgspec.Struct, frozen=True):
    """Who had the store last, as in LastRun, and whether it stopped in order; our progress record
    and RocketMQ's checkpoint, as far as there are any.
    """

    known_from: str
    clean: bool
    record: DurableProgress | None
    noted: Checkpoint | None

    @classmethod
    def of(cls, root: Folder, ours: Folder) -> LastWriter:
        """According to the store's folder `root` and our folder in it."""
        crashed = ABORT in root.names()
        record = durable_progress.read(ours)
        noted = checkpoint.read(root)
        if record is not None and durable_progress.agrees(ours, noted):
            return cls(OURS_KNOWN, record.clean and not crashed, record, noted)
        if noted is not None and (record is not None or not power_cut.ran_here(ours)):
            return cls(ROCKETMQ_KNOWN, not crashed, record, noted)
        return cls(NOTHING_KNOWN, clean=False, record=record, noted=noted)


def known_log(last: LastWriter, ours: Folder, file_size: int) -> KnownLog:
    """What is known of the log. After RocketMQ nothing is. Without a progress record the seals say
    how far the log reached.
    """
    if last.known_from == ROCKETMQ_KNOWN:
        return NOTHING_OF_THE_LOG
    begin = log_begin.read(ours)
    if last.known_from == OURS_KNOWN and last.record is not None:
        # `abort` may still be there after a power cut during the stop.
        end, stopped = last.record.flushed, last.record.clean
    else:
        end, stopped = max(sealed_bases(ours), default=-file_size) + file_size, False
    return KnownLog(-1 if begin is None else begin, end, stopped=stopped, exact=stopped)


def look_at_log(
    files: StoreFiles,
    run: LastRun,
    pool: PoolRest | None,
    *,
    check_crc: bool,
    pulse: Pulse = unheard,
) -> tuple[LogPlan, PoolPlan | None]:
    """Finds the end of the commit log and the torn bytes behind it, and what to do with the rest of
    the pool. Raises Corrupt for files that are missing and for damage.

    It scans the log also after a clean stop, because RocketMQ may have appended since.
    """
    log = files.log
    ours = files.folders.ours
    known = known_log(LastWriter.of(files.folders.root, ours), ours, log.file_size)
    refuse_missing(log, missing_ranges(log, known))
    bases = contiguous(log.bases(), log.file_size, known.begin)
    first = bases[0] if bases else 0
    start = max(first, run.start.flushed) if run.start else first
    end = LogEnd(start, 0, 0, kernel.NOTHING)
    if bases:
        end = find_end(log, start, check_crc=check_crc, pulse=pulse)
    from_pool = None
    if pool is not None:
        pulse("comparing the pool with the commit log (bytes)", 0, pool.size)
        from_pool = judge(pool, log, end, rocketmq_ran=run.known_from == ROCKETMQ_KNOWN)
        end = from_pool.end
        if not from_pool.refused:  # it makes missing files anew
            bases += tuple(range(first + len(bases) * log.file_size, end.end, log.file_size))
    if bases:
        pulse("looking behind the log's end (files)", 0, len(bases))
        refuse_damage(log, end, run.checkpoint.durable_time_ms, power_cut=run.power_lost)
    refuse_older_copy(log, end, run.reached)
    found = LogPlan(
        files=bases,
        file_size=log.file_size,
        scanned_from=start,
        durable=max(first, run.start.durable) if run.start else first,
        end=end,
        torn=torn_behind(log, end.end),
        half_made=tuple(log.half_made()),
        empty=log.empty_last(),
        apart=tuple(base for base in log.bases() if bases and base > bases[-1]),
        holes=tuple(Holes.read(files.folders.root)),
    )
    return found, from_pool


def look_at_queues_and_index(
    files: StoreFiles,
    start: StartingPoint | None,
    log: LogPlan,
    deletions: DeletionsPlan,
    pulse: Pulse = unheard,
) -> DispatchPlan:
    """Finds the offset from which dispatch continues. If queues or index have less than the
    starting point says, the whole log is dispatched anew.
    """
    for name in files.index.names() if files.indexed else ():
        files.index.check_kind(name)
    limit = min(start.progress.dispatched, log.end.end) if start else log.first
    queues, bad = _queues_below(files.queues, limit, log.first, deletions, pulse)
    begin, anew = Progress(dispatched=log.first), ""
    if start:
        anew = bad or _missing(files, start.progress, queues, deletions)
        index = None if anew else _index_below(files, start.progress.index, limit)
        if index is None:
            anew = anew or "an index file is damaged"
            queues, _ = _queues_below(files.queues, log.first, log.first, deletions, pulse)
            if not log.first:  # dispatch makes the queues' first files too
                queues = tuple(replace(queue, least=0) for queue in queues)
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
    queues: QueueFiles, limit: int, first: int, deletions: DeletionsPlan, pulse: Pulse
) -> tuple[tuple[QueueFound, ...], str]:
    """For every queue, its entries of records below log offset `limit`, in a log that begins at
    `first`; and what is wrong with a file of a queue, or "". A clean start spends most of its time
    here.
    """
    counts: list[QueueCount] = []
    for count in queues.counts(limit, first, without=frozenset(deletions.without_queues)):
        pulse("counting queue entries (queues)", len(counts), 0)
        counts.append(count)
    bad = next((queue.bad for queue in counts if queue.bad), "")
    return tuple(QueueFound(q.topic, q.queue_id, q.end, q.least) for q in counts), bad


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
    for name in files.index.names():
        if found and name <= found.name:
            files.index.check_size(name)
    return found


def look_at_topics(
    folders: StoreFolders,
    settings: Settings,
    deletions: DeletionsPlan,
    queues: tuple[QueueFound, ...],
    made: Mapping[str, int],
) -> tuple[tuple[TopicFound, ...], str]:
    """The topics of topics.json, then those that only have queue files; and the problem of
    topics.json, or "". `made` is how many queues topics had when they were made. Raises Corrupt if
    topics.json and its backup are unreadable.
    """
    saved, loaded = topics_json.load(f"{folders.config.path}/{TOPICS}")
    nums: dict[str, int] = {}  # topic -> 1 + greatest id of a queue that has files
    for queue in queues:
        nums[queue.topic] = max(nums.get(queue.topic, 0), queue.queue_id + 1)
    problems = [loaded.problem] if loaded.problem else []
    topics = []
    for name, config in saved.topics.items():
        if name in deletions.finished:
            continue
        wanted = max(config.write_queue_nums, config.read_queue_nums)
        if wanted > settings.max_queues:
            # One number must not keep all other topics from being served.
            problems.append(f"topic {name} has {wanted} queues in {TOPICS}, above max_queues")
            continue
        topics.append(
            TopicFound(
                name=name,
                write_nums=config.write_queue_nums,
                read_nums=config.read_queue_nums,
                perm=config.perm,
                least=nums.pop(name, 0),
                since=deletions.below(name),
                configured=True,
            )
        )
    topics += [
        TopicFound.unconfigured(
            name, least, made.get(name, settings.default_topic_queue_nums), deletions.below(name)
        )
        for name, least in nums.items()
    ]
    return tuple(topics), "; ".join(problems)
