"""The differences of a start after a power cut from one after a crash of processes.

Pages reach the disk in any order. Whole records may lie behind the end of the log, and entries
behind the end of a queue, whose predecessors were lost. A later start would take them for valid
ones: once the log has grown to the place of an old record, or when it counts a queue's entries. A
crash of processes leaves none of these, because the page cache outlives processes.

The kernel's boot id in `silomq/boot` tells the two cases apart: `LastRun.power_lost` of the plan.
If it is true:

- Good records behind bad bytes may be cut off, if they were not durable
  (`commitlog/log_end.py: refuse_damage`). In the same boot they are proof of damage.
- The slots of the index file in use are computed anew (`dispatch/dispatcher.py: _resume_index`).
- Entries behind the end of a queue are cleared (`cut_queues` below). They also are after a crash
  of processes if the end of the log was torn.
- Of the progress of delayed messages only the durable slots stay (`store/delay/delays.py`), also
  if the store had stopped cleanly.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from ..consumequeue.queue import ENTRY_SIZE, QueueFiles
from ..disk import files as disk
from ..disk.files import Folder
from ..disk.paths import file_bases, file_name
from ..disk.replacing import replace_file
from ..disk.sparse import clear_behind
from . import durable_progress

BOOT = "boot"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def machine_stopped(ours: Folder) -> bool:
    """Whether the machine was booted since the store last ran here. False if the store has no boot
    id.
    """
    try:
        with ours.file(BOOT) as fd:
            said = disk.read_at(fd, 64, 0)
    except FileNotFoundError:
        return False
    return said != _BOOT_ID.read_bytes()


def ran_here(ours: Folder) -> bool:
    """Whether this store has run here, and not only RocketMQ."""
    return BOOT in ours.names()


def note_boot(ours: Folder) -> None:
    """Writes the boot id, durably, and that the store has not stopped cleanly. To be called at the
    end of a start: after the bytes behind the ends are cleared, before the first append.
    """
    replace_file(ours, BOOT, _BOOT_ID.read_bytes())
    # `abort` says so too. But RocketMQ does not sync its `abort`, so a missing one proves nothing.
    found = durable_progress.read(ours)
    if found and found.clean:
        durable_progress.ProgressFile(ours).write(replace(found, clean=False))


def cut_queues(queues: QueueFiles, ends: Iterable[tuple[str, int, int]]) -> int:
    """Clears the entries from each (topic, queue id, queue offset) on, durably, and returns how
    many bytes it cleared. A file that a power cut made shorter gets its length back. Raises
    OSError.
    """
    cut = 0
    for topic, queue_id, end in ends:
        try:
            folder = queues.folder(topic, queue_id)
        except FileNotFoundError:
            continue
        with folder:
            for base in reversed(file_bases(folder)):
                position = end * ENTRY_SIZE - base
                if position <= 0 < base:
                    folder.unlink(file_name(base))
                    continue
                with folder.file(file_name(base), write=True) as fd:
                    if disk.size_of(fd) < queues.file_size:
                        disk.set_size(fd, queues.file_size)
                    cut += clear_behind(fd, max(0, position))
            folder.sync()
    return cut
