"""allocate: makes commit-log files ahead of append, and keeps a window ahead of it warm and locked.

The only writer of `ready`, `warmed`, `allocate_error` and `locked_bytes`, and the only process
that makes commit-log files. `ready` and `wrote` say how many files are missing. The semaphore that
append releases only wakes allocate. `store/commitlog/ahead.py` decides how far ahead is enough.
"""

from __future__ import annotations

import contextlib
import os
import time

import posix_ipc

from ..shm.control import StoreState
from ..store.commitlog.ahead import Ahead
from ..store.commitlog.log import disk_full
from ..store.commitlog.warm_window import WarmWindow
from ..store.disk.space import free_bytes
from .actor import TICK_S, Actor

_RETRY_S = 1.0
# The window takes one part in this many of the machine's memory at most.
_MEMORY_SHARE = 8


class Allocate(Actor):
    """Makes a file when append will need it soon, and warms what append will write next."""

    name = "allocate"

    def setup(self) -> None:
        # Append can do without: it faults in what is not warm. So processes that move messages have
        # precedence when the machine is busy.
        os.nice(10)
        settings = self.settings
        self.log = self.world.log
        self.size = settings.mapped_file_size_commit_log
        self.ready = self.control.own("ready")
        self.error = self.control.own("allocate_error")
        self.locked = self.control.own("locked_bytes")
        self.warmed = self.control.own("warmed")
        self.wrote = self.control.word("wrote")
        self.made = self.metrics.own("files_made")
        self.failures = self.metrics.own("make_failures")
        self.makings = self.metrics.own_histogram("make_time")
        own_pages = self.world.pool is None  # otherwise append writes to the pool
        self.window = WarmWindow(
            self.log,
            warm=settings.warm_mapped_file_enable and own_pages,
            lock=settings.lock_mapped_file_enable and own_pages,
            sync=self.world.syncs,
        )
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self.ahead = Ahead(
            self.size,
            settings.allocate_ahead_files,
            memory // _MEMORY_SHARE,
            self.wrote.load(),
            time.monotonic(),
        )
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
            wrote = self.wrote.load()
            self.ahead.saw(wrote, time.monotonic())
            if self.ahead.wants_file(wrote, self.ready.load()):
                if not self._try_make():
                    self._wait(_RETRY_S)
            else:
                self._wait(self._step(wrote))

    def _step(self, wrote: int) -> float:
        """Warms a step, or lets one go: for how many seconds to wait then. What was let go needs no
        rest.
        """
        before = self.window.warm_end
        if not self._warm(wrote):
            return TICK_S
        end = self.window.warm_end
        return self.ahead.rest(end - wrote, max(end - before, 0))

    def _wait(self, seconds: float) -> None:
        if not seconds:
            return
        with contextlib.suppress(posix_ipc.BusyError, posix_ipc.SignalError):
            self.world.allocate_semaphore.acquire(seconds)

    def _try_make(self) -> bool:
        base = self.ready.load()
        try:
            self._make(base)
        except OSError as error:
            self.failures.add(1)
            if self.error.load() != error.errno:
                self.logger.error(
                    "cannot make a commit-log file; trying again every second",
                    file=base,
                    size=self.size,
                    error=str(error),
                    free_bytes=free_bytes(self.world.folders.commit_log),
                )
            self.error.store(error.errno or 5)
            self.ready.wake()
            if not disk_full(error):
                raise
            return False
        return True

    def _make(self, base: int) -> None:
        """Makes one file and publishes it in `ready`. Raises OSError."""
        began = time.monotonic()
        self.log.create(base)
        took = time.monotonic() - began
        self.ahead.made(took)
        self.made.add(1)
        self.makings.add(took)
        self.error.store(0)
        self.ready.store(base + self.size)
        self.ready.wake()

    def _warm(self, wrote: int) -> bool:
        """Moves the window by one step, or prepares what lies behind it. False if all is as it
        should be.
        """
        ready = self.ready.load()
        self.window.large = self.ahead.is_fast
        moved = self.window.move(wrote, wrote + self.ahead.window, ready)
        moved = moved or self.window.prepare(wrote, ready)
        if moved:
            if self.window.warm:
                self.warmed.store(self.window.warm_end)
            self.locked.store(self.window.locked_bytes)
        if self.window.lock_error is not None:
            self.logger.warning(
                "cannot lock commit-log files in memory, going on without: raise the limit "
                "(LimitMEMLOCK in the unit, ulimit -l in a shell)",
                window=self.ahead.window,
                error=str(self.window.lock_error),
            )
            self.window.lock_error = None
        return moved
