"""Repairs a stopped store; the only tool that writes. It plans all steps first, then does them.

No data is lost: everything that is removed is kept below `recovery/<time>/`. Queues and index are
rebuilt by the store's own recovery (`store/recovery`), from the log alone. `plan_holes` goes on
without what the log has lost (`holes`). A declared hole ends with its bytes: the steps drop it when
the log ends before it, and when its messages stand in the log again.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..conf.settings import Settings
from ..shm._memory import Mapping
from ..shm.control import SIZE, Control
from ..shm.ownership import STARTUP
from ..store.commitlog.holes import Hole, Holes
from ..store.commitlog.seals import SEALS
from ..store.disk import files as disk
from ..store.disk.files import Folder
from ..store.disk.paths import (
    COMMIT_LOG,
    CONSUME_QUEUE,
    HOLES,
    INDEX,
    OURS,
    PROGRESS,
    RECOVERY,
    StoreFolders,
    file_name,
)
from ..store.disk.replacing import copy_file, own_file
from ..store.errors import Corrupt
from ..store.recovery.apply import apply as apply_recovery
from ..store.recovery.checkpoint import CHECKPOINT
from ..store.recovery.look import look
from ..store.recovery.unsupported import refuse_unsupported
from ..store.topics.table_layout import Plan
from ..store.topics.topic_table import TopicTable
from .holes.hole_filling import Filling, fillings
from .holes.log_damage import LogDamage, find_damage, known_log_of, open_log
from .holes.lost_messages import entries_in, lost_messages
from .holes.misplaced_records import with_misplaced
from .holes.restored_messages import still_lost
from .raw.files import BadInput, StoreFiles
from .raw.walk import walk_file
from .rebuild_checks import refuse_damage, refuse_misplaced
from .rocketmq.logs import LogView

if TYPE_CHECKING:
    from collections.abc import Callable

_BLOCK: Final = 1 << 20


class Step(msgspec.Struct, frozen=True):
    """One step of a repair below the store's folder. `position` and `size` are bytes in the file
    `name`. `data` is what to write: the declared holes, or the filling of a gap. To declared holes
    `new` ones are added, whose bytes are kept in the folder of the repair.
    """

    kind: str
    name: str = ""
    position: int = 0
    size: int = 0
    data: Holes | Filling | None = None
    new: tuple[Hole, ...] = ()

    @property
    def what(self) -> str:
        """The step in one line, for people."""
        return {
            "move": f"move {self.name} to recovery",
            "copy": f"copy {self.name} to recovery",
            "zero": f"zero {self.name} from position {self.position} on",
            "keep": f"copy {self.size} bytes of {self.name} from position {self.position} on to "
            "recovery",
            "declare": f"declare in {self.name}: {self._declared()}",
            "drop": f"drop holes from {self.name}, which then says: {self._declared()}",
            "size": f"give {self.name} its {self.size} bytes",
            "fill": f"write stand-ins into {self.name}: {self._filled()}",
            "rebuild": "build consume queues and index anew from the commit log",
        }[self.kind]

    def _declared(self) -> str:
        holes = self.data.adding(self.new) if isinstance(self.data, Holes) else ()
        said = (f"offsets {hole.start} to {hole.end} are lost" for hole in holes)
        return ", ".join(said) or "nothing is lost"

    def _filled(self) -> str:
        if not isinstance(self.data, Filling):
            return ""
        gap = self.data.gap
        return f"offsets {gap.start} to {gap.end}, {len(self.data.lost)} lost messages ({gap.why})"


def plan_rebuild(files: StoreFiles) -> list[Step]:
    """The steps that rebuild queues and index. Raises BadInput where the log is damaged in its
    middle, because a start would refuse the store, and UnsupportedFeature.
    """
    log = LogView(files)
    log.recover(files.checkpoint(), clean=False)
    refuse_damage(files, log)
    with open_log(files.path, files.log_size) as opened, Folder.open(files.path) as root:
        declared = Holes.read(root)
        left = still_lost(opened, declared)
        refuse_misplaced(files, opened, left)
    *moves, rebuild = _rebuild_steps(files.path)
    # Once the old queues are away: their entries may lead to stand-ins that are there no more.
    drops = [] if list(left) == list(declared) else [Step("drop", HOLES, data=left)]
    return [*moves, *drops, rebuild]


def _rebuild_steps(path: str) -> list[Step]:
    refuse_unsupported(path)
    # The progress record is moved first: after an interrupted repair, a start dispatches the log
    # again.
    names = (f"{OURS}/{PROGRESS}", CONSUME_QUEUE, INDEX)
    steps = [Step("move", name) for name in names if disk.exists(f"{path}/{name}")]
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
    steps = _rebuild_steps(files.path)
    if disk.exists(f"{files.path}/{CHECKPOINT}"):
        # Its times may be those of records that are cut off.
        steps.insert(0, Step("move", CHECKPOINT))
    cut = [Step("move", f"{COMMIT_LOG}/{file_name(later)}") for later in bases if later > base]
    # A seal says that its file must be there.
    seals = [f"{OURS}/{SEALS}/{file_name(later)}.json" for later in bases if later >= base]
    steps[:0] = [Step("move", name) for name in seals if disk.exists(f"{files.path}/{name}")]
    with Folder.open(files.path) as root:
        declared = Holes.read(root)
    with open_log(files.path, files.log_size) as log:
        refuse_misplaced(files, log, declared, offset)
    # After the bytes are gone: until then only the declaration tells stand-ins from messages.
    outlived = any(hole.end > offset for hole in declared)
    drops = [Step("drop", HOLES, data=declared.below(offset))] if outlived else []
    return [
        *steps[:-1],
        Step("copy", path),
        *reversed(cut),
        Step("zero", path, offset - base),
        *drops,
        steps[-1],
    ]


def log_state(path: str | os.PathLike[str]) -> list[disk.About]:
    """Sizes and times of the log's files: equal means that no process has written to it. Raises
    BadInput if the folder is no store.
    """
    if not disk.is_folder(f"{path}/{COMMIT_LOG}"):
        raise BadInput(f"{path} has no folder {COMMIT_LOG}: it is not a store")
    with Folder.open(f"{path}/{COMMIT_LOG}") as folder:
        return [folder.about(name) for name in folder.names()]


def plan_holes(path: str, settings: Settings) -> list[Step]:
    """The steps that declare everything the log lacks as holes, fill these with stand-ins, and
    rebuild queues and index. Raises BadInput if nothing is lost, or if no file of the log has the
    size in the settings.
    """
    with open_log(path, settings.mapped_file_size_commit_log) as log, Folder.open(path) as root:
        sizes = log.sizes()
        if sizes and log.file_size not in sizes.values():
            raise BadInput(
                f"{path}/{COMMIT_LOG}: no file has {log.file_size} bytes, as the settings say: "
                "give the store's own size (--set mapped_file_size_commit_log=...)"
            )
        declared = Holes.read(root)
        damage = find_damage(log, known_log_of(path, log.file_size))
        damage = with_misplaced(path, log, damage, declared)
        if not damage.gaps and not damage.missing:
            raise BadInput(
                f"{path}: the log lacks nothing, so there is no hole to declare; --rebuild drops "
                "holes that were restored from a copy"
            )
        lost = lost_messages(log, damage, entries_in(path, damage))
        filled = fillings(damage.gaps, lost, log.file_size)
        left = still_lost(log, declared)
    keeps, sizing = _steps_for_files(damage, sizes)
    seals = sorted({gap.base for gap in damage.gaps} | {one.base for one in damage.missing})
    moved = [f"{OURS}/{SEALS}/{file_name(base)}.json" for base in seals]
    moves = [Step("move", name) for name in (*moved, CHECKPOINT) if disk.exists(f"{path}/{name}")]
    now = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime())
    new = tuple(Hole(gap.start, gap.end, gap.why, now, "") for gap in damage.gaps)
    changed = new or list(left) != list(declared)
    declares = [Step("declare", HOLES, data=left, new=new)] if changed else []
    *rebuild, last = _rebuild_steps(path)
    fills = [
        Step(
            "fill", _log_name(filling.gap.base), filling.gap.start - filling.gap.base, data=filling
        )
        for filling in filled
    ]
    # The declaration comes before the stand-ins: after an interrupted repair, a start refuses the
    # log, or its readers know the holes.
    return [*keeps, *declares, *moves, *rebuild, *sizing, *fills, last]


def _steps_for_files(damage: LogDamage, sizes: dict[int, int]) -> tuple[list[Step], list[Step]]:
    """The steps that keep what is left of the bad bytes, and those that give each file its size."""
    keeps, sizing = [], []
    for gap in damage.gaps:
        has = min(sizes.get(gap.base, 0), damage.file_size)
        size = min(gap.end - gap.base, has) - (gap.start - gap.base)
        if size > 0:
            keeps.append(Step("keep", _log_name(gap.base), gap.start - gap.base, size))
    for one in damage.missing:
        name, has = _log_name(one.base), sizes.get(one.base, 0)
        if has < 0:
            keeps.append(Step("move", name))
        elif has > damage.file_size:
            extra = has - damage.file_size
            keeps.append(Step("keep", name, damage.file_size, extra))
        if one.base % damage.file_size == 0:
            sizing.append(Step("size", name, size=damage.file_size))
        elif has >= 0:
            keeps.append(Step("move", name))
    return keeps, sizing


def _log_name(base: int) -> str:
    return f"{COMMIT_LOG}/{file_name(base)}"


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
                elif step.kind in _WRITES:
                    _WRITES[step.kind](root, step)
                elif step.kind == "keep":
                    _keep_range(root, into, step)
                elif step.kind in ("declare", "drop"):
                    _declare(root, step, kept)
                else:
                    _keep(root, into, step)
    return f"{path}/{RECOVERY}/{kept}"


def _new_name(folder: Folder, name: str) -> str:
    """A name that is not taken in the folder: `name`, or `name` with a number."""
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([name], numbered) if not folder.has(each))


def _zero(root: Folder, step: Step) -> None:
    """Overwrites a file with zeros from the step's position on, durably."""
    with root.parent(step.name) as (folder, name):
        own_file(folder, name)
        with folder.file(name, write=True) as fd:
            size = disk.size_of(fd)
            for at in range(step.position, size, _BLOCK):
                disk.write_at(fd, bytes(min(_BLOCK, size - at)), at)
            disk.sync_data(fd)


