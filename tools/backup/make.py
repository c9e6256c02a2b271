"""Makes a backup, in rounds: a round is done again if a topic was deleted in the middle of it."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

import msgspec

from ...store.commitlog.log import CommitLog
from ...store.consumequeue.queue import ENTRY_SIZE, QueueFiles, count_entries
from ...store.disk.copying import own_as, sizes_below
from ...store.disk.paths import (
    COMMIT_LOG,
    CONFIG,
    CONSUME_QUEUE,
    CUT_OFF,
    INDEX,
    OURS,
    StoreFolders,
    file_bases,
    file_name,
)
from ...store.errors import Corrupt, StoreError
from ...store.index.file import IndexFiles
from ...store.recovery import checkpoint, log_begin
from ...store.recovery.checkpoint import Checkpoint
from ...store.recovery.durable_progress import DurableProgress, ProgressFile
from ...store.recovery.layout import layout_of, note_layout, read_layout
from ...store.recovery.look import look
from ...store.recovery.plan import OURS_KNOWN
from .copier import Copier
from .folder import FORMAT, MANIFEST, Manifest
from .index_copy import copy_index_in_use
from .state import copy_early, copy_late, copy_seals, deletions_of, remove_seal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...conf.settings import Settings
    from .folder import BackupFolder
    from .source import Moment, Source

_ROUNDS: Final = 8


class Made(msgspec.Struct, frozen=True):
    """A backup that was made: its name, the log offsets [begin, end) that it has, how many files
    came by which way, and the bytes that were copied.
    """

    name: str
    begin: int
    end: int
    files: Mapping[str, int]
    copied_bytes: int


def make_backup(
    folders: StoreFolders,
    settings: Settings,
    source: Source,
    into: BackupFolder,
    *,
    links: bool,
) -> Made:
    """Makes a backup of the store in `folders`. With `links` full files of the log may be linked.

    Raises OSError (ENOSPC: the disk of the backups is full), StoreError, Corrupt for files that
    are missing or damaged. Then no new backup is there, and the earlier ones are as they were.
    """
    leftovers = into.leftovers()
    with ExitStack() as opened:
        earlier = [*into.names()[-1:], *leftovers]
        previous = [opened.enter_context(into.root.folder(name)) for name in earlier]
        new = opened.enter_context(into.begin())
        try:
            copier = Copier(folders.root, new, previous, links=links)
            begin, end = _Making(folders, settings, copier).run(source)
            name = into.finish(new)
        except BaseException:
            into.discard(new)
            raise
    for leftover in leftovers:
        into.root.remove_tree(leftover)
    return Made(name, begin, end, dict(copier.files), copier.copied_bytes)


class _Making:
    def __init__(self, folders: StoreFolders, settings: Settings, copier: Copier) -> None:
        self.folders = folders
        self.settings = settings
        self.copier = copier
        self.log = CommitLog(folders, settings.mapped_file_size_commit_log)
        self.queues = QueueFiles(folders.consume_queue, settings.mapped_file_size_consume_queue)
        self.index = IndexFiles(folders.index, settings.max_hash_slot_num, settings.max_index_num)
        self.noted = Checkpoint()

    def run(self, source: Source) -> tuple[int, int]:
        """Makes the backup, durably: the offsets [begin, end) of its log. Raises as
        `make_backup`.
        """
        for name in (COMMIT_LOG, CONSUME_QUEUE, INDEX, CONFIG, OURS):
            self.copier.make_folder(name)
        for _ in range(_ROUNDS):
            moment = self._round(source)
            if moment is not None:
                break
        else:
            raise StoreError(
                f"{self.folders.root.path}: topics were deleted during each of {_ROUNDS} tries; "
                "make the backup when none are"
            )
        source.check()
        begin = self._write_records(moment)
        self._check(begin, moment)
        self._write_manifest(begin, moment.end)
        own_as(self.copier.target, self.folders.root)
        self.copier.make_durable()
        return begin, moment.end

    def _round(self, source: Source) -> Moment | None:
        """Copies everything as it is at one moment; None if a topic was deleted meanwhile."""
        for name in (CONSUME_QUEUE, INDEX):
            self.copier.remove_folder(name)
            self.copier.make_folder(name)
        self.noted = checkpoint.read(self.folders.root) or Checkpoint()
        copy_early(self.copier)
        moment = source.moment()
        deleted = deletions_of(self.copier)  # first: the copy of that file is no older
        copy_late(self.copier)
        self._copy_log(moment)
        self._copy_queues(moment.end)
        self._copy_index(moment)
        return moment if deletions_of(self.copier) == deleted else None

    def _begin(self) -> int:
        """Where the log begins now: clean may have moved it."""
        noted = log_begin.read(self.folders.ours)
        return noted if noted is not None else next(iter(self.log.bases()), 0)

    def _copy_log(self, moment: Moment) -> None:
        size = self.log.file_size
        bases = [base for base in self.log.bases() if base < moment.end]
        copy_seals(self.copier, [base for base in bases if base + size <= moment.end])
        for base in bases:
            try:
                if base + size <= min(moment.final, moment.end):
                    self.copier.full_log_file(base, size)
                else:
                    path = f"{COMMIT_LOG}/{file_name(base)}"
                    self.copier.file(path, min(size, moment.end - base), size)
            except FileNotFoundError as error:
                if base >= self._begin():
                    path = f"{self.folders.commit_log.path}/{file_name(base)}"
                    why = "the file is missing, and the store has not removed it"
                    raise Corrupt(path, base, why) from error

    def _copy_queues(self, end: int) -> None:
        """Copies the entries of records below `end`. A file that is missing was removed by clean,
        or its topic was deleted, which the round notices.
        """
        size = self.queues.file_size
        for topic, queue_id, folder in self.queues.queues():
            try:
                bases = file_bases(folder)
                count = count_entries(folder, bases, size, end)
            except FileNotFoundError:
                continue
            for base in bases:
                length = min(size, count * ENTRY_SIZE - base)
                if length > 0:
                    path = f"{CONSUME_QUEUE}/{topic}/{queue_id}/{file_name(base)}"
                    with suppress(FileNotFoundError):
                        self.copier.file(path, length, size)

    def _copy_index(self, moment: Moment) -> None:
        used = moment.progress.index
        if not used.name:
            return
        for name in self.index.names():
            if name < used.name:
                with suppress(FileNotFoundError):  # clean removed it
                    self.copier.file(f"{INDEX}/{name}", self.index.size)
        copy_index_in_use(self.copier, self.index, used)

    def _write_records(self, moment: Moment) -> int:
        """Writes what says where the log begins and ends, as a stop in order does. Returns the
        log's begin.
        """
        copier = self.copier
        begin = self._begin()
        with StoreFolders(copier.target.path, create=True) as made:
            for base in file_bases(made.commit_log):
                if base + self.log.file_size <= begin:
                    copier.remove(f"{COMMIT_LOG}/{file_name(base)}")
                    remove_seal(copier, base)
            begin = max(begin, *file_bases(made.commit_log)[:1], 0)
            note_layout(made, layout_of(self.settings, read_layout(self.folders.ours)))
            log_begin.write(made.ours, begin)
            physic, logics, index = (
                self.noted.physic_msg_timestamp,
                self.noted.logics_msg_timestamp,
                self.noted.index_msg_timestamp,
            )
            record = DurableProgress(
                flushed=moment.end,
                clean=True,
                progress=moment.progress,
                store_time_ms=moment.store_time_ms,
                physic=physic,
                logics=logics,
                index=index,
            )
            ProgressFile(made.ours).write(record)
            checkpoint.write(made.root, Checkpoint(physic, logics, index, 0, moment.end))
        return begin

    def _check(self, begin: int, moment: Moment) -> None:
        """Has a start look at the copy. Raises StoreError if it would find anything to do."""
        with StoreFolders(self.copier.target.path) as made:
            try:
                plan = look(made, self.settings)
            except Corrupt as error:
                raise StoreError(f"the copy cannot be used, and was removed: {error}") from error
        dispatched = plan.dispatch.begin.dispatched
        found = {
            "it was not stopped in order": not plan.run.clean or plan.run.known_from != OURS_KNOWN,
            f"its log begins at {plan.log.first}": bool(plan.log.files) and plan.log.first > begin,
            f"its log ends at {plan.log.end.end}": plan.log.end.end != moment.end,
            f"{plan.log.cut_bytes} bytes lie behind its end": plan.log.cut_bytes > 0,
            f"only {dispatched} is dispatched": dispatched != moment.end,
            plan.dispatch.anew: bool(plan.dispatch.anew),
        }
        wrong = [what for what, is_so in found.items() if is_so]
        if wrong:
            raise StoreError(
                f"the copy of the log's offsets {begin} to {moment.end} cannot be used, and was "
                f"removed: {'; '.join(wrong)}; make another one"
            )

    def _write_manifest(self, begin: int, end: int) -> None:
        files = {path: size for path, size in sizes_below(self.copier.target) if path != CUT_OFF}
        made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        manifest = Manifest(FORMAT, self.folders.root.path, made, begin, end, files)
        self.copier.write(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
