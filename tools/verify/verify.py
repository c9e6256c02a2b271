"""Checks a whole store: records, queues, index, checkpoint and JSON against each other."""

from __future__ import annotations

import contextlib
import os
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import msgspec

from ...store.commitlog.holes import Holes
from ...store.config.fastjson import loads
from ...store.disk.files import Folder, is_folder
from ...store.disk.paths import OURS, PROGRESS, StoreFolders
from ...store.errors import Corrupt, StoreError
from ...store.recovery import durable_progress
from ...store.recovery.checkpoint import CHECKPOINT, CHECKPOINT_SIZE, Checkpoint
from ...store.recovery.log_files import missing_ranges
from ...store.recovery.unsupported import refuse_unsupported
from ...store.topics.deletions import Deletions
from ..holes.log_damage import known_log_of, open_log
from ..raw.files import BadInput, StoreFiles
from ..rocketmq.logs import LogView
from .findings import HOLES_FOUND, Facts, Finding, Result
from .seals import check_seals, measured_seal, sealed_bases
from .steps import Threads, check_all, survey_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...conf.settings import Settings
    from ...store.commitlog.seals import Seal
    from .findings import LogPiece

#: For a store smaller than this, one thread is faster than many.
_SMALL_BYTES = 64 << 20


class Report(msgspec.Struct):
    """The outcome: what is wrong, what was counted, and further notes."""

    findings: list[Finding] = []
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    notes: list[str] = []

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
    """Checks the store at `path` in up to `workers` threads (default: one for each usable core).

    `on_progress` is called with the bytes done and all bytes. Raises BadInput, UnsupportedFeature.
    """
    refuse_unsupported(path)
    files = StoreFiles(path, settings)
    report = Report()
    checkpoint = read_checkpoint(files, report)
    facts = gather(files, checkpoint, report)
    total = len(files.log) * files.log_size + sum(size for _, size in survey_jobs(facts))
    if total < _SMALL_BYTES:
        workers = 1
    run = Threads(facts, workers or len(os.sched_getaffinity(0)), total, on_progress)
    found = Result()
    for part in check_all(facts, run).values():
        found.merge(part)
    report.findings += found.findings
    report.counts = found.counts
    check_rest(files, checkpoint, found, report, seals_of(facts, found))
    return report


def seals_of(facts: Facts, found: Result) -> dict[int, Seal | None]:
    """The seals of the sealed files, as far as the check of the log computed them."""
    pieces: dict[int, list[LogPiece]] = defaultdict(list)
    for piece in sorted(found.pieces, key=lambda piece: piece.start):
        if piece.base in facts.sealed:
            pieces[piece.base].append(piece)
    return {base: measured_seal(parts, facts.files.log_size) for base, parts in pieces.items()}


def check_rest(
    files: StoreFiles,
    checkpoint: Checkpoint,
    found: Result,
    report: Report,
    seals: Mapping[int, Seal | None],
) -> None:
    """The checks of the whole store, which need the results of all others. Their findings go into
    `report`.
    """
    _check_times(files, checkpoint, found, report)
    _check_small_files(files, report)
    _count_holes(files, report)
    report.findings += _check_seals(files, seals)
    report.findings.sort(key=lambda finding: (finding.path, finding.offset, finding.what))


def _check_seals(files: StoreFiles, seals: Mapping[int, Seal | None]) -> list[Finding]:
    """Checks the seals. Only a store of SiloMQ has seals; it must have all of its folders."""
    if not is_folder(f"{files.path}/{OURS}"):
        return []
    try:
        folders = StoreFolders(files.path)
    except FileNotFoundError as error:
        return [Finding(str(error.filename), 0, "the folder is missing")]
    try:
        return [Finding(*wrong) for wrong in check_seals(folders, files.log_size, seals)]
    finally:
        folders.close()


def gather(files: StoreFiles, checkpoint: Checkpoint, report: Report) -> Facts:
    """Gathers the facts that all checks share; findings on the way go into the report. The end of
    the log is not known before all of it has been read: it counts as the end of the last file.
    """
    log = LogView(files)
    bases = log.bases
    report.findings += check_log_files(files)
    end = bases[-1] + files.log_size if bases else 0
    return Facts(
        files=files,
        checkpoint=checkpoint,
        first=max(log.first, 0),
        end=end,
        redispatched=end if files.clean else log.recovery_start(checkpoint, clean=False),
        queue_bases={
            queue: frozenset(file.base for file in files.queue_files(*queue))
            for queue in files.queues()
        },
        index_names=files.index_files(),
        deleted_below=_deleted_below(files),
        sealed=_sealed(files),
    )


def check_log_files(files: StoreFiles) -> list[Finding]:
    """What the log lacks: whole files, and parts of files. Raises BadInput."""
    try:
        known = known_log_of(files.path, files.log_size)
        with open_log(files.path, files.log_size) as log:
            missing = missing_ranges(log, known)
    except (StoreError, OSError) as error:
        raise BadInput(f"{files.path}: {error}") from error
    found = []
    for one in missing:
        lost = f": offsets {one.start} to {one.end} are lost" if one.end > one.start else ""
        found.append(Finding(files.log_path(one.base), one.start, f"{one.why}{lost}"))
    return found


def _count_holes(files: StoreFiles, report: Report) -> None:
    """Counts the declared holes, and notes each of them."""
    with Folder.open(files.path) as root:
        try:
            holes = Holes.read(root)
        except Corrupt as error:
            report.findings.append(Finding(error.path, error.offset, error.why))
            return
    for hole in holes:
        report.counts[HOLES_FOUND] += 1
        report.notes.append(f"offsets {hole.start} to {hole.end} were declared lost ({hole.why})")


def _deleted_below(files: StoreFiles) -> dict[str, int]:
    if not is_folder(f"{files.path}/{OURS}"):
        return {}
    with Folder.open(f"{files.path}/{OURS}") as folder:
        found = Deletions.read(folder)
    return {name: deletion.below for name, deletion in found.topics.items()}


def _sealed(files: StoreFiles) -> frozenset[int]:
    if not is_folder(f"{files.path}/{OURS}"):
        return frozenset()
    with contextlib.suppress(FileNotFoundError), StoreFolders(files.path) as folders:
        return sealed_bases(folders)
    return frozenset()


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
