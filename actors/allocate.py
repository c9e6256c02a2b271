"""allocate: makes commit-log files ahead of append, allocates their space, warms and locks them.

The only writer of `ready`, `warmed`, `allocate_error` and `locked_bytes`, and the only process
that makes commit-log files. `ready` and `wrote` say how many files are missing. The semaphore that
append releases only wakes allocate.
"""

from __future__ import annotations

import contextlib
import os

import posix_ipc

from ..conf.settings import FlushDiskType
from ..shm.control import StoreState
from ..store.commitlog.log import LogFile, disk_full
from ..store.disk import files as disk
from .actor import TICK_S, Actor

_RETRY_S = 1.0


class Allocate(Actor):
    """Makes files until `allocate_ahead_files` follow the file that append writes to."""

    name = "allocate"

    def setup(self) -> None:
        # Making a file takes a second of CPU time. Files are made long before append needs them, so
        # processes that move messages have precedence.
        os.nice(10)
        self.log = self.world.log
        self.size = self.settings.mapped_file_size_commit_log
        self.sync = self.settings.flush_disk_type == FlushDiskType.SYNC_FLUSH
        self.ready = self.control.own("ready")
        self.error = self.control.own("allocate_error")
        self.locked = self.control.own("locked_bytes")
        self.warmed = self.control.own("warmed")
        self.wrote = self.control.word("wrote")
        self.held: dict[int, LogFile] = {}
        self.may_lock = self.settings.lock_mapped_file_enable
        self.log.remove_half_made()
        self.locked.store(0)
        # Append must find its first file when the store starts. After a restart of this process
        # alone, append has a file, and `run` makes the next one.
        starting = self.control.load("state") == StoreState.STARTING
        while starting and self.ready.load() <= self.wrote.load():
            self._make(self.ready.load())

    def run(self) -> None:
        while not self.stopping:
            self.beat()
            if self._files_ahead() < self.settings.allocate_ahead_files + 1:
                if not self._try_make():
                    self._wait(_RETRY_S)
                continue
            self._hold_active()
            self._wait(TICK_S)

    def _files_ahead(self) -> int:
        """How many files there are, counted from the one that append writes to."""
        return (self.ready.load() - self.log.base_of(self.wrote.load())) // self.size

    def _wait(self, seconds: float) -> None:
        with contextlib.suppress(posix_ipc.BusyError, posix_ipc.SignalError):
            self.world.allocate_semaphore.acquire(seconds)

    def _try_make(self) -> bool:
        base = self.ready.load()
        try:
            self._make(base)
        except OSError as error:
            if self.error.load() != error.errno:
                self.logger.error(
                    "cannot make a commit-log file; trying again every second",
                    file=base,
                    size=self.size,
                    error=str(error),
                    free_bytes=disk.free_bytes(self.world.folders.commit_log),
                )
            self.error.store(error.errno or 5)
            self.ready.wake()
            if not disk_full(error):
                raise
            return False
        return True

    def _make(self, base: int) -> None:
        """Makes one file and publishes it in `ready`. Then warms and locks it, for which append
        does not wait. Raises OSError.
        """
        self.log.create(base)
        self.error.store(0)
        self.ready.store(base + self.size)
        self.ready.wake()
        self._hold(base)

    def _hold_active(self) -> None:
        """Unmaps the files that append has filled. Maps, warms and locks those that a killed
        allocate made.
        """
        active = self.log.base_of(self.wrote.load())
        for base in [base for base in self.held if base < active]:
            del self.held[base]
        for base in range(active, self.ready.load(), self.size):
            if base not in self.held:
                self._hold(base)
        locks = self.may_lock and self.world.pool is None
        self.locked.store(self.size * len(self.held) if locks else 0)

    def _hold(self, base: int) -> None:
        file = self.log.open(base, writable=True)
        self.held[base] = file
        if self.world.pool is not None:  # append writes to the pool, not to the file
            return
        if self.sync:
            disk.shape_for_sync(file.mapping)
        if self.settings.warm_mapped_file_enable:
            # Pages that append has written need no warming. After a restart of this process they
            # may have left the page cache, and warming would read them from the disk.
            written = max(0, self.wrote.load() - base) // disk.WARM_STEP * disk.WARM_STEP
            for at in range(written, self.size, disk.WARM_STEP):
                self.beat()
                if self.stopping or not disk.warm(file.mapping, at, disk.WARM_STEP):
                    break
                self.warmed.store(min(base + at + disk.WARM_STEP, file.end))
            if self.sync:
                self.log.sync(base)
        if self.may_lock:
            try:
                file.mapping.lock(0, self.size)
            except OSError as error:
                self.may_lock = False
                self.logger.warning(
                    "cannot lock commit-log files in memory, going on without: raise the limit "
                    "(LimitMEMLOCK in the unit, ulimit -l in a shell)",
                    size=self.size,
                    error=str(error),
                )
