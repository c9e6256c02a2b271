"""Checks a whole store: records, queues, index, checkpoint and JSON against each other.

Nothing is written. Each job is a file or a queue. Index and queues come first, because the checks
of the log need their results. The worker processes are forked, so they share the facts.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...store.config.fastjson import loads
from ...store.disk.files import Folder, is_folder
from ...store.disk.paths import OURS, PROGRESS, StoreFolders
from ...store.recovery import durable_progress
from ...store.recovery.checkpoint import CHECKPOINT, CHECKPOINT_SIZE, Checkpoint
from ...store.topics.deletions import Deletions
from ..raw.files import BadInput, StoreFiles
from ..raw.walk import Kind, holds_records, walk_file
from ..rocketmq.logs import LogView
from .findings import Facts, Finding, Result
from .index import check_index_file
from .log import check_log_file
from .queue import check_queue
from .seals import check_seals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...conf.settings import Settings

#: For a store smaller than this, one process is faster than many.
_SMALL_BYTES = 64 << 20
CHECKS: dict[str, Callable[..., Result]] = {
    "index": check_index_file,
    "queue": check_queue,
    "log": check_log_file,
}
#: The kind of check and its arguments.
Job = tuple[Any, ...]
#: In a worker: the facts that were there when it was forked.
_inherited: list[Facts] = []


@dataclass
class Report:
    """The outcome: what is wrong, what was counted, and further notes."""

    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not self.findings


def verify(
    path: str | os.PathLike[str],
    settings: Settings,
    *,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Checks the store at `path` with up to `workers` processes (default: one for each usable
    core).

    `on_progress` is called with the bytes done and all bytes. Raises BadInput.
    """
    files = StoreFiles(path, settings)
    report = Report()
    checkpoint = read_checkpoint(files, report)
    facts = gather(files, checkpoint, report)
    sizes = jobs_of(facts)
    total = sum(size for _, size in sizes)
    if total < _SMALL_BYTES:
        workers = 1
    workers = workers or len(os.sched_getaffinity(0))
    found = Result()
    done = 0
    for kinds in (("index", "queue"), ("log",)):
        jobs = [(job, size) for job, size in sizes if job[0] in kinds]
        for result, size in _run(facts, jobs, workers):
            found.merge(result)
            done += size
            if on_progress:
                on_progress(done, total)
        facts.first_dispatched = found.first_dispatched or 0
        if found.first_dispatched is None:
            facts.first_dispatched = facts.end if not facts.queue_bases else 0
        facts.indexed = found.all_indexed()
    report.findings += found.findings
    report.counts = found.counts
    check_rest(files, checkpoint, found, report)
    return report


def check_rest(files: StoreFiles, checkpoint: Checkpoint, found: Result, report: Report) -> None:
    """The checks of the whole store, which need the results of all others. Their findings go into
    `report`.
    """
    _check_times(files, checkpoint, found, report)
    _check_small_files(files, report)
    report.findings += _check_seals(files)
    report.findings.sort(key=lambda finding: (finding.path, finding.offset))


def _check_seals(files: StoreFiles) -> list[Finding]:
    """Checks the seals. Only a store of SiloMQ has seals; it must have all of its folders."""
    if not is_folder(f"{files.path}/{OURS}"):
        return []
    try:
        folders = StoreFolders(files.path)
    except FileNotFoundError as error:
        return [Finding(str(error.filename), 0, "the folder is missing")]
    try:
        return [Finding(*wrong) for wrong in check_seals(folders, files.log_size)]
    finally:
        folders.close()


def gather(files: StoreFiles, checkpoint: Checkpoint, report: Report) -> Facts:
    """Gathers the facts that all checks share; findings on the way go into the report."""
    log = LogView(files)
    start = log.recover(checkpoint, clean=files.clean)
    bases = log.bases
    last = next((base for base in reversed(bases) if holds_records(files, base)), None)
    for before, base in itertools.pairwise(bases):
        if base != before + files.log_size:
            report.findings.append(
                Finding(files.log_path(base), base, f"the file before it begins at {before}")
            )
    # Damage does not end the log: records behind it are checked too.
    end = log.end
    if last is not None and end < last + files.log_size:
        for piece in walk_file(files, last, max(last, end)):
            if piece.kind is not Kind.TAIL:
                end = piece.offset + piece.size
    return Facts(
        files=files,
        checkpoint=checkpoint,
        first=max(log.first, 0),
        end=end,
        redispatched=end if files.clean else start,
        last_base=last,
        queue_bases={
            queue: frozenset(file.base for file in files.queue_files(*queue))
            for queue in files.queues()
        },
        index_names=files.index_files(),
        deleted_below=_deleted_below(files),
    )


