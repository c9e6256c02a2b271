"""commit: writes the bytes of the transient pool's buffers to the commit-log files.

The only writer of `committed`, and with a pool the only writer of commit-log files. It follows
RocketMQ's page count and interval (CommitRealTimeService), and append wakes it. `committed` is
published after the bytes are written, and writing them again changes nothing. So the next commit
continues at `committed` after a kill. Without a pool (`transient_store_pool_enable` off) append
writes to the files itself, and commit only copies `wrote` to `committed` once a second.
"""

from __future__ import annotations

import select
import time

from ..store.commitlog.log import disk_full
from ..store.disk import files as disk
from ..store.disk.paths import file_name
from .actor import TICK_S, Actor

PAGE = 4096
_STEP = 4 << 20


class Commit(Actor):
    """Writes out everything up to `wrote`."""

    name = "commit"

    def setup(self) -> None:
        self.wrote = self.control.word("wrote")
        self.committed = self.control.own("committed")
        self.asleep = self.control.own("commit_asleep")
        self.asleep.store(0)
        self.commits = self.metrics.own_histogram("commit_time")
        self.pool = self.world.pool
        self.log = self.world.log
        self.last = time.monotonic()
        self.signals = select.poll()
        self.signals.register(self.signal_fd, select.POLLIN)
        if self.pool is not None and self.settings.lock_mapped_file_enable:
            self._lock()

    def _lock(self) -> None:
        """Locks the buffers in memory. If the limit of locked memory forbids it, logs a warning."""
        assert self.pool is not None
        try:
            for number in range(self.pool.buffers):
                self.beat()
                self.pool.buffer(number * self.pool.size).lock(0, self.pool.size)
        except OSError as error:
            self.logger.warning(
                "cannot lock the pool in memory, going on without: raise the limit "
                "(LimitMEMLOCK in the unit, ulimit -l in a shell)",
                size=self.pool.size * self.pool.buffers,
                error=str(error),
            )

    def run(self) -> None:
        while not self.stopping:
            self.beat()
            wrote = self.wrote.load()
            if self.pool is None:
                self.committed.store(wrote)
                # Not a sleep on `wrote`: each message that wakes reput would wake this process too.
                self.signals.poll(TICK_S * 1000)
            elif wrote == self.committed.load():
                self.wrote.sleep(wrote, TICK_S, self.asleep)
            else:
                self._commit_if_due(wrote)
        if self.pool is None:
            self.committed.store(self.wrote.load())
        else:
            self._commit(self.wrote.load())

    def _commit_if_due(self, wrote: int) -> None:
        settings = self.settings
        pages = wrote // PAGE - self.committed.load() // PAGE
        waited = time.monotonic() - self.last
        thorough = settings.commit_commit_log_thorough_interval_ms / 1000
        if pages >= settings.commit_commit_log_least_pages or waited >= thorough:
            if not self._commit(wrote):
                time.sleep(TICK_S)
        else:
            interval = settings.commit_interval_commit_log_ms / 1000
            self.wrote.sleep(wrote, min(interval, thorough - waited, TICK_S), self.asleep)

    def _commit(self, end: int) -> bool:
        """Writes out everything below `end`. False if the disk is full, and the caller tries again
        later. Raises OSError for any other failure.
        """
        assert self.pool is not None
        position = self.committed.load()
        try:
            while position < end:
                base = self.log.base_of(position)
                stop = min(end, base + self.log.file_size, position + _STEP)
                began = time.monotonic()
                view = memoryview(self.pool.buffer(base))[position - base : stop - base]
                with self.log.folders.commit_log.file(file_name(base), write=True) as fd:
                    disk.write_at(fd, view, position - base)
                self.commits.add(time.monotonic() - began)
                position = stop
                self.beat()
                self.committed.store(position)  # SYNC: committed publish
                self.committed.wake()
        except OSError as error:
            if not disk_full(error):
                raise
            self.logger.error("no disk space for the pool's bytes; trying again", error=str(error))
            return False
        self.last = time.monotonic()
        return True
