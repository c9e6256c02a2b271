"""The plan of a start: what `look` found in the store's files, and what `apply` will do. With the
counts of what was done it becomes the report, which `silo status` shows.

`LastRun.power_lost` tells a start after a power cut from one after a crash of processes;
`power_cut.py` has the differences.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import asdict

from ...shm.progress import Progress
from ..commitlog.holes import Hole, Holes
from ..commitlog.log_end import ENDS, LogEnd, TornBytes
from ..names import is_light_queue
from ..topics.deletions import DeletionsPlan
from .checkpoint import Checkpoint
from .layout import Layout
from .pool_recovery import PoolPlan

OURS_KNOWN = "progress record"
MEMORY_KNOWN = "shared memory of the killed run"
ROCKETMQ_KNOWN = "RocketMQ's checkpoint"
NOTHING_KNOWN = "nothing: the whole log is read"
_READ_WRITE = 6  # RocketMQ's perm


class StartingPoint(msgspec.Struct, frozen=True):
    """The offsets from which a start continues. The log is scanned from `flushed`, where a record
    or a file begins. `progress` is the durable state of queues and index; its `dispatch_count` is 0
    if unknown. `store_time_ms` is the newest known store timestamp. The log is durable below
    `durable`, which is before `flushed` if the shared memory of a killed run says where it ended.
    """

    flushed: int
    progress: Progress
    durable: int
    store_time_ms: int = 0


class LastRun(msgspec.Struct, frozen=True):
    """The state in which the last run left the store. `known_from` is OURS_KNOWN, MEMORY_KNOWN,
    ROCKETMQ_KNOWN or NOTHING_KNOWN; the last means that `start` is None.

    `clean` says that the run stopped and did not crash. `power_lost` says that it crashed and that
    the machine was booted since, so any page that was not durable may be missing. `checkpoint` is
    the one in the store's folder, all zeros without one. `reached` is a log offset up to which
    there were records when the run was killed, 0 if that is not known.
    """

    known_from: str
    clean: bool
    power_lost: bool
    checkpoint: Checkpoint
    start: StartingPoint | None
    reached: int = 0

    @property
    def is_ours(self) -> bool:
        """Whether this store had the files last, and knows where it was."""
        return self.known_from in (OURS_KNOWN, MEMORY_KNOWN)


class LogPlan(msgspec.Struct, frozen=True):
    """The commit log. `files` are the offsets of its files. It is durable below `durable`. The
    bytes `torn` behind `end` will be copied and cut off. The files with the names `half_made` and
    `empty` will be removed, and those at the offsets `apart`, which were made ahead. `holes` are
    the declared ones; those behind `end` will be dropped.
    """

    files: tuple[int, ...]
    file_size: int
    scanned_from: int
    durable: int
    end: LogEnd
    torn: tuple[TornBytes, ...]
    half_made: tuple[str, ...]
    empty: str
    apart: tuple[int, ...]
    holes: tuple[Hole, ...]

    @property
    def first(self) -> int:
        """The offset at which the log begins; 0 for an empty one."""
        return self.files[0] if self.files else 0

    @property
    def cut_bytes(self) -> int:
        return sum(part.size for part in self.torn)


class QueueFound(msgspec.Struct, frozen=True):
    """A queue according to its files: the number of entries of dispatched records, and the queue
    offset of the first one whose record still exists.
    """

    topic: str
    queue_id: int
    count: int
    least: int


class TopicFound(msgspec.Struct, frozen=True):
    """A topic for the table, from topics.json (`configured`) or only from queue files or records.
    It gets at least `least` queues. Records below log offset `since` belong to a deleted topic of
    its name.
    """

    name: str
    write_nums: int
    read_nums: int
    perm: int
    least: int
    since: int
    configured: bool

    @classmethod
    def unconfigured(cls, name: str, least: int, default: int, since: int) -> TopicFound:
        """A topic that is not in topics.json. It gets the `default` number of queues to read and to
        write, if that is not less than `least`; a light queue has one.
        """
        nums = max(least, 1 if is_light_queue(name) else default)
        return cls(name, nums, nums, _READ_WRITE, 0, since, configured=False)


class DispatchPlan(msgspec.Struct, frozen=True):
    """Queues and index. Dispatch continues from `begin`, where the queues have the entries that
    `queues` counts.

    `anew` is the reason why the whole log is dispatched although a starting point was known, else
    "". Index files that end at `index_kept_ms` (epoch ms) or before are durable, and dispatch does
    not change them. `half_made` says that there is an unfinished queue file to remove.
    """

    begin: Progress
    queues: tuple[QueueFound, ...]
    anew: str
    index_kept_ms: int
    half_made: bool


class RecoveryPlan(msgspec.Struct, frozen=True):
    """The whole plan of a start. `layout` is what the store's layout file says, None without one.
    `topics_problem` is the problem of topics.json, or "". `made` is how many queues topics had when
    they were made, if that is known. `pool` is what happens to the rest of the
    killed store's pool, None without a rest.

    Queues that occur only in records behind `dispatch.begin` are not part of the plan; they are
    added while these records are dispatched.
    """

    layout: Layout | None
    run: LastRun
    log: LogPlan
    deletions: DeletionsPlan
    topics: tuple[TopicFound, ...]
    topics_problem: str
    made: Mapping[str, int]
    dispatch: DispatchPlan
    pool: PoolPlan | None
    looking_ms: int

    @property
    def store_time_ms(self) -> int:
        """The newest store timestamp that a record is known to have, epoch ms."""
        start = self.run.start
        return max(self.log.end.newest, start.store_time_ms if start else 0)

    @property
    def cuts_queues(self) -> bool:
        """Whether queue entries may lie behind the queues' ends: entries of records that are cut
        off, or entries that reached the disk before others that a power cut lost.
        """
        if self.run.known_from == MEMORY_KNOWN:  # nothing behind its end was ever dispatched
            return False
        return self.run.power_lost or self.log.cut_bytes > 0

    @property
    def leaves_syncs(self) -> bool:
        """Whether flush may sync what is not durable after the start. The kernel still has the
        pages that a killed run of this store has written. After a power cut, what the start finds
        must be durable before the next append.
        """
        return self.run.is_ours and not self.run.power_lost

    def notes(self) -> tuple[str, ...]:
        """Sentences for the user about unusual findings, worded as done: for the report."""
        log = self.log
        said = [f"removed a half-made commit-log file ({name})" for name in log.half_made]
        if log.empty:
            said.append(f"removed a commit-log file of no bytes ({log.empty})")
        if self.dispatch.half_made:
            said.append("removed a half-made queue file")
        said += [
            f"offsets {hole.start} to {hole.end} were declared lost"
            for hole in Holes(log.holes).below(log.end.end)
        ]
        said += [
            f"offsets {max(hole.start, log.end.end)} to {hole.end}, which were declared lost, lie "
            "behind the log's end: their declaration was dropped"
            for hole in log.holes
            if hole.end > log.end.end
        ]
        if log.cut_bytes:
            said.append(f"{log.cut_bytes} bytes behind offset {log.end.end} were cut off and kept")
        said += [f"topic {name}: its deletion was finished" for name in self.deletions.finished]
        if self.topics_problem:
            said.append(self.topics_problem)
        if self.dispatch.anew:
            said.append(
                f"{self.dispatch.anew}: queues and index are built anew from the commit log"
            )
        if self.pool and self.pool.refused:
            said.append(
                f"{self.pool.rest.size} bytes of the killed store's pool, offsets "
                f"{self.pool.rest.committed} to {self.pool.rest.wrote}, were NOT put into the log "
                f"({self.pool.refused}) and are kept in recovery/"
            )
        elif self.pool:
            said.append(
                f"{self.pool.rest.size} bytes were still in the pool and are in the log now"
            )
        return tuple(said)


class Done(msgspec.Struct, frozen=True):
    """The counts of what was done. `kept_in` are the paths of the copies of bytes that were cut
    off, relative to the store's folder.
    """

    kept_in: tuple[str, ...]
    entries_dispatched: int
    queue_bytes_cut: int
    index_entries_undone: int
    topics: int
    queues: int
    doing_ms: int


class Report(msgspec.Struct, frozen=True):
    """What a start found and did, in the words that users see. Offsets are of the log, times in
    ms.
    """

    clean: bool
    known_from: str
    files: int
    bytes: int
    scanned_from: int
    log_end: int
    end_reason: str
    cut_bytes: int
    kept_in: tuple[str, ...]
    records_scanned: int
    dispatched_from: int
    entries_dispatched: int
    queue_bytes_cut: int
    index_entries_undone: int
    topics: int
    queues: int
    duration_ms: int
    notes: tuple[str, ...]

    @classmethod
    def of(cls, plan: RecoveryPlan, done: Done) -> Report:
        """The report of a plan that was carried out with these counts."""
        log = plan.log
        return cls(
            clean=plan.run.clean,
            known_from=plan.run.known_from,
            files=len(log.files),
            bytes=len(log.files) * log.file_size,
            scanned_from=log.scanned_from,
            log_end=log.end.end,
            end_reason=ENDS[log.end.why],
            cut_bytes=log.cut_bytes,
            kept_in=done.kept_in,
            records_scanned=log.end.records,
            dispatched_from=plan.dispatch.begin.dispatched,
            entries_dispatched=done.entries_dispatched,
            queue_bytes_cut=done.queue_bytes_cut,
            index_entries_undone=done.index_entries_undone,
            topics=done.topics,
            queues=done.queues,
            duration_ms=plan.looking_ms + done.doing_ms,
            notes=plan.notes(),
        )

    def as_dict(self) -> dict[str, object]:
        return asdict(self)
