"""Consume queues and index of a stopped store, rebuilt from its commit log by many tasks.

First, one task for each log file writes queue entries at their places (`placing`) and counts keys.
Then one task for each index file writes that file (`indexing`). The bytes equal those that dispatch
writes. Nothing is shuffled: a machine reads only the files of its own tasks. All machines must
share the folder, or the master must be local.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from ...store.disk import files as disk
from ...store.disk.files import Folder
from ...store.disk.paths import CONSUME_QUEUE, INDEX, OURS, PROGRESS, RECOVERY
from ...store.errors import Corrupt, CorruptRange
from ...store.names import is_light_queue
from ...store.reading.columns import LogScan
from ...store.recovery.unsupported import refuse_unsupported
from ...store.topics.deletions import Deletions
from ...tools.raw.files import BadInput, StoreFiles
from ...tools.repair import Step, apply
from ...tools.rocketmq.logs import LogView
from . import indexing, placing
from .tasks import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from ...conf.settings import Settings

_NEW: Final = f"{RECOVERY}/rebuilt"
_PLACED: Final = (
    "base long, topic string, queue_id int, first long, last long, entries long, keys long"
)
_INDEXED: Final = "name long, keys long"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of a rebuild. `path` holds the new files, `kept` the old ones (None: built in
    another folder).
    """

    path: str
    kept: str | None
    log_files: int
    queues: int
    entries: int
    keys: int
    index_files: int
    #: Queues with fewer or more entries than their offsets span, as (topic, queue id, missing).
    gaps: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class _Plan:
    """The plan that every task gets. The log's records end at `end`."""

    store: str
    target: str
    settings: Settings
    end: int
    deleted: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _IndexFile:
    """One index file, with the keys [first, end) of the whole log. `base` and `skip` say where to
    find key number first - 1 (number 0, if first is 0): in the log file at `base`, after `skip`
    keys.
    """

    name: int
    first: int
    end: int
    base: int
    skip: int


def rebuild(
    spark: SparkSession,
    store: str | os.PathLike[str],
    settings: Settings,
    target: str | os.PathLike[str] | None = None,
) -> Rebuilt:
    """Builds queues and index of the stopped store in the folder `target`, which must not have
    them. Without `target` it builds in place: when all is built, the old files are moved to
    `recovery/`. The caller must then hold the store's lock.

    Raises BadInput where the log is damaged in its middle, or `target` is not empty, and OSError.
    """
    path = os.fspath(store)
    plan = _plan(path, os.fspath(target or f"{path}/{_NEW}"), settings)
    _make_target(plan, fresh=target is None)
    bases = [file.base for file in StoreFiles(path, settings).log if file.base < plan.end]
    placed = run(spark, bases, functools.partial(_place, plan), _PLACED)
    queues = _queues(placed)
    with placing.QueueWriter(plan.target, _queue_size(plan)) as writer:
        for (topic, queue_id), (first, _, _) in queues.items():
            writer.blank(topic, queue_id, first)
    totals = [(row["base"], row["keys"]) for row in placed if row["topic"] is None]
    index = _index_files(sorted(totals), settings.max_index_num - 1)
    done = run(spark, index, functools.partial(_index, plan), _INDEXED)
    _sync(plan.target)
    return Rebuilt(
        path=path if target is None else plan.target,
        kept=_swap(path, settings) if target is None else None,
        log_files=len(bases),
        queues=len(queues),
        entries=sum(entries for _, _, entries in queues.values()),
        keys=sum(row["keys"] for row in done),
        index_files=len(done),
        gaps=tuple(
            (*queue, last + 1 - first - entries)
            for queue, (first, last, entries) in sorted(queues.items())
            if last + 1 - first != entries
        ),
    )


def _make_target(plan: _Plan, *, fresh: bool) -> None:
    """Makes the folders to build in. With `fresh` first removes what an interrupted rebuild left
    there. Raises BadInput for a folder that has queues or an index.
    """
    if fresh:
        with (
            contextlib.suppress(FileNotFoundError),
            Folder.open(plan.store) as root,
            root.parent(_NEW) as (parent, name),
        ):
            parent.remove_tree(name)
    with Folder.open(plan.target, create=True) as folder:
        for name in (CONSUME_QUEUE, INDEX):
            if folder.has(name):
                raise BadInput(f"{plan.target}/{name} is there already: give another folder")
            folder.folder(name, create=True).close()


def _plan(path: str, target: str, settings: Settings) -> _Plan:
    refuse_unsupported(path)
    files = StoreFiles(path, settings)
    if light := sorted({topic for topic, _ in files.queues() if is_light_queue(topic)}):
        raise BadInput(
            f"{path}: light queues such as {light[0]} are not made anew by this job: use silo "
            "repair --rebuild"
        )
    log = LogView(files)
    log.recover(files.checkpoint(), clean=files.clean)
    if log.problems:
        raise BadInput(f"{log.problems[0]}; restore the file, or use silo repair --truncate-at")
    return _Plan(os.path.abspath(path), os.path.abspath(target), settings, log.end, deleted(path))


def deleted(path: str) -> dict[str, int]:
    """By name of a deleted topic, the log address below which records belong to it and are
    ignored.
    """
    if not disk.is_folder(f"{path}/{OURS}"):
        return {}
    with Folder.open(f"{path}/{OURS}") as folder:
        return {name: found.below for name, found in Deletions.read(folder).topics.items()}


def _queue_size(plan: _Plan) -> int:
    return StoreFiles(plan.store, plan.settings).queue_size


