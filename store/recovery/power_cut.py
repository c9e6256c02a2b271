"""What a start after a power cut does that one after a crash of processes does not.

Pages reach the disk in any order. Behind the end of the log, and behind the last entry of a queue,
there may lie whole records and entries whose predecessors were lost. Left there, a later start
would find them again: a log that grew exactly to where an old record begins would swallow it, a
queue would count an entry of a log that was cut. A crash of processes leaves nothing of the kind,
as the page cache outlives them.

The two are told apart by the kernel's boot id, kept in `silomq/boot`: `LastRun.power_lost` of the
plan. If it is true:

- Good records behind bad bytes may be cut off, if they were not durable
  (`commitlog/log_end.py: refuse_damage`). In the same boot they are proof of damage.
- The chains of the index file in use are built anew (`dispatch/dispatcher.py: _resume_index`).
- What lies behind the end of a queue goes (`cut_queues` below). It also goes after a crash if the
  end of the log was torn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

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
    """Whether the machine was started anew since the store last ran here; False where nothing
    tells.
    """
    try:
        with ours.file(BOOT) as fd:
            said = disk.read_at(fd, 64, 0)
    except FileNotFoundError:
        return False
    return said != _BOOT_ID.read_bytes()


def ran_here(ours: Folder) -> bool:
    """Whether this store, and not only RocketMQ, has run here."""
    return BOOT in ours.names()


def note_boot(ours: Folder) -> None:
    """Says durably that the store runs in this boot of the machine, and has not stopped cleanly.
    For the end of a start: what lay behind the ends is gone, and nothing is appended yet.
    """
    replace_file(ours, BOOT, _BOOT_ID.read_bytes())
    # `abort` says that too, but RocketMQ never syncs it, and its absence would prove nothing.
    found = durable_progress.read(ours)
    if found and found.clean:
        durable_progress.ProgressFile(ours).write(replace(found, clean=False))


def cut_queues(queues: QueueFiles, ends: Iterable[tuple[str, int, int]]) -> int:
    """Takes away the entries from each (topic, queue id, queue offset) on: how many bytes were
    there. A file whose length was lost gets it back. Raises OSError.
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
