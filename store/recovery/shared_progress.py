"""What a killed run had done, from its control block, which outlives every process of the store.

A SIGKILL, of one process or of all, loses neither memory nor pages of files. So the words of the
control block say how far the log and dispatch came, to the last batch, just as they say it to the
successor of a single killed process. A start that trusts them reads nothing twice: not the log that
was not durable, nor the records that were not durably dispatched. They are trusted if

- the store is where it was: the file `abort` still has the stamp that the run noted at the end of
  its start. RocketMQ and `silo repair` write, replace or remove that file, or the progress record
  or the checkpoint, which a start compares as well;
- no sync had failed, because after that the kernel may have dropped pages;
- the run had no pool: its bytes reach the log only during the start (`pool_recovery.py`).

Otherwise, as after a boot, the progress record decides.

A log file may have been restored from an older copy since, which lacks its last records. So they
are read again, as after a boot, if a file has changed since the last sign of life of the run, or if
the last bytes before the log's end are zeros. The words still say how far the log must reach.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from ...shm.control import ACTORS, Control
from ...shm.pool import count
from ...shm.progress import Progress
from ..commitlog.log import CommitLog
from ..disk import files as disk
from ..disk.paths import ABORT, StoreFolders, file_name
from ..disk.stamps import changed_ns, stamp
from .pool_recovery import old_control

#: A killed process may have written for this long after its last heartbeat.
_AFTER_BEAT_NS: Final = 3_000_000_000
#: The end of a record has its topic among this many bytes, if it has no properties.
_TAIL: Final = 256


class SharedProgress(msgspec.Struct, frozen=True):
    """The published state of a killed run: the log's end `wrote`, what was dispatched, the newest
    store timestamp (epoch ms), and the run's last sign of life (epoch ns).
    """

    wrote: int
    progress: Progress
    store_time_ms: int
    lived_ns: int

    def is_in(self, log: CommitLog, durable: int) -> bool:
        """Whether the log's files are still those that the run left, from offset `durable` on. All
        must be there. Raises OSError.
        """
        for base in range(log.base_of(durable), self.wrote, log.file_size):
            if changed_ns(log.folders.commit_log, file_name(base)) > self.lived_ns + _AFTER_BEAT_NS:
                return False
        inside = self.wrote % log.file_size
        if not inside:  # zeros fill the end of a full file
            return True
        with log.folders.commit_log.file(file_name(self.wrote - inside)) as fd:
            tail = disk.read_at(fd, min(_TAIL, inside), max(0, inside - _TAIL))
        return any(tail)


def read(folders: StoreFolders, store_id: int) -> SharedProgress | None:
    """What the killed run of the store has published, or None if it is not to be trusted. To be
    called after its processes have ended.
    """
    owner = folders.root.about(".").owner
    control = old_control(store_id, owner)
    if control is None or control.load("flush_error") or count(store_id, owner):
        return None
    if not is_where_it_was(folders, control):
        return None
    return SharedProgress(
        control.load("wrote"), control.progress(), control.load("store_time_ms"), _lived_ns(control)
    )


def is_where_it_was(folders: StoreFolders, control: Control) -> bool:
    """Whether nobody else has had the store since the run of this control block began."""
    try:
        return control.load("run_stamp") == stamp(folders.root, ABORT)
    except FileNotFoundError:
        return False


def log_is_as_it_was(log: CommitLog, control: Control, filed: str) -> bool:
    """Whether the log's files are still those that the killed run of this control block has left,
    up to the word `filed`. Raises OSError.
    """
    progress = SharedProgress(control.load(filed), control.progress(), 0, _lived_ns(control))
    return progress.is_in(log, control.load("flushed"))


def _lived_ns(control: Control) -> int:
    """The newest heartbeat, epoch ns by the clock of now."""
    newest = max(control.beat(name).load() for name in ("supervisor", *ACTORS))
    return time.time_ns() - time.monotonic_ns() + newest