def _batches(plan: _Plan, files: StoreFiles, base: int, columns: Sequence[str]) -> Iterator[Any]:
    """The records of a log file as batches. Raises Corrupt at damage."""
    view = files.log_view(base)
    scan = LogScan(
        view, base, stop=min(plan.end, base + len(view)), columns=columns, check_crc=True
    )
    try:
        yield from scan
    except CorruptRange as error:
        why = f"{error.end - error.start} bytes are no records; see silo repair --truncate-at"
        raise Corrupt(files.log_path(base), error.start, why) from error


def _place(plan: _Plan, base: int) -> list[dict[str, Any]]:
    """Writes the queue entries of one log file. Returns a row for each queue, and one with the
    number of keys.
    """
    files = StoreFiles(plan.store, plan.settings)
    view = files.log_view(base)
    indexed = plan.settings.message_index_enable
    levels = plan.settings.message_delay_level
    names = (*placing.COLUMNS, *(set(indexing.COLUMNS) - set(placing.COLUMNS) if indexed else ()))
    rows: list[dict[str, Any]] = []
    found: dict[tuple[str, int], tuple[int, int, int]] = {}
    keys = 0
    with placing.QueueWriter(plan.target, files.queue_size) as writer:
        for batch in _batches(plan, files, base, names):
            if indexed:
                keys += int(indexing.counts_of(batch).sum())
            for part in placing.runs_of(batch, view, base, plan.deleted, levels):
                writer.write(part)
                span = int(part.offsets[0]), int(part.offsets[-1]), len(part.offsets)
                _widen(found, (part.topic, part.queue_id), span)
    _sync(plan.target)
    for (topic, queue_id), (first, last, entries) in found.items():
        span_row = {"first": first, "last": last, "entries": entries}
        rows.append({"base": base, "topic": topic, "queue_id": queue_id, **span_row})
    return [*rows, {"base": base, "keys": keys}]


def _widen(
    found: dict[tuple[str, int], tuple[int, int, int]],
    queue: tuple[str, int],
    span: tuple[int, int, int],
) -> None:
    first, last, entries = found.get(queue, (span[0], span[1], 0))
    found[queue] = min(first, span[0]), max(last, span[1]), entries + span[2]


def _queues(placed: Sequence[dict[str, Any]]) -> dict[tuple[str, int], tuple[int, int, int]]:
    """For each queue the first and the last offset, and the number of entries."""
    found: dict[tuple[str, int], tuple[int, int, int]] = {}
    for row in placed:
        if row["topic"] is not None:
            span = row["first"], row["last"], row["entries"]
            _widen(found, (row["topic"], row["queue_id"]), span)
    return found


def _index_files(totals: Sequence[tuple[int, int]], most: int) -> list[_IndexFile]:
    """Divides the keys among index files. `totals` are the numbers of keys of the log files,
    ascending.
    """
    ends = list(accumulate(keys for _, keys in totals))
    now = time.time()
    name = int(time.strftime("%Y%m%d%H%M%S", time.localtime(now)) + f"{int(now * 1000) % 1000:03d}")
    found: list[_IndexFile] = []
    for first in range(0, ends[-1] if ends else 0, most):
        at = max(first - 1, 0)
        log = bisect_right(ends, at)
        before = ends[log - 1] if log else 0
        end = min(first + most, ends[-1])
        found.append(_IndexFile(name + len(found), first, end, totals[log][0], at - before))
    return found


def _index(plan: _Plan, item: _IndexFile) -> list[dict[str, Any]]:
    """Writes one index file. Returns a row with its number of keys."""
    files = StoreFiles(plan.store, plan.settings)
    settings = plan.settings
    parts = _keys(plan, files, item)
    before = 0
    if item.first:
        before = int(next(parts).times[0])
    path = f"{plan.target}/{INDEX}/{item.name:017d}"
    with indexing.IndexFileWriter(
        path, before, settings.max_hash_slot_num, settings.max_index_num
    ) as writer:
        for part in parts:
            writer.put(part)
    _sync(plan.target)
    return [{"name": item.name, "keys": item.end - item.first}]


def _keys(plan: _Plan, files: StoreFiles, item: _IndexFile) -> Iterator[indexing.Keys]:
    """Yields the file's keys. If a key precedes them in the log, that key comes first, alone."""
    skip = item.skip
    alone = 1 if item.first else 0
    left = item.end - item.first + alone
    for file in files.log:
        if file.base < item.base or file.base >= plan.end or not left:
            continue
        for batch in _batches(plan, files, file.base, indexing.COLUMNS):
            count = int(indexing.counts_of(batch).sum())
            if count <= skip:
                skip -= count
                continue
            keys = indexing.keys_of(batch).part(skip, skip + left)
            skip = 0
            left -= len(keys)
            if alone:
                yield keys.part(0, 1)
                keys = keys.part(1, len(keys))
                alone = 0
            yield keys
            if not left:
                break


def _sync(path: str) -> None:
    with Folder.open(path) as folder:
        disk.sync_file_system(folder)


def _swap(path: str, settings: Settings) -> str:
    """Moves the old files to `recovery/` and the new ones into their place. Returns the folder that
    holds the old files.

    The progress record is moved first: a store that starts in between then dispatches its log
    again.
    """
    names = (f"{OURS}/{PROGRESS}", CONSUME_QUEUE, INDEX)
    steps = [Step("move", name) for name in names if disk.exists(f"{path}/{name}")]
    kept = apply(path, settings, steps)
    with Folder.open(path) as root, root.parent(_NEW) as (parent, new):
        with parent.folder(new) as built:
            for name in (CONSUME_QUEUE, INDEX):
                built.rename(name, root, name)
        parent.remove_folder(new)
    _sync(path)
    return kept
