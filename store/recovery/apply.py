"""Carries out the plan of a start, step by step.

First it fills the topic table, which may be too small. Then it settles the log, finishes deletions,
and dispatches into queues and index. Last it writes the records that the next start will need.

If a start is killed, the next one begins again with a plan of its own. It runs before any actor
exists, so it may write every word of shared memory.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...conf.settings import FlushDiskType, Settings
from ...shm.control import Control
from ..commitlog.holes import Holes
from ..commitlog.log_end import cut
from ..commitlog.seals import Seals
from ..delay.delays import keep_durable_slots
from ..disk.paths import StoreFolders
from ..dispatch.dispatcher import Dispatching
from ..errors import StoreError
from ..pulse import Pulse, unheard
from ..topics.deletions import finish
from ..topics.topic_table import TableFull, TopicTable
from ..transactions import progress as transactions_progress
from . import checkpoint, durable_progress, log_begin, power_cut
from .durable_progress import DurableProgress
from .layout import layout_of, note_layout
from .plan import NOTHING_KNOWN, Done, RecoveryPlan, Report
from .store_files import StoreFiles
from .unknown_queues import UnknownQueues, add_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Dispatch says at least so often how far it is.
_SLICE_NS = 500_000_000


def apply(
    plan: RecoveryPlan,
    folders: StoreFolders,
    settings: Settings,
    control: Control,
    table: TopicTable,
    *,
    kept: Sequence[str] = (),
    pulse: Pulse = unheard,
) -> Report:
    """Carries out the plan and fills `control` and `table`, which must be new and empty. The rest
    of a pool must be settled already (`settle_pool`); `kept` are the paths of its copies. `pulse`
    hears how far it is.

    `folders` and `settings` must be those of the plan, and no process may have changed the store
    since. Raises OSError, StoreError if the table is too small, and Corrupt for a damaged record
    that must be dispatched. Durable records are not scanned, so only dispatch finds damage there.
    """
    began = time.monotonic()
    files = StoreFiles.of(folders, settings)
    unknown = UnknownQueues(table, plan, settings.default_topic_queue_nums, folders.root.path)
    try:
        fill_table(plan, table)
        settle_layout(plan, folders, settings)
        # Under SYNC_FLUSH dispatch must not show what is not durable, and little is not.
        leave = plan.leaves_syncs and settings.flush_disk_type != FlushDiskType.SYNC_FLUSH
        kept_in = settle_log(plan, files, leave_syncs=leave, pulse=pulse)
        settle_holes(plan, folders)
        finish(plan.deletions, folders)
        set_log_words(plan, files, control, leave_syncs=leave)
        undone = dispatch(plan, files, control, table, unknown, pulse=pulse)
    except TableFull as error:
        raise StoreError(f"{folders.root.path}: {error}") from error
    queue_bytes_cut = settle_queues(plan, files, table)
    note(plan, folders)
    done = Done(
        kept_in=(*kept, *kept_in),
        entries_dispatched=control.load("dispatch_count") - plan.dispatch.begin.dispatch_count,
        queue_bytes_cut=queue_bytes_cut,
        index_entries_undone=undone,
        topics=table.topic_count,
        queues=table.queue_count,
        doing_ms=round((time.monotonic() - began) * 1000),
    )
    return Report.of(plan, done)


def fill_table(plan: RecoveryPlan, table: TopicTable) -> None:
    """Adds topics and their queues to the table, with the queues' `min_offset` and `max_offset` as
    far as they were dispatched. Raises TableFull.
    """
    for topic in plan.topics:
        add_topic(table, topic)
    for queue in plan.dispatch.queues:
        slot = table.slot(queue.topic, queue.queue_id)
        table.own_queue_word(slot, "max_offset").store(queue.count)
        table.own_queue_word(slot, "min_offset").store(queue.least)


def settle_layout(plan: RecoveryPlan, folders: StoreFolders, settings: Settings) -> None:
    """Notes the version of the layout and the sizes of the files, unless that is noted. Raises
    OSError.
    """
    layout = layout_of(settings, plan.layout)
    if layout != plan.layout:
        note_layout(folders, layout)


def settle_holes(plan: RecoveryPlan, folders: StoreFolders) -> None:
    """Drops the declared holes behind the log's end, which would hide what is appended there. To be
    done before the first append. Raises OSError.
    """
    end = plan.log.end.end
    if any(hole.end > end for hole in plan.log.holes):
        Holes(plan.log.holes).below(end).write(folders.root)


def settle_log(
    plan: RecoveryPlan, files: StoreFiles, *, leave_syncs: bool, pulse: Pulse = unheard
) -> list[str]:
    """Removes unfinished and empty files, cuts off the torn end, and unless flush is to do that,
    syncs what may not be durable. Returns the paths of the copies of the torn end. Raises OSError.
    """
    log, found = files.log, plan.log
    if found.half_made:
        log.remove_half_made()
    if found.empty:
        log.remove_empty_last()
    if found.apart:
        log.remove_from(found.apart[0])
    # What this start or the last stop removed must be gone for good: a later power cut could bring
    # back one of these files without the one before it.
    files.folders.commit_log.sync()
    if plan.dispatch.half_made:
        files.queues.remove_half_made()
    if not found.files:
        return []
    with Seals(files.folders) as seals:
        seals.remove_outside(found.first, log.base_of(found.end.end))
    kept = cut(log, found.torn)
    for number, base in enumerate(() if leave_syncs else found.files):
        pulse("syncing the commit log (files)", number, len(found.files))
        start, stop = max(base, found.durable), min(base + log.file_size, found.end.end)
        if start < stop:
            # Not the whole file: pages that were warmed ahead hold nothing to be kept.
            log.sync_range(base, start, stop)
    return kept


def set_log_words(
    plan: RecoveryPlan, files: StoreFiles, control: Control, *, leave_syncs: bool
) -> None:
    """Sets the log's watermarks in the control block."""
    end = plan.log.end.end
    control.own("min_offset").store(plan.log.first)
    for word in ("wrote", "committed"):
        control.own(word).store(end)
    control.own("flushed").store(min(end, plan.log.durable) if leave_syncs else end)
    control.own("store_time_ms").store(plan.store_time_ms)
    ready = files.log.base_of(end)
    while ready in plan.log.files:
        ready += files.log.file_size
    control.own("ready").store(ready)


