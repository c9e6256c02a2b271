"""The three steps of a check, and the threads that they run in (see the room's docstring)."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from ...store.commitlog import _scan as scan_kernel
from .findings import Facts, Result
from .index import check_index_file, check_index_header, survey_index_file
from .log import check_log_piece, finish_log_file, first_indexed
from .queue import check_queue, survey_queue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .findings import LogPiece

#: The bytes of a log file that one job checks.
_PIECE: Final = 128 << 20
#: A record begins in the first so many bytes behind any place in the middle of the log.
_LONGEST_RECORD: Final = 8 << 20
_ANY_TIME: Final = -(1 << 63)
#: The kind of check and its arguments.
Job: TypeAlias = tuple[Any, ...]
#: Which checks' findings a job has.
KINDS: Final = ("index", "queue", "log")
CHECKS: Final[dict[str, Callable[..., Result]]] = {
    "index survey": survey_index_file,
    "queue survey": survey_queue,
    "log": check_log_piece,
    "index header": check_index_header,
    "index": check_index_file,
    "queue": check_queue,
}


class Runner(Protocol):
    """Does jobs, with the facts as they are when a step begins."""

    @property
    def workers(self) -> int:
        """How many jobs run at the same time."""

    def jobs(self, jobs: Sequence[tuple[Job, int]]) -> Iterable[tuple[Job, Result]]:
        """The result of each job, in any order. A job comes with its size in bytes."""


def check_all(facts: Facts, run: Runner) -> dict[str, Result]:
    """Makes the three steps. Returns the results by kind (KINDS). Afterwards `facts` knows the end
    of the log.
    """
    surveys = dict(run.jobs(survey_jobs(facts)))
    survey = Result()
    for result in surveys.values():
        survey.merge(result)
    learn_from_survey(facts, survey)
    log = _check_log(facts, run)
    second = _second_jobs(facts, surveys, log)
    found = {kind: Result() for kind in KINDS}
    found["log"].merge(log)
    for job, result in surveys.items():
        kind = job[0].partition(" ")[0]
        if (kind, *job[1:]) not in second:
            found[kind].counts += result.counts
    for job, result in run.jobs([(job, 0) for job in second]):
        found[job[0].partition(" ")[0]].merge(result)
    return found


def survey_jobs(facts: Facts) -> list[tuple[Job, int]]:
    """The surveys, each with the number of bytes that it reads."""
    files = facts.files
    jobs: list[tuple[Job, int]] = [
        (("index survey", name), files.index_size) for name in facts.index_names
    ]
    jobs += [
        (("queue survey", *queue), len(bases) * files.queue_size)
        for queue, bases in facts.queue_bases.items()
    ]
    return jobs


def learn_from_survey(facts: Facts, survey: Result) -> None:
    """Takes over what the check of the log needs from the surveys."""
    facts.first_dispatched = survey.first_dispatched or 0
    if survey.first_dispatched is None:
        facts.first_dispatched = facts.end if not facts.queue_bases else 0
    facts.spans = survey.spans if facts.files.settings.message_index_enable else {}
    facts.first_indexed = first_indexed(facts)


def _check_log(facts: Facts, run: Runner) -> Result:
    """Checks all log files, and learns where the log ends."""
    pieces = {file.base: _pieces(facts, file.base, run.workers) for file in facts.files.log}
    jobs: list[tuple[Job, int]] = [
        (("log", base, start, stop), stop - start)
        for base, spans in pieces.items()
        for start, stop in spans
    ]
    results: dict[int, dict[int, Result]] = defaultdict(dict)
    for (_, base, start, _), result in run.jobs(jobs):
        results[base][start] = result
    whole: dict[int, Result] = {}
    for base, parts in results.items():
        whole[base] = _joined(facts, base, [parts[start] for start in sorted(parts)])
    learn_log_end(facts, itertools.chain.from_iterable(r.pieces for r in whole.values()))
    log = Result()
    for base, result in whole.items():
        finish_log_file(facts, base, result)
        log.merge(result)
    return log


def _pieces(facts: Facts, base: int, workers: int) -> list[tuple[int, int]]:
    """Parts of a log file for several processes, in bytes into the file. Each begins where a record
    seems to begin.
    """
    size = facts.files.log_size
    starts = [0]
    if workers > 1:
        view = facts.files.log_view(base)
        for near in range(_PIECE, size - _PIECE // 2, _PIECE):
            until = view[: min(near + _LONGEST_RECORD, size)]
            start, _ = scan_kernel.find_record(until, near, base, _ANY_TIME)
            if start < 0:
                break
            starts.append(start)
    return list(itertools.pairwise([*starts, size]))


def _joined(facts: Facts, base: int, parts: Sequence[Result]) -> Result:
    """The result of a whole file. If a part did not end where the next one began, that was no
    record's beginning (a body can hold anything), and the file is checked as one piece.
    """
    ends = [part.pieces[0] for part in parts]
    if any(one.end != base + other.start for one, other in itertools.pairwise(ends)):
        return check_log_piece(facts, base, 0, facts.files.log_size)
    first, *others = parts
    for part in others:
        findings, part.findings = part.findings, []
        first.unnamed += part.unnamed
        part.unnamed = 0
        for finding in findings:
            first.add(finding.path, finding.offset, finding.what)
        first.merge(part)
    return first


def learn_log_end(facts: Facts, pieces: Iterable[LogPiece]) -> None:
    """Notes the last log file that holds records, and where they end. Damage does not end the log:
    records behind it count too.
    """
    used = [piece for piece in pieces if piece.used_end >= 0]
    if used:
        last = max(used, key=lambda piece: piece.used_end)
        facts.last_base, facts.end = last.base, last.used_end
    if facts.files.clean:
        facts.redispatched = facts.end


def _second_jobs(facts: Facts, surveys: Mapping[Job, Result], log: Result) -> dict[Job, None]:
    """The checks of queues and index files that the survey and the log left open."""
    jobs: dict[Job, None] = {}
    for (kind, *what), result in surveys.items():
        if kind == "queue survey":
            if result.odd or any(log.matched[key] != n for key, n in result.live.items()):
                jobs["queue", *what] = None
            continue
        name = what[0]
        right = log.indexed[name] == result.spans[name].live
        unread = not facts.files.settings.message_index_enable
        jobs["index" if result.odd or unread or not right else "index header", name] = None
    return jobs


class Threads:
    """Does jobs in up to `workers` threads. The kernels release the interpreter's lock."""

    def __init__(
        self,
        facts: Facts,
        workers: int,
        total: int,
        on_progress: Callable[[int, int], None] | None,
    ) -> None:
        self.facts, self.workers, self.total = facts, workers, total
        self.on_progress = on_progress
        self.done = 0

    def jobs(self, jobs: Sequence[tuple[Job, int]]) -> Iterator[tuple[Job, Result]]:
        """Yields the result of each job, as they end. A job comes with its size in bytes."""
        for job, size, result in self._results(jobs):
            self.done += size
            if self.on_progress:
                self.on_progress(self.done, self.total)
            yield job, result

    def _results(self, jobs: Sequence[tuple[Job, int]]) -> Iterator[tuple[Job, int, Result]]:
        if self.workers == 1 or len(jobs) < 2:
            yield from (self._do(*job) for job in jobs)
            return
        with ThreadPoolExecutor(self.workers) as pool:
            futures = [pool.submit(self._do, *job) for job in jobs]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                for future in futures:
                    future.cancel()

    def _do(self, job: Job, size: int) -> tuple[Job, int, Result]:
        kind, *arguments = job
        return job, size, CHECKS[kind](self.facts, *arguments)