def _size(root: Folder, step: Step) -> None:
    """Gives a file of the log its size, and takes its space, durably. Makes a missing file."""
    with root.parent(step.name) as (folder, name):
        own_file(folder, name)
        with folder.file(name, write=True, create=True) as fd:
            disk.set_size(fd, step.size)
            disk.allocate(fd, 0, step.size)
            disk.sync_data(fd)
        folder.sync()


def _fill(root: Folder, step: Step) -> None:
    """Writes the filling of a gap over it, durably."""
    assert isinstance(step.data, Filling)
    gap = step.data.gap
    with root.parent(step.name) as (folder, name):
        own_file(folder, name)
        with folder.file(name, write=True) as fd:
            at = step.position
            for piece in step.data.pieces():
                disk.write_at(fd, piece, at)
                at += len(piece)
            end = gap.end - gap.base
            for zero in range(at, end, _BLOCK):
                disk.write_at(fd, bytes(min(_BLOCK, end - zero)), zero)
            disk.sync_data(fd)


_WRITES: Final = {"zero": _zero, "size": _size, "fill": _fill}


def _declare(root: Folder, step: Step, kept: str) -> None:
    """Writes the declared holes; the new ones name the folder `kept` below `recovery/`."""
    assert isinstance(step.data, Holes)
    step.data.adding(replace(hole, kept=f"{RECOVERY}/{kept}") for hole in step.new).write(root)


def _keep_range(root: Folder, into: Folder, step: Step) -> None:
    """Copies a range of a log file to `commitlog-<offset>` in the folder `into`, durably."""
    with root.parent(step.name) as (folder, name), folder.file(name) as source:
        offset = int(name) + step.position
        with into.file(f"{COMMIT_LOG}-{file_name(offset)}", write=True, create=True) as target:
            for at in range(0, step.size, _BLOCK):
                part = disk.read_at(source, min(_BLOCK, step.size - at), step.position + at)
                disk.write_at(target, part, at)
            disk.sync_data(target)
    into.sync()


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
