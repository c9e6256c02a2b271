"""flush: makes the commit log, the queues and the index durable, and publishes how far.

The only writer of `flushed` and of the progress record. Under ASYNC_FLUSH it follows RocketMQ's
intervals and page counts (FlushRealTimeService, FlushConsumeQueueService). Under SYNC_FLUSH it
starts a sync of everything appended as soon as the sync before is over, so that one sync serves all
waiting producers (GroupCommitService). A second thread syncs queues and index: thousands of queues
take seconds, and the commit log must not wait for them. A third one seals full files, slowly.

After a failed sync the store takes no more messages. The kernel may have dropped the pages that it
could not write, and a second sync would report success without them.
"""

from __future__ import annotations

import errno
import os
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

from ..shm.bell import Reason
from ..shm.progress import Progress
from ..store.commitlog.log import LogFile, disk_full
from ..store.commitlog.seals import Seals, seal_of
from ..store.consumequeue.queue import ENTRY_SIZE, QueueFiles
from ..store.disk import files as disk
from ..store.disk.paths import file_name
from ..store.errors import StoreError
from ..store.index.file import IndexFiles
from ..store.recovery import checkpoint
from ..store.recovery.checkpoint import Checkpoint
from ..store.recovery.durable_progress import DurableProgress, ProgressFile
from .actor import TICK_S, Actor
from .bell_mail import BellMail
from .full_rounds import FullRounds

PAGE = 4096
_PIECES = 64  # at most: a large range is written in larger pieces
_TIMES = 256
_SEAL_REST = 9  # times the work
_SEAL_REST_MOST_S = 0.5  # a stop waits for it
FEW_QUEUES = 64  # up to this many, syncing each queue is cheaper than a sync of the file system


def pages_between(start: int, end: int) -> int:
    """How many page boundaries lie between two offsets: RocketMQ counts pages and not bytes."""
    return end // PAGE - start // PAGE


