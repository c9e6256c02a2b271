"""The plan of a start: what was found in the store's files, and what will be done about it. With
the counts of the doing it becomes the report, which `silo status` shows.

A start after a power cut differs from one after a crash of processes in `LastRun.power_lost` and
in what hangs on it (`power_cut.py`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ...shm.control import Progress
from ..commitlog.log_end import ENDS, LogEnd, TornBytes
from ..topics.deletions import DeletionsPlan
from .checkpoint import Checkpoint

OURS_KNOWN = "progress record"
ROCKETMQ_KNOWN = "RocketMQ's checkpoint"
NOTHING_KNOWN = "nothing: the whole log is read"
_READ_WRITE = 6  # RocketMQ's perm


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """Where a start goes on. The log is scanned from offset `flushed`, a record's or a file's
    first. `progress` is what queues and index hold durably; its `dispatch_count` is 0 if unknown.
    """

    flushed: int
    progress: Progress
    store_time_ms: int = 0


@dataclass(frozen=True, slots=True)
class LastRun:
    """How the store was left, and by whom: `known_from` is OURS_KNOWN, ROCKETMQ_KNOWN or
    NOTHING_KNOWN, and then `start` is None.

    `clean` says that it was stopped and did not crash. `power_lost` says that it crashed and that
    the machine was started anew since: of what was not durable, any page may be missing.
    `checkpoint` is RocketMQ's, all zeros without one.
    """

    known_from: str
    clean: bool
    power_lost: bool
    checkpoint: Checkpoint
    start: StartingPoint | None


@dataclass(frozen=True, slots=True)
class LogPlan:
    """The commit log. `files` are the offsets of its files; `torn` is what will be cut off behind
    `end`, and kept. Files of the names `half_made` and `empty` will be removed.
    """

    files: tuple[int, ...]
    file_size: int
    scanned_from: int
    end: LogEnd
    torn: tuple[TornBytes, ...]
    half_made: tuple[str, ...]
    empty: str

    @property
    def first(self) -> int:
        """The offset at which the log begins."""
        return self.files[0] if self.files else 0

    @property
    def cut_bytes(self) -> int:
        return sum(part.size for part in self.torn)


@dataclass(frozen=True, slots=True)
class QueueFound:
    """A queue as its files are: how many entries belong to dispatched records, and the queue offset
    of the first one whose record still exists.
    """

    topic: str
    queue_id: int
    count: int
    least: int


@dataclass(frozen=True, slots=True)
class TopicFound:
    """A topic for the table: one of topics.json (`configured`), or one of which only queue files
    know. It gets at least `least` queues; records below log offset `since` are not its own.
    """

    name: str
    write_nums: int
    read_nums: int
    perm: int
    least: int
    since: int
    configured: bool

    @classmethod
    def unconfigured(cls, name: str, nums: int, since: int) -> TopicFound:
        """A topic that nobody configured, with `nums` queues for everybody."""
        return cls(name, nums, nums, _READ_WRITE, 0, since, configured=False)


@dataclass(frozen=True, slots=True)
class DispatchPlan:
    """Queues and index. Dispatch goes on from `begin`, with the entries that `queues` counts.

    `anew` says why all of the log is dispatched again although something was known; "" otherwise.
    Index files that end by `index_kept_ms` (epoch ms) are durable, and dispatch does not touch
    them. `half_made` says that there is an unfinished queue file to remove.
    """

    begin: Progress
    queues: tuple[QueueFound, ...]
    anew: str
    index_kept_ms: int
    half_made: bool


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """All that a start found and will do. `new_layout` says that the store has no layout version
    yet. `topics_problem` is what was wrong with topics.json, "" for nothing. Queues of which only
    records behind `dispatch.begin` know are added while these are dispatched. `from_pool` bytes of
    the log were only in the pool of the killed store until this start.
    """

    new_layout: bool
    run: LastRun
    log: LogPlan
    deletions: DeletionsPlan
    topics: tuple[TopicFound, ...]
    topics_problem: str
    dispatch: DispatchPlan
    from_pool: int
    looking_ms: int

    @property
    def store_time_ms(self) -> int:
        """The newest store timestamp that is known to have been given out."""
        start = self.run.start
        return max(self.log.end.newest, start.store_time_ms if start else 0)

    @property
    def cuts_queues(self) -> bool:
        """Whether queue entries may lie behind the queues' ends: of records that were cut off, or
        written to disk before entries that a power cut took.
        """
        return self.run.power_lost or self.log.cut_bytes > 0

    def notes(self) -> tuple[str, ...]:
        """What is out of the ordinary, for people: said when it is done."""
        log = self.log
        said = [f"removed a half-made commit-log file ({name})" for name in log.half_made]
        if log.empty:
            said.append(f"removed a commit-log file of no bytes ({log.empty})")
        if self.dispatch.half_made:
            said.append("removed a half-made queue file")
        if log.cut_bytes:
            said.append(f"{log.cut_bytes} bytes behind offset {log.end.end} were cut off and kept")
        said += [f"topic {name}: its deletion was finished" for name in self.deletions.finished]
        if self.topics_problem:
            said.append(f"topics.json: {self.topics_problem}")
        if self.dispatch.anew:
            said.append(
                f"{self.dispatch.anew}: queues and index are built anew from the commit log"
            )
        if self.from_pool:
            said.append(f"{self.from_pool} bytes were still in the pool and are in the log now")
        return tuple(said)


@dataclass(frozen=True, slots=True)
class Done:
    """The counts of doing what a plan says. `kept_in` names the files below the store's folder that
    keep what was cut off.
    """

    kept_in: tuple[str, ...]
    entries_dispatched: int
    queue_bytes_cut: int
    index_entries_undone: int
    topics: int
    queues: int
    doing_ms: int


@dataclass(frozen=True, slots=True)
class Report:
    """What a start found and did, in the names that users see: offsets in bytes, times in ms."""

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
        """The plan and the counts of its doing."""
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