def _deleted_below(files: StoreFiles) -> dict[str, int]:
    if not is_folder(f"{files.path}/{OURS}"):
        return {}
    with Folder.open(f"{files.path}/{OURS}") as folder:
        found = Deletions.read(folder)
    return {name: deletion.below for name, deletion in found.topics.items()}


def jobs_of(facts: Facts) -> list[tuple[Job, int]]:
    """Every job with the number of bytes that it reads."""
    files = facts.files
    jobs: list[tuple[Job, int]] = [
        (("index", name), files.index_size) for name in facts.index_names
    ]
    jobs += [
        (("queue", *queue), len(bases) * files.queue_size)
        for queue, bases in facts.queue_bases.items()
    ]
    jobs += [(("log", file.base), files.log_size) for file in files.log]
    return jobs


def _run(
    facts: Facts, jobs: Sequence[tuple[Job, int]], workers: int
) -> Iterator[tuple[Result, int]]:
    if workers == 1 or len(jobs) < 2:
        for (kind, *arguments), size in jobs:
            yield CHECKS[kind](facts, *arguments), size
        return
    context = multiprocessing.get_context("fork")
    with context.Pool(min(workers, len(jobs)), _inherit, (facts,)) as pool:
        yield from pool.imap_unordered(_work, jobs)


def _inherit(facts: Facts) -> None:
    _inherited[:] = [facts]


def _work(job: tuple[Job, int]) -> tuple[Result, int]:
    (kind, *arguments), size = job
    return CHECKS[kind](_inherited[0], *arguments), size


def read_checkpoint(files: StoreFiles, report: Report) -> Checkpoint:
    """The checkpoint; findings about it go into the report. Raises BadInput."""
    data = files.small_file(CHECKPOINT)
    if data is None:
        return Checkpoint()
    path = f"{files.path}/{CHECKPOINT}"
    if len(data) != CHECKPOINT_SIZE:
        raise BadInput(
            f"{path} has {len(data)} bytes, not {CHECKPOINT_SIZE}: restore it from a copy, or "
            "remove it (then all of the log is read again)"
        )
    if any(data[40:]):
        at = next(i for i in range(40, len(data)) if data[i])
        report.findings.append(Finding(path, at, "not zero behind the five fields"))
    return files.checkpoint()


def _check_times(files: StoreFiles, checkpoint: Checkpoint, found: Result, report: Report) -> None:
    """Checks that the checkpoint's times are store times of records, or older than the log's first
    record.
    """
    removed = bool(files.log) and files.log[0].base > 0
    path = f"{files.path}/{CHECKPOINT}"
    fields = (
        ("physic", 0, checkpoint.physic_msg_timestamp),
        ("logics", 8, checkpoint.logics_msg_timestamp),
    )
    for name, at, value in (*fields, ("index", 16, checkpoint.index_msg_timestamp)):
        if value == 0 or value in found.times_seen or found.oldest_ms is None:
            continue
        # If nothing was ever removed from the log, no record can be older than its first one.
        if not (removed and 0 < value < found.oldest_ms):
            what = f"the {name} time {value} is no record's store time"
            report.findings.append(Finding(path, at, what))


def _check_small_files(files: StoreFiles, report: Report) -> None:
    for name in files.json_files():
        data = files.small_file(name) or b""
        try:
            loads(data.decode())
        except ValueError as error:
            at = error.start if isinstance(error, UnicodeDecodeError) else 0
            report.findings.append(Finding(f"{files.path}/{name}", at, f"not JSON: {error}"))
    path = f"{OURS}/{PROGRESS}"
    slots = files.small_file(path) or b""
    for at in range(0, len(slots), durable_progress.SLOT_SIZE):
        slot = slots[at : at + durable_progress.SLOT_SIZE]
        if any(slot) and durable_progress.decode(slot) is None:
            report.findings.append(Finding(f"{files.path}/{path}", at, "the slot is not whole"))
