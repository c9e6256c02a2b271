"""The checks of `silo verify` as tasks, one for each index file, queue and log file.

The checks share facts about their store, which every worker gathers once in an audit. `verify`
collects all log addresses of the index in one process. Here the task of a log file reads them from
the index files that can hold addresses of its file.
"""

from __future__ import annotations

import functools
import json
import uuid
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...store.consumequeue import queue
from ...store.index.file import HEADER, HEADER_SIZE, SLOT_SIZE
from ...tools.raw.files import StoreFiles
from ...tools.verify.findings import Facts, Result
from ...tools.verify.verify import CHECKS, Report, check_rest, gather, jobs_of, read_checkpoint
from . import indexing, placing
from .tasks import run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from ...conf.settings import Settings

_ROW: Final = "check string, file string, offset long, what string, rest string"


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
class _Log:
    """Results of the other checks that the checks of the log need."""

    first_dispatched: int
    #: For each index file the first and the last log address.
    index: Mapping[int, tuple[int, int]]


def check_files(spark: SparkSession, store: str, settings: Settings) -> FileFindings:
    """Checks all files of one stopped store. Raises BadInput."""
    files = StoreFiles(store, settings)
    report = Report()
    checkpoint = read_checkpoint(files, report)
    facts = gather(files, checkpoint, report)
    jobs = [job for job, _ in jobs_of(facts)]
    plan = _Audit(files.path, settings, uuid.uuid4().hex)
    found = FileFindings()
    whole = Result()
    first = [job for job in jobs if job[0] != "log"]
    rows = run(spark, first, functools.partial(_check, plan, None), _ROW)
    _merge(rows, found, whole)
    starts = whole.first_dispatched
    if starts is None:
        starts = 0 if facts.queue_bases else facts.end
    index = {name: _span(files, name) for name in facts.index_names}
    log = _Log(starts, index)
    logs = [job for job in jobs if job[0] == "log"]
    _merge(run(spark, logs, functools.partial(_check, plan, log), _ROW), found, whole)
    check_rest(files, checkpoint, whole, report)
    for finding in report.findings:
        row = {"file": finding.path, "offset": finding.offset, "what": finding.what}
        found.findings.append({"check": "files", **row})
    for finding_row in found.findings:
        finding_row["store"] = store
    found.counts += whole.counts
    found.notes += report.notes
    return found


def _span(files: StoreFiles, name: int) -> tuple[int, int]:
    head = HEADER.unpack_from(files.view(files.index_path(name)))
    return head[2], head[3]


def _merge(rows: Sequence[Mapping[str, Any]], found: FileFindings, whole: Result) -> None:
    """Adds up the results of tasks: their findings, and the last row of each, which has the
    rest.
    """
    for row in rows:
        if row["rest"] is None:
            names = ("check", "file", "offset", "what")
            found.findings.append({name: row[name] for name in names})
            continue
        rest = json.loads(row["rest"])
        part = Result(
            counts=Counter(rest["counts"]),
            first_dispatched=rest["first_dispatched"],
            times_seen=set(rest["times_seen"]),
            oldest_ms=rest["oldest_ms"],
            newest_ms=rest["newest_ms"],
        )
        whole.merge(part)
        if rest["ends"]:
            topic, queue_id, first, end = rest["ends"]
            found.ends[topic, queue_id] = first, end


@functools.lru_cache(maxsize=1)
def _facts(plan: _Audit) -> Facts:
    files = StoreFiles(plan.store, plan.settings)
    report = Report()
    return gather(files, read_checkpoint(files, report), report)


def _check(plan: _Audit, log: _Log | None, job: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Makes one check. Returns a row for each finding, and a last row with the rest of the
    result.
    """
    facts = _facts(plan)
    kind, *arguments = job
    ends: tuple[Any, ...] = ()
    if log is not None:
        facts.first_dispatched = log.first_dispatched
        facts.indexed = _indexed(facts, log, arguments[0])
    result = CHECKS[kind](facts, *arguments)
    if kind == "queue":
        ends = (*arguments, *_queue_ends(facts.files, *arguments))
    rows: list[dict[str, Any]] = [
        {"check": kind, "file": f.path, "offset": f.offset, "what": f.what} for f in result.findings
    ]
    if result.unnamed:
        last = result.findings[-1]
        more = {"file": last.path, "offset": last.offset, "what": f"and {result.unnamed} more"}
        rows.append({"check": kind, **more})
    rest = {
        "counts": result.counts,
        "first_dispatched": result.first_dispatched,
        "times_seen": sorted(result.times_seen),
        "oldest_ms": result.oldest_ms,
        "newest_ms": result.newest_ms,
        "ends": ends,
    }
    return [*rows, {"check": kind, "rest": json.dumps(rest)}]


def _indexed(facts: Facts, log: _Log, base: int) -> array[int]:
    """The addresses in the log file at `base` that the index has, ascending. They are preceded by
    the first address of the whole index.
    """
    end = base + facts.files.log_size
    found: list[Any] = [np.zeros(0, dtype=np.int64)]
    starts = []
    for name, (first, last) in log.index.items():
        if first >= facts.first:
            starts.append(first)
        if last < facts.first or (first >= facts.first and (last < base or first >= end)):
            continue
        offsets = _addresses(facts.files, name)
        offsets = offsets[offsets >= facts.first]
        starts += offsets[:1].tolist()
        found.append(offsets[(offsets >= base) & (offsets < end)])
    here = np.unique(np.concatenate(found)).tolist()
    least = min(starts, default=None)
    return array("q", here if least is None or least in here[:1] else [least, *here])


def _addresses(files: StoreFiles, name: int) -> Any:
    """The log addresses in an index file, in the file's order."""
    view = files.view(files.index_path(name))
    count = min(max(HEADER.unpack_from(view)[5], 1), files.settings.max_index_num)
    at = HEADER_SIZE + SLOT_SIZE * files.settings.max_hash_slot_num
    entries = np.frombuffer(view, dtype=indexing.ENTRY, count=count, offset=at)
    return entries["phy_offset"][1:].astype(np.int64)


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