def dispatch(
    plan: RecoveryPlan,
    files: StoreFiles,
    control: Control,
    table: TopicTable,
    unknown: UnknownQueues,
    *,
    pulse: Pulse = unheard,
) -> int:
    """Dispatches the log from the plan's `dispatch.begin` to its end. Returns how many index
    entries of a crashed run were undone before (after a power cut, how many slots were wrong).
    """
    control.set_progress(plan.dispatch.begin)
    dispatching = Dispatching(
        control,
        table,
        files.log,
        files.queues,
        files.index if files.indexed else None,
        delay_levels_ms=files.delay_levels_ms,
        unknown_queue=unknown.add,
        power_lost=plan.run.power_lost,
    )
    begin, end = plan.dispatch.begin.dispatched, plan.log.end.end
    if end > begin:
        while not dispatching.step(_SLICE_NS):
            pulse("dispatching (bytes)", dispatching.position - begin, end - begin)
    return dispatching.undone


def settle_queues(plan: RecoveryPlan, files: StoreFiles, table: TopicTable) -> int:
    """Sets the queue offset at which append continues in each queue. If the plan says so, clears
    entries behind the queues' ends, and returns how many bytes that were.
    """
    counts = table.queue_column("max_offset")
    for slot, count in enumerate(counts):
        table.own_queue_word(slot, "next").store(count)
    if not plan.cuts_queues:
        return 0
    slots = [
        (topic, queue_id, table.slot(topic, queue_id))
        for topic, queue_id, _ in files.queues.queues()
    ]
    ends = [(topic, queue_id, counts[slot]) for topic, queue_id, slot in slots if slot >= 0]
    return power_cut.cut_queues(files.queues, ends)


def note(plan: RecoveryPlan, folders: StoreFolders) -> None:
    """Writes the begin of the log, the boot id, the space of the progress record, and the
    checkpoint: a later start of this store or of RocketMQ needs them. Clears what counts only in
    the boot that wrote it. To be done before the first append.
    """
    if log_begin.read(folders.ours) != plan.log.first:
        log_begin.write(folders.ours, plan.log.first)
    if power_cut.machine_stopped(folders.ours):
        keep_durable_slots(folders.ours)
        transactions_progress.keep_durable_slots(folders.ours)
    power_cut.note_boot(folders.ours)
    durable_progress.reserve(folders.ours)
    noted = plan.run.checkpoint
    if not plan.run.is_ours:
        # RocketMQ's checkpoint may call index files durable that this store will change.
        noted = checkpoint.careful(
            noted.physic_msg_timestamp,
            noted.logics_msg_timestamp,
            min(noted.index_msg_timestamp, plan.dispatch.index_kept_ms),
            noted.confirm_phy_offset,
        )
    checkpoint.write(folders.root, noted)
    if plan.run.known_from == NOTHING_KNOWN and not plan.log.files:
        # The record of a new store, which agrees with its checkpoint. It shows the next start that
        # nobody else had the store, also if this run is killed before its first flush.
        durable_progress.ProgressFile(folders.ours).write(DurableProgress())