class Flush(Actor):
    """Syncs on time, under SYNC_FLUSH for waiting producers, and everything at a stop."""

    name = "flush"

    def setup(self) -> None:
        settings = self.settings
        self.sync = self.world.syncs
        self.wrote = self.control.word(self.world.filed)
        self.dispatched = self.control.word("dispatched")
        self.flushed = self.control.own("flushed")
        self.flushes = self.control.own("flushes")
        self.error = self.control.own("flush_error")
        self.reput_asleep = self.control.word("reput_asleep")
        self.asleep = self.control.own("flush_asleep")
        self.asleep.store(0)
        self.flushes.wake()  # a killed flush may not have told reput
        self.syncs = self.metrics.own_histogram("sync_time")
        self.rounds = self.metrics.own_histogram("queue_sync_time")  # of the second thread
        self.log = self.world.log
        self.file: LogFile | None = None
        self.queues = QueueFiles(
            self.world.folders.consume_queue, settings.mapped_file_size_consume_queue
        )
        self.index = IndexFiles(
            self.world.folders.index, settings.max_hash_slot_num, settings.max_index_num
        )
        self.progress = ProgressFile(self.world.folders.ours)
        self.seals = Seals(self.world.folders)
        # (log offset, newest store timestamp below it) of the last syncs: for the checkpoint.
        self.times: deque[tuple[int, int]] = deque(maxlen=_TIMES)
        self.looked = 0, 0
        self.noted = checkpoint.read(self.world.folders.root) or Checkpoint()
        # Durable queue offset by slot. It starts at 0 for every queue: it is not known which
        # entries the flush before this one had synced.
        self.queue_offsets: list[int] = []
        self.full_rounds = FullRounds(self.control)
        self.first_dirty_index = 0
        self.last_thorough = self.last_queues = time.monotonic()
        self.beside = ThreadPoolExecutor(1, "queues")
        self.queue_job: Future[None] | None = None
        self.sealing = ThreadPoolExecutor(1, "seals")
        self.seal_job: Future[None] | None = None
        self.unsealable: set[int] = set()  # damaged files, by offset
        self.mail = BellMail(self.world, self.world.flush_mail[1])

    def run(self) -> None:
        while not self.stopping:
            self.beat()
            self.mail.read()
            wrote = self._look()
            if self.error.load():
                time.sleep(TICK_S)
            elif self.sync and wrote > self.flushed.load():
                self.flush_log(wrote)
                self._queues_if_due()
            elif (
                wrote == self.flushed.load()
                and self.dispatched.load() == self.full_rounds.dispatched
            ):
                self._sleep(wrote, TICK_S)
            else:
                self._flush_on_time()
        self._flush_all()

    def _look(self) -> int:
        """The end of the bytes that are in files. Notes it in `looked` with the store timestamp.

        The timestamp is read first. So records up to that time lie below the end, except those of a
        batch that append is publishing at this moment.
        """
        store_time = self.control.load("store_time_ms")
        wrote = self.wrote.load()  # SYNC: committed observe
        self.looked = wrote, store_time
        return wrote

    def _flush_on_time(self) -> None:
        """Waits for one interval, then syncs the log and the queues as far as they are due."""
        settings = self.settings
        interval = min(
            settings.flush_interval_commit_log_ms, settings.flush_interval_consume_queue_ms
        )
        deadline = time.monotonic() + interval / 1000
        while not self.stopping and (left := deadline - time.monotonic()) > 0:
            self.beat()
            self.mail.read()
            if self.sync:
                wrote = self.wrote.load()
                if wrote > self.flushed.load():
                    break
                self._sleep(wrote, min(left, TICK_S))
            else:
                self.mail.count.wait(self.mail.seen, min(left, 0.25))
        now, wrote = time.monotonic(), self._look()
        pages = pages_between(self.flushed.load(), wrote)
        thorough = now - self.last_thorough >= settings.flush_commit_log_thorough_interval_ms / 1000
        if self.sync or thorough or pages >= settings.flush_commit_log_least_pages:
            if thorough:
                self.last_thorough = now
            if wrote > self.flushed.load():
                self.flush_log(wrote)
        self._queues_if_due()

    def _sleep(self, wrote: int, timeout_s: float) -> None:
        """Sleeps until the word is no longer `wrote`, or mail comes, or time is up."""
        self.wrote.sleep(wrote, timeout_s, self.asleep, self.mail.count, self.mail.seen)

    def flush_log(self, end: int) -> None:
        """Makes the commit log durable up to `end`, publishes it, and wakes who waits for it. After
        a failure `flush_error` is set, and no sync is tried again.
        """
        start = self.flushed.load()
        if self.error.load():
            return
        began = time.monotonic()
        try:
            while start < end:
                stop = min(end, self.log.base_of(start) + self.log.file_size)
                self._sync_range(start, stop)
                start = stop
        except (OSError, StoreError) as error:
            self._fail(error, "commit log", start)
            return
        took_s = time.monotonic() - began
        self.flushed.store(end)  # SYNC: flushed publish
        self._wake()  # always: producers map the word read-only, and cannot say that they sleep
        if end == self.looked[0]:
            self.times.append(self.looked)
        self.syncs.add(took_s)
        # Reput sleeps on this word under SYNC_FLUSH: it is told last.
        self.flushes.publish(self.flushes.load() + 1, self.reput_asleep)

    def _wake(self) -> None:
        """Wakes clients that wait for a sync, and lets one run that was woken on this core."""
        self.flushed.wake()
        self.mail.bells.ring(Reason.FLUSHED)
        os.sched_yield()

    def _sync_range(self, start: int, stop: int) -> None:
        """Syncs a range of one file. A warmed file has other dirty pages, which need no sync."""
        base = self.log.base_of(start)
        if self.file is None or self.file.base != base:
            self.file = self.log.open(base, writable=True)
            if self.sync:
                disk.in_small_folios(self.file.mapping)
        if not self.sync:
            with self.log.folders.commit_log.file(file_name(base), write=True) as fd:
                piece = max(disk.PIECE, (stop - start) // _PIECES)
                disk.write_back(fd, start - base, stop - start, piece)
        disk.sync_range(self.file.mapping, start - base, stop - start)

    def _fail(self, error: OSError | StoreError, what: str, where: int) -> None:
        """Notes that nothing can be made durable any more, because of the disk, or because somebody
        removed or changed a file of the running store.
        """
        self.error.store(getattr(error, "errno", 0) or errno.EIO)
        self._wake()
        self.logger.critical(
            "a sync failed: the store takes no more messages; "
            "check the disk and the file, then restart the store",
            what=what,
            offset=where,
            error=str(error),
        )

    def _queues_if_due(self) -> None:
        now = time.monotonic()
        settings = self.settings
        if self.error.load():
            return
        if now - self.last_queues < settings.flush_interval_consume_queue_ms / 1000:
            return
        if self.queue_job is not None and not self.queue_job.done():
            return
        self._end_queue_job()
        self.last_queues = now
        every = settings.flush_consume_queue_thorough_interval_ms / 1000
        thorough = self.full_rounds.is_due(now, every)
        behind = self.full_rounds.behind()
        if not thorough and not behind // PAGE >= settings.flush_consume_queue_least_pages:
            return
        if thorough:
            published = self.control.progress()
            self._log_up_to(published.dispatched)
            if not self.error.load():
                self.queue_job = self.beside.submit(self.rounds.timed, self.flush_queues, published)
        else:
            least = settings.flush_consume_queue_least_pages * PAGE
            dirty = self._dirty_queues()
            large = {s: r for s, r in dirty.items() if (r[1] - r[0]) * ENTRY_SIZE >= least}
            if len(large) <= FEW_QUEUES:
                self.queue_job = self.beside.submit(self.rounds.timed, self._sync_some, large)

    def _end_queue_job(self) -> None:
        """Waits until the second thread has finished its job, and raises its exception if any."""
        if self.queue_job is not None:
            self.queue_job.result()
            self.queue_job = None

    def _dirty_queues(self) -> dict[int, tuple[int, int]]:
        """Slot -> queue offsets (durable, written) of every queue with entries not yet durable."""
        now = self.world.table.queue_column("max_offset")
        self.queue_offsets += [0] * (len(now) - len(self.queue_offsets))
        pairs = enumerate(zip(self.queue_offsets, now, strict=True))
        return {slot: (known, end) for slot, (known, end) in pairs if end > known}

    def _log_up_to(self, end: int) -> None:
        """Makes the log durable up to `end`, before queue entries that point below `end`."""
        if end > self.flushed.load():
            self.flush_log(end)

    def flush_queues(self, published: Progress, *, clean: bool = False) -> None:
        """Makes queues and index durable up to the progress that reput had `published`, then writes
        the progress record. `clean` says in the record that nothing is missing.
        """
        began = time.monotonic()
        try:
            self._sync_queues(self._dirty_queues())
            if published.index.name:
                for name in self.index.names():
                    if self.first_dirty_index <= name <= published.index.name:
                        self.index.sync(name)
                self.first_dirty_index = published.index.name
            self._note(published, clean=clean)
        except (OSError, StoreError) as error:
            self._fail(error, "queues or index", published.dispatched)
            return
        self.full_rounds.note(published, time.monotonic() - began)
        if self.seal_job is None or self.seal_job.done():
            self._end_seal_job()
            self.seal_job = self.sealing.submit(self._seal)

    def _note(self, published: Progress, *, clean: bool) -> None:
        """Writes the progress record with the values of RocketMQ's checkpoint, then the checkpoint.
        A start compares the two, to find out whether RocketMQ has had the store since. A kill in
        between leaves a checkpoint that agrees with the slot before.
        """
        flushed = self.flushed.load()
        self.noted = checkpoint.careful(
            self._time_at(flushed, self.noted.physic_msg_timestamp),
            self._time_at(published.dispatched, self.noted.physic_msg_timestamp),
            self._full_index_time(published.index.name),
            flushed,
        )
        record = DurableProgress(
            flushed=flushed,
            clean=clean,
            progress=published,
            store_time_ms=self.control.load("store_time_ms"),
            physic=self.noted.physic_msg_timestamp,
            logics=self.noted.logics_msg_timestamp,
            index=self.noted.index_msg_timestamp,
        )
        self.progress.write(record)
        checkpoint.write(self.world.folders.root, self.noted)

    def _time_at(self, position: int, known: int) -> int:
        """The newest store timestamp (epoch ms) noted below log offset `position`, else `known`."""
        return max((time_ms for at, time_ms in self.times if at <= position), default=known)

    def _full_index_time(self, newest: int) -> int:
        """The end timestamp (epoch ms) of the last full index file, 0 without one. It is what
        RocketMQ's checkpoint holds; the file is durable by now.
        """
        full = [name for name in self.index.names() if name < newest]
        if not full:
            return 0
        try:
            return self.index.end_time(full[-1])
        except FileNotFoundError:  # clean removed it meanwhile
            return self.noted.index_msg_timestamp

    def _end_seal_job(self) -> None:
        """As `_end_queue_job`, for the third thread."""
        if self.seal_job is not None:
            self.seal_job.result()
            self.seal_job = None

    def _rest(self, worked_s: float) -> None:
        """A seal takes a tenth of a core: it has no hurry, and producers have."""
        time.sleep(0 if self.stopping else min(_SEAL_REST * worked_s, _SEAL_REST_MOST_S))

    def _seal(self) -> None:
        """Writes the seals of full files that have none; at a stop, of one."""
        try:
            while self._seal_next() and not self.stopping:
                pass
        except (OSError, StoreError) as error:
            self._fail(error, "seals", self.flushed.load())

    def _seal_next(self) -> bool:
        """Seals one file, and removes the seals of removed ones. False if it sealed none."""
        bases = self.log.bases()
        end = self.log.base_of(self.flushed.load())
        if not bases:
            return False
        self.seals.remove_outside(bases[0], end)
        sealed = set(self.seals.bases())
        for base in bases:
            if base < end and base not in sealed and base not in self.unsealable:
                try:
                    self.seals.write(base, seal_of(self.log, base, self._rest))
                except FileNotFoundError:
                    continue  # clean removed it meanwhile
                except OSError as error:
                    if not disk_full(error):
                        raise
                    return False  # nothing depends on a seal: the next round tries again
                except StoreError as error:
                    # Its bytes were durable once, so no message of the future depends on it. The
                    # next start refuses it.
                    self.unsealable.add(base)
                    self.logger.error("a file of the commit log is damaged", error=str(error))
                else:
                    return True
        return False

    def _sync_some(self, dirty: dict[int, tuple[int, int]]) -> None:
        try:
            self._sync_queues(dirty)
        except (OSError, StoreError) as error:
            self._fail(error, "queues", self.dispatched.load())

    def _sync_queues(self, dirty: dict[int, tuple[int, int]]) -> None:
        if len(dirty) > FEW_QUEUES:
            disk.sync_file_system(self.queues.root)
            for slot, (_, end) in dirty.items():
                self.queue_offsets[slot] = end
            return
        table = self.world.table
        for slot, (known, end) in dirty.items():
            topic, queue_id = table.queue(slot)
            try:
                if not table.is_deleted(slot):
                    self.queues.sync(table.topic_name(topic), queue_id, known, end)
            except FileNotFoundError:
                if not table.is_deleted(slot):  # the topic may have been deleted during the sync
                    raise
            self.queue_offsets[slot] = end

    def _flush_all(self) -> None:
        """Makes everything durable at a stop, and writes the progress record."""
        self._end_queue_job()
        if self.error.load():
            return
        wrote = self._look()
        self._log_up_to(wrote)
        if not self.error.load():
            clean = self.dispatched.load() == wrote
            self.flush_queues(self.control.progress(), clean=clean)
        self._end_seal_job()
