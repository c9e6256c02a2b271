"""The checks of `silo verify` in tasks of Spark.

The steps are those of `tools/verify`. Every worker gathers the facts of the store once in an audit;
what a step has learned goes to the tasks of the next one.
"""

from __future__ import annotations

import functools
import pickle
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...store.consumequeue import queue
from ...tools.raw.files import StoreFiles
from ...tools.verify.findings import Facts, Finding, IndexSpan, Result
from ...tools.verify.steps import CHECKS, Job, check_all
from ...tools.verify.verify import Report, check_rest, gather, read_checkpoint, seals_of
from . import placing
from .tasks import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from ...conf.settings import Settings

_ROW: Final = "result binary"


@dataclass
class FileFindings:
    """The result for one store. `findings` are rows as in `audit.FINDING`. `ends` has, for each
    queue that has files, the first valid offset and the one behind the last.
    """

    findings: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    ends: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Audit:
    """Identifies an audit to a worker, which gathers its facts from it. `token` differs in each
    audit.
    """

    store: str
    settings: Settings
    token: str


@dataclass(frozen=True, slots=True)
class _Learned:
    """What the steps before have learned, see Facts."""

    end: int
    redispatched: int
    last_base: int | None
    first_dispatched: int
    first_indexed: int
    spans: dict[int, IndexSpan]


class _Tasks:
    """Does the jobs of a step in tasks of Spark. `ends` are those of the queues (FileFindings)."""

    def __init__(self, spark: SparkSession, plan: _Audit, facts: Facts) -> None:
        self._spark, self._plan, self._facts = spark, plan, facts
        self.workers = spark.sparkContext.defaultParallelism
        self.ends: dict[tuple[str, int], tuple[int, int]] = {}

    def jobs(self, jobs: Sequence[tuple[Job, int]]) -> Iterator[tuple[Job, Result]]:
        learned = _Learned(**{name: getattr(self._facts, name) for name in _Learned.__slots__})
        items = [job for job, _ in jobs]
        work = functools.partial(_check, self._plan, learned)
        for row in run(self._spark, items, work, _ROW):
            job, result, ends = pickle.loads(row["result"])  # noqa: S301  from our own tasks
            self.ends |= ends
            yield job, result


def check_files(spark: SparkSession, store: str, settings: Settings) -> FileFindings:
    """Checks all files of one stopped store. Raises BadInput."""
    files = StoreFiles(store, settings)
    report = Report()
    checkpoint = read_checkpoint(files, report)
    facts = gather(files, checkpoint, report)
    tasks = _Tasks(spark, _Audit(files.path, settings, uuid.uuid4().hex), facts)
    found = FileFindings()
    whole = Result()
    for kind, result in check_all(facts, tasks).items():
        found.findings += [_row(kind, finding) for finding in result.findings]
        whole.merge(result)
    check_rest(files, checkpoint, whole, report, seals_of(facts, whole))
    found.findings += [_row("files", finding) for finding in report.findings]
    for row in found.findings:
        row["store"] = store
    found.ends = tasks.ends
    found.counts = whole.counts
    found.notes = report.notes
    return found


def _row(check: str, finding: Finding) -> dict[str, Any]:
    return {
        "check": check, "file": finding.path, "offset": finding.offset, "what": finding.what
    }  # fmt: skip


@functools.lru_cache(maxsize=1)
def _facts(plan: _Audit) -> Facts:
    files = StoreFiles(plan.store, plan.settings)
    report = Report()
    return gather(files, read_checkpoint(files, report), report)


def _check(plan: _Audit, learned: _Learned, job: Job) -> list[dict[str, Any]]:
    """Does one job. Returns one row: the job, its result and, for a queue, its ends."""
    facts = _facts(plan)
    for name in _Learned.__slots__:
        setattr(facts, name, getattr(learned, name))
    kind, *arguments = job
    result = CHECKS[kind](facts, *arguments)
    ends = {}
    if kind == "queue survey":
        ends[tuple(arguments)] = _queue_ends(facts.files, *arguments)
    return [{"result": pickle.dumps((job, result, ends))}]


def _queue_ends(files: StoreFiles, topic: str, queue_id: int) -> tuple[int, int]:
    """The first valid queue offset, and the one behind the last. The entries end before the first
    that is not valid. Blank entries at the beginning do not count.
    """
    first = end = 0
    begun = False
    for file in files.queue_files(topic, queue_id):
        path = files.queue_path(topic, queue_id, file.base)
        entries = np.frombuffer(files.view(path), dtype=placing.ENTRY)
        real = (entries["size"] > 0) & (entries["offset"] >= 0)
        blank = real & (entries["size"] == queue.BLANK_SIZE) & (entries["offset"] == 0)
        count = len(real) if real.all() else int(np.argmin(real))
        base = file.base // queue.ENTRY_SIZE
        if not begun:
            first = base + int(np.count_nonzero(blank[:count]))
            begun = first < base + count
        end = base + count if count else end
        if count < len(real):
            break
    return first, max(end, first)
