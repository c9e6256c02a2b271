"""Repairs a stopped store; the only tool that writes. It plans all steps first, then does them.

No data is lost: everything that is removed is kept below `recovery/<time>/`. Queues and index are
rebuilt by the store's own recovery (`store/recovery`), from the log alone.
"""

from __future__ import annotations

import itertools
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..conf.settings import Settings
from ..shm._memory import Mapping
from ..shm.control import SIZE, Control
from ..shm.ownership import STARTUP
from ..store.disk import files as disk
from ..store.disk.files import Folder
from ..store.disk.paths import (
    COMMIT_LOG,
    CONSUME_QUEUE,
    INDEX,
    OURS,
    PROGRESS,
    RECOVERY,
    StoreFolders,
    file_name,
)
from ..store.disk.replacing import copy_file
from ..store.errors import Corrupt
from ..store.recovery.apply import apply as apply_recovery
from ..store.recovery.checkpoint import CHECKPOINT
from ..store.recovery.look import look
from ..store.topics.table_layout import Plan
from ..store.topics.topic_table import TopicTable
from .raw.files import BadInput, StoreFiles
from .raw.walk import walk_file
from .rocketmq.logs import LogView

if TYPE_CHECKING:
    from collections.abc import Callable

_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a repair below the store's folder."""

    kind: str
    name: str = ""
    position: int = 0

    @property
    def what(self) -> str:
        """The step in one line, for people."""
        return {
            "move": f"move {self.name} to recovery",
            "copy": f"copy {self.name} to recovery",
            "zero": f"zero {self.name} from position {self.position} on",
            "rebuild": "build consume queues and index anew from the commit log",
        }[self.kind]


def plan_rebuild(files: StoreFiles) -> list[Step]:
    """The steps that rebuild queues and index. Raises BadInput where the log is damaged in its
    middle, because a start would refuse the store.
    """
    log = LogView(files)
    log.recover(files.checkpoint(), clean=False)
    _refuse_damage(files, log)
    return _rebuild_steps(files)


def _refuse_damage(files: StoreFiles, log: LogView) -> None:
    """Raises BadInput for damage. Reads the whole log, not only the part that recovery would
    read.
    """
    for base in log.bases:
        for found in walk_file(files, base):
            if base < log.end and found.offset < log.end and found.why and found.record is None:
                raise BadInput(_damaged(files, base, found.offset, found.why))
    if log.problems:
        raise BadInput(f"{log.problems[0]}; restore the file, or repair with --truncate-at")


def _damaged(files: StoreFiles, base: int, offset: int, why: str) -> str:
    return (
        f"{files.log_path(base)} is damaged at offset {offset} ({why}): restore the file from a "
        f"copy, or repair with --truncate-at {offset}, which gives up what lies behind"
    )


def _rebuild_steps(files: StoreFiles) -> list[Step]:
    # The progress record is moved first: after an interrupted repair, a start dispatches the log
    # again.
    names = (f"{OURS}/{PROGRESS}", CONSUME_QUEUE, INDEX)
    steps = [Step("move", name) for name in names if disk.exists(f"{files.path}/{name}")]
    return [*steps, Step("rebuild")]


def plan_truncate(files: StoreFiles, offset: int) -> list[Step]:
    """The steps that end the log at address `offset` and rebuild queues and index. Raises BadInput
    unless a record, an end-of-file record or damage begins there.
    """
    base = offset - offset % files.log_size
    bases = [file.base for file in files.log]
    if base not in bases:
        has = f"{bases[0]} to {bases[-1] + files.log_size}" if bases else "nothing"
        raise BadInput(f"{files.path}: the commit log holds no offset {offset}; it holds {has}")
    starts = [found.offset for found in walk_file(files, base)]
    if offset not in starts:
        near = max((start for start in starts if start < offset), default=base)
        raise BadInput(
            f"{files.log_path(base)}: no record begins at offset {offset}; the one before it "
            f"begins at {near}"
        )
    path = f"{COMMIT_LOG}/{file_name(base)}"
    steps = _rebuild_steps(files)
    if disk.exists(f"{files.path}/{CHECKPOINT}"):
        # Its times may be those of records that are cut off.
        steps.insert(0, Step("move", CHECKPOINT))
    cut = [Step("move", f"{COMMIT_LOG}/{file_name(later)}") for later in bases if later > base]
    return [
        *steps[:-1],
        Step("copy", path),
        *reversed(cut),
        Step("zero", path, offset - base),
        steps[-1],
    ]


def apply(
    path: str,
    settings: Settings,
    steps: list[Step],
    on_step: Callable[[Step], None] | None = None,
) -> str:
    """Does the steps; the caller holds the store's lock. Returns the folder below `recovery/` that
    holds the removed files. Raises OSError, StoreError; steps that were done stay done.
    """
    with Folder.open(path) as root, root.folder(RECOVERY, create=True) as recovery:
        kept = _new_name(recovery, time.strftime("%Y%m%d-%H%M%S", time.localtime()))
        with recovery.folder(kept, create=True) as into:
            for step in steps:
                if on_step:
                    on_step(step)
                if step.kind == "rebuild":
                    _rebuild(path, settings)
                elif step.kind == "zero":
                    _zero(root, step)
                else:
                    _keep(root, into, step)
    return f"{path}/{RECOVERY}/{kept}"


def _new_name(folder: Folder, name: str) -> str:
    """A name that is not taken in the folder: `name`, or `name` with a number."""
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([name], numbered) if not folder.has(each))


def _zero(root: Folder, step: Step) -> None:
    """Overwrites a file with zeros from the step's position on, durably."""
    with root.parent(step.name) as (folder, name), folder.file(name, write=True) as fd:
        size = disk.size_of(fd)
        for at in range(step.position, size, _BLOCK):
            disk.write_at(fd, bytes(min(_BLOCK, size - at)), at)
        disk.sync_data(fd)


def _keep(root: Folder, into: Folder, step: Step) -> None:
    """Moves or copies the file of a step into the folder `into`, durably."""
    with root.parent(step.name) as (source, name):
        with into.parent(step.name, create=True) as (target, _):
            if step.kind == "copy":
                copy_file(source, name, target, name)
            else:
                source.rename(name, target, name)
            target.sync()
        source.sync()


def _rebuild(path: str, settings: Settings) -> None:
    """Runs the store's recovery in private memory, from the log alone. Raises BadInput."""
    folders = StoreFolders(path, create=True)
    try:
        plan = look(folders, settings)
        apply_recovery(plan, folders, settings, *_fresh_memory(settings))
        disk.sync_file_system(folders.root)
    except Corrupt as error:
        raise BadInput(f"{error}; what was moved is below {RECOVERY}/") from error
    finally:
        folders.close()


def _fresh_memory(settings: Settings) -> tuple[Control, TopicTable]:
    plan = Plan(settings.max_topics, settings.max_queues, settings.max_sessions)
    control = Control(_memory(SIZE), STARTUP)
    control.create(0)
    return control, TopicTable.create(_memory(plan.size), plan)


def _memory(size: int) -> Mapping:
    fd = os.memfd_create("silomq-repair", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, size)
        return Mapping(fd, 0, size)
    finally:
        os.close(fd)
