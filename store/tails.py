"""What a power cut leaves behind the ends of log and queues, and how a start-up takes it away.

Pages reach the disk in any order. Behind the end of the log, and behind the last entry of a queue,
there may lie whole records and entries whose predecessors were lost. Left there, they would be
found again by a later start: a log that grew exactly to where an old record begins would swallow
it, a queue would count an entry of a log that was cut.

A crash of processes leaves nothing of the kind, as the page cache outlives them. The two are told
apart by the kernel's boot id, kept in `silomq/boot`: after the same boot, bytes that make no sense
are damage and nothing may be cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from . import disk, progress
from .commitlog import CommitLog
from .consumequeue import ENTRY_SIZE, QueueFiles
from .disk import Folder
from .paths import file_bases, file_name

BOOT = "boot"
RECOVERY = "recovery"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def machine_stopped(ours: Folder) -> bool:
    """Whether the machine was started anew since the store last ran here; False if nobody knows."""
    try:
        with ours.file(BOOT) as fd:
            said = disk.read_at(fd, 64, 0)
    except FileNotFoundError:
        return False
    return said != _BOOT_ID.read_bytes()


def note_boot(ours: Folder) -> None:
    """Says durably that the store runs in this boot of the machine, and has not stopped cleanly.
    For the end of a start-up: the tails are gone, nothing is appended yet.
    """
    disk.replace_file(ours, BOOT, _BOOT_ID.read_bytes())
    # `abort` says that too, but RocketMQ never syncs it, and its absence would prove nothing.
    found = progress.read(ours)
    if found and found["clean"]:
        progress.ProgressFile(ours).write(found | {"clean": 0})


def cut_log(log: CommitLog, end: int) -> list[str]:
    """Ends the log at offset `end`, durably: what was done, in sentences.

    Files behind it move to `recovery/`, as do the bytes behind `end` in its own file, which become
    zeros. Nothing is done where there is nothing. Raises OSError.
    """
    said = []
    folder = log.folders.commit_log
    base = log.base_of(end)
    if base in log.bases():
        with folder.file(file_name(base), write=True) as fd:
            cut = _take_behind(fd, end - base, log.folders.root, f"{file_name(base)}.{end - base}")
        if cut:
            said.append(f"cut {cut} bytes of unfinished writes behind the log's end {end}")
    # The last first: at no moment is there a gap.
    later = [found for found in log.bases() if found > base]
    for found in reversed(later):
        with folder.file(file_name(found), write=True) as fd:
            empty = not any(True for _ in disk.data_behind(fd, 0))
        if empty:
            folder.unlink(file_name(found))
        else:
            recovery = log.folders.root.folder(RECOVERY, create=True)
            folder.rename(file_name(found), recovery, file_name(found))
            recovery.sync()
            recovery.close()
            said.append(f"moved {file_name(found)} to {RECOVERY}: the log ends before it")
    if later:
        folder.sync()
    return said


def cut_queues(queues: QueueFiles, ends: Iterable[tuple[str, int, int]]) -> int:
    """Takes away the entries from each (topic, queue id, queue offset) on: how many bytes were
    there. Raises OSError.
    """
    cut = 0
    for topic, queue_id, end in ends:
        try:
            folder = queues.folder(topic, queue_id)
        except FileNotFoundError:
            continue
        for base in reversed(file_bases(folder)):
            position = end * ENTRY_SIZE - base
            if position <= 0 < base:
                folder.unlink(file_name(base))
                continue
            with folder.file(file_name(base), write=True) as fd:
                cut += disk.clear_behind(fd, max(0, position))
        folder.sync()
        folder.close()
    return cut


def _take_behind(fd: int, position: int, root: Folder, name: str) -> int:
    """Moves what is in a file behind `position` into a file of `recovery/`: how many bytes."""
    if next(disk.data_behind(fd, position), None) is None:
        return 0
    recovery = root.folder(RECOVERY, create=True)
    with recovery.file(name, write=True, create=True) as kept:
        for at, data in disk.data_behind(fd, position):
            disk.write_at(kept, data, at - position)
        disk.sync_data(kept)
    recovery.sync()
    recovery.close()
    return disk.clear_behind(fd, position)
