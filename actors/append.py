"""append: copies records from the producers' rings into the commit log.

The only writer of commit-log bytes (with a pool: of pool buffers), of `wrote`, of the queues' next
offsets, and of ring tails and results. The kernel (`store/commitlog/_append.pyx`) does the steps
for each batch. This module holds the policy: when to spin or sleep, which file comes next, which
sessions are served, and when puts are refused.
"""

from __future__ import annotations

import contextlib
import os
import select
import time

from ..shm.control import CONTROL, NEEDED, StoreState, process_number
from ..shm.ring import RingClosed, largest_frame
from ..store.commitlog import _append as kernel
from ..store.commitlog.log import LogFile
from ..store.disk import files as disk
from ..store.disk.paths import file_name
from ..store.record.ids import Host
from ..store.status import PutMessageStatus
from .actor import OWN_SESSIONS, TICK_S, Actor
from .append_sessions import AppendSessions

_SLICE_NS = 5_000_000
_SYNC_SPIN_NS = 200_000
_FILE_TIMEOUT_S = 5.0
_DRAIN_S = 2.0
# So many bytes are mapped ahead of append at most. Without work it maps one step at a time, 10 us
# for pages of 4 KiB: messages may come meanwhile. Between two slices of work it may be more, but
# not much: all who wait for an answer wait for that too.
_MAP_AHEAD = 256 * 1024 * 1024
_MAP_STEP = 32 * 1024
_MAP_NS = 50_000
_TELL_BYTES = 16 * 1024 * 1024


class Append(Actor):
    """Appends what producers publish in their rings, for all sessions that the supervisor holds."""

    name = "append"

    def setup(self) -> None:
        settings = self.settings
        self.sync = self.world.syncs
        host = Host.of(settings.store_host, settings.store_port)
        self.kernel = kernel.Appender(
            self.control.memory,
            self.world.table.memory,
            settings.max_sessions + len(OWN_SESSIONS),
            store_host=host.packed(),
            batch_bytes=settings.append_batch_bytes,
            max_body=settings.max_message_size,
            append_crc=settings.enabled_append_prop_crc,
            light=settings.sends_to_light_queues,
            sleeper=self._sleeper(),
            cores=len(os.sched_getaffinity(0)),
            metrics=self.metrics.memory,
        )
        self.kernel.announce_awake()
        self.poll = select.epoll()
        self.inbox = self.world.append_mail[1]
        self.poll.register(self.inbox, select.EPOLLIN)
        self.poll.register(self.signal_fd, select.EPOLLIN)
        self.kernel.rest_in(self.poll.fileno(), self.inbox.fileno(), self.signal_fd)
        self.sessions = AppendSessions(self.kernel, self.poll, self.inbox, self.logger)
        self.pool = self.world.pool
        self.committed = self.control.word("committed")
        self.ready = self.control.word("ready")
        self.wanted = self.control.own("file_wanted")
        self.flush_error = self.control.word("flush_error")
        self.failed = self.control.word("failed")
        self.allocate_error = self.control.word("allocate_error")
        self.disk_flags = self.control.word("disk_flags")
        self.file_rolls = self.metrics.own("file_rolls")
        slow_ms = self.settings.slow_operation_ms
        self.slow_ns = slow_ms * 1_000_000 + _SLICE_NS if slow_ms else 0
        self.file_waits = self.metrics.own_histogram("file_wait_time")
        self.file: LogFile | None = None
        self.opened = contextlib.ExitStack()  # the descriptor of `file`, under SYNC_FLUSH
        self.write_error = 0  # that was told
        self.warmed = self.control.word("warmed")
        self.mapped = self.let_go = 0  # the file's bytes [let_go, mapped) are in page tables
        self.all_mapped = False  # whether `_map_ahead` had nothing left to do in a pause
        self.crowded = self.control.word("crowded")
        self.told = self.kernel.position
        self._take_over()

    def _sleeper(self) -> int:
        """Offset in the control block of the asleep word that the kernel looks at, beside flush's.

        That is commit's with a pool and reput's without. It is 0 (no word) under SYNC_FLUSH without
        a pool, because reput then follows `flushed` and not `wrote`.
        """
        if self.world.pool is not None:
            return CONTROL["commit_asleep"][0]
        return 0 if self.sync else CONTROL["reput_asleep"][0]

    def _take_over(self) -> None:
        """Rolls back or completes the steps of a killed append (`store/commitlog/__init__.py`).

        This must be over before anything new is appended.
        """
        touched = self.kernel.roll_back()
        self._open_file()
        for session in self.world.sessions.values():
            if session.ring >= 0:
                self.sessions.attach(session)
        # The killed append may have left mail about sessions that are attached already.
        self.sessions.read_mail()
        # A start has cut off what lay behind the log's end: there is nothing to clear, and to look
        # would bring 100 MB of the file into memory.
        _, starts, _, _ = self.control.process(process_number(self.name))
        if starts > 1:
            self._clear_behind()
        settled = sum(
            self.kernel.settle(session.index) for session in self.sessions.attached.values()
        )
        if touched or settled:
            self.logger.warning(
                "took over from a killed append",
                queues_rolled_back=touched,
                bytes_acknowledged=settled,
            )

    def _clear_behind(self) -> None:
        """Zeroes the bytes that an unpublished batch may have left behind `wrote`. A later scan of
        the log would take them for records.
        """
        if self.file is None:
            return
        frames = [largest_frame(s.capacity) for s in self.sessions.attached.values()]
        length = self.settings.append_batch_bytes + max(
            frames, default=largest_frame(self.settings.ring_size_max)
        )
        start = self.kernel.position - self.file.base
        end = min(start + length, self.file.mapping.length)
        view = memoryview(self.file.mapping)
        step = 1 << 20
        zeros = bytes(step)
        for at in range(start, end, step):
            stop = min(at + step, end)
            if view[at:stop] != zeros[: stop - at]:
                view[at:stop] = zeros[: stop - at]

    def run(self) -> None:
        spin_ns = self.settings.append_spin_us * 1000
        if self.sync:
            # A producer often sends its next message when the sync of the one before is over. Until
            # then the producer sleeps and flush waits for the disk, so a core is free to spin.
            spin_ns = max(spin_ns, _SYNC_SPIN_NS)
        while not self.stopping:
            self.beat()
            self._choose_status()
            reason = self.kernel.run(spin_ns, _SLICE_NS, sleeps=self.all_mapped)
            self._look_at_clock()
            self._look_at_writes()
            self._tell_allocate()
            if reason == kernel.ROLL:
                self._next_file()
            elif reason == kernel.BAD_RING:
                self.sessions.drop_bad(self.kernel.bad_ring)
            elif reason == kernel.MAIL:
                self.sessions.read_mail()
                self.sessions.finish_closing()
            elif reason == kernel.SLICE:
                self.sessions.finish_closing()
                self._map_ahead(_MAP_STEP, _MAP_NS)
            elif not self._map_ahead(_MAP_STEP, 0):
                self.sessions.finish_closing()
                self._sleep()
        self._drain(spin_ns)

    def _look_at_clock(self) -> None:
        """Warns if the kernel was kept for long beyond its slice: by the disk, because of pages
        that are not in memory, or by other processes on its core.
        """
        ran_ns = time.monotonic_ns() - self._beat.load()
        if ran_ns > self.slow_ns > 0:
            self.say_slow("append", (ran_ns - _SLICE_NS) / 1e9)

    def _look_at_writes(self) -> None:
        """Says once of each error that a batch could not be written to its file."""
        error = self.kernel.write_error
        if error != self.write_error:
            self.write_error = error
            self.logger.warning(
                "a write to the commit log failed; its bytes were stored through the mapped file, "
                "which is slower: check the disk and the limits of this process",
                offset=self.kernel.position,
                error=os.strerror(error),
            )

    def _choose_status(self) -> None:
        """Sets the status with which the kernel refuses puts; PUT_OK means that it appends them.

        The rules are those of RocketMQ's DefaultMessageStore: SERVICE_NOT_AVAILABLE after a failed
        sync or on a full disk, CREATE_MAPPED_FILE_FAILED without a file. The first is also given
        while an actor cannot go on because of a file.
        """
        lacking = self.failed.load() & NEEDED
        if lacking or self.flush_error.load() or self.disk_flags.load():
            self.kernel.refuse_status = PutMessageStatus.SERVICE_NOT_AVAILABLE
        elif self.file is None and not self._open_file() and self.allocate_error.load():
            self.kernel.refuse_status = PutMessageStatus.CREATE_MAPPED_FILE_FAILED
        else:
            self.kernel.refuse_status = PutMessageStatus.PUT_OK

    def _sleep(self) -> None:
        if self.kernel.announce_sleep():
            events = self.poll.poll(TICK_S)
            self.kernel.announce_awake()
            if any(fd == self.inbox.fileno() for fd, _ in events):
                self.sessions.read_mail()

    # -- files

    def _open_file(self) -> bool:
        """Maps the file that holds the append position. False if allocate has not made it yet."""
        base = self.world.log.base_of(self.kernel.position)
        if self.ready.load() <= base:
            return False
        if self.pool is not None:
            return self._open_buffer(base)
        self.file = self.world.log.open(base, writable=True)
        (disk.in_small_folios if self.sync else disk.in_large_folios)(self.file.mapping)
        self.kernel.set_file(self.file.mapping, base, self._descriptor(base) if self.sync else -1)
        at = self.kernel.position - base
        self.mapped = self.let_go = at - at % disk.WARM_STEP
        return True

    def _descriptor(self, base: int) -> int:
        """A descriptor of the file at `base`, until the next is opened: to write staged batches."""
        self.opened.close()
        folder = self.world.log.folders.commit_log
        return self.opened.enter_context(folder.file(file_name(base), write=True))

    def _open_buffer(self, base: int) -> bool:
        """`_open_file` with a pool. False if commit has not written out the buffer's last file."""
        assert self.pool is not None
        if self.committed.load() < self.pool.free_from(base):
            return False
        self.file = LogFile(base, self.pool.buffer(base))
        # Bytes of the file that used the buffer before must not follow this file's end-of-file
        # record.
        tail = min(largest_frame(self.settings.ring_size_max), self.file.mapping.length)
        start = max(self.kernel.position - base, self.file.mapping.length - tail)
        memoryview(self.file.mapping)[start:] = bytes(self.file.mapping.length - start)
        self.kernel.set_file(self.file.mapping, base)
        return True

    def _pool_is_dry(self) -> bool:
        """Whether the next file exists but its buffer is not free, because commit is behind.
        Producers then wait, and no put is refused.
        """
        base = self.world.log.base_of(self.kernel.position)
        return (
            self.pool is not None
            and self.ready.load() > base
            and self.committed.load() < self.pool.free_from(base)
        )

    def _next_file(self) -> None:
        """Goes on in the next file when one is full, and times the wait for it."""
        began = time.monotonic()
        self._await_file()
        if self.file is not None:
            self.file_rolls.add(1)
            self.file_waits.add(time.monotonic() - began)

    def _await_file(self) -> None:
        """Waits for the next file: 5 s for allocate, and longer for commit, unless that lacks a
        file. If there is still none, puts get CREATE_MAPPED_FILE_FAILED.
        """
        self.kernel.no_file()
        self.file = None
        base = self.kernel.position
        self.wanted.store(base)
        self.world.allocate_semaphore.release()
        deadline = time.monotonic() + _FILE_TIMEOUT_S
        while not self.stopping and time.monotonic() < deadline and not self.allocate_error.load():
            if self.failed.load() & NEEDED:
                self._choose_status()
                return
            seen = self.ready.load()
            if self._open_file():
                return
            self.beat()
            if self._pool_is_dry():
                self.committed.wait(self.committed.load(), 0.1)
                deadline = time.monotonic() + _FILE_TIMEOUT_S
            else:
                self.ready.wait(seen, 0.1)
        if self.stopping:  # `_drain` asks for the file again: a stop is no reason to refuse
            return
        if not self._open_file() and not self._pool_is_dry():
            self.logger.error(
                "no commit-log file to go on in",
                offset=base,
                refused_with="CREATE_MAPPED_FILE_FAILED",
            )
            self.kernel.refuse_status = PutMessageStatus.CREATE_MAPPED_FILE_FAILED

    def _tell_allocate(self) -> None:
        """Wakes allocate when its window has to move on."""
        if self.kernel.position - self.told >= _TELL_BYTES:
            self.told = self.kernel.position
            self.world.allocate_semaphore.release()

    def _map_ahead(self, step: int, most_ns: int) -> bool:
        """Maps what allocate has warmed, `step` bytes at a time, until `most_ns` are over, but at
        least one step. True if there was one. Lets go what lies behind append as well.

        Without it, the first write to each page would cost a page fault between two records. And
        when a file is full, append would have to unmap its 262,144 pages at once. While more
        producers send than there are cores, it is no work for pauses: those who were answered wait
        for append's core.
        """
        self.all_mapped = True
        if self.file is None or self.sync or self.pool:  # a sync takes far longer than page faults
            return False
        base, at = self.file.base, self.kernel.position - self.file.base
        ahead = (at + _MAP_AHEAD) // _MAP_STEP * _MAP_STEP
        end = min(self.file.end - base, self.warmed.load() - base, ahead)
        self.mapped = max(self.mapped, at - at % _MAP_STEP)  # what it outran it has faulted in
        worked, until = False, time.monotonic_ns() + most_ns
        while self._let_one_go(at):
            worked = True
        while self._map_one(step, end):
            worked = True
            if time.monotonic_ns() >= until:
                self.all_mapped = self.crowded.load() == 1
                break
        return worked

    def _map_one(self, step: int, end: int) -> bool:
        """Maps a step, up to position `end` of the file at most, if there is one."""
        assert self.file is not None
        if self.mapped >= end:
            return False
        size = min(step, end - self.mapped)
        disk.warm(self.file.mapping, self.mapped, size)
        self.mapped += size
        return True

    def _let_one_go(self, at: int) -> bool:
        """Unmaps a step that lies before position `at` of the file, if there is one. A step is not
        less than a folio: a part of one cannot be unmapped alone.
        """
        assert self.file is not None
        if self.let_go + disk.WARM_STEP > at:
            return False
        self.file.mapping.let_go(self.let_go, disk.WARM_STEP)
        self.let_go += disk.WARM_STEP
        return True

    def _drain(self, spin_ns: int) -> None:
        """Appends what producers published before the stop, for 2 s at most. Then closes all rings
        with STORE_STOPPED. After a SIGTERM to this process alone its successor serves the rings.
        """
        if self.control.load("state") < StoreState.DRAINING:
            return
        deadline = time.monotonic() + _DRAIN_S
        self.sessions.read_mail()
        while time.monotonic() < deadline:
            self.beat()
            reason = self.kernel.run(spin_ns, _SLICE_NS)
            if reason == kernel.ROLL:
                self.stopping = False
                self._next_file()
                self.stopping = True
            elif reason == kernel.BAD_RING:
                self.sessions.drop_bad(self.kernel.bad_ring)
            elif reason == kernel.IDLE:
                break
        for session in list(self.sessions.attached.values()):
            self.kernel.detach(session.index, RingClosed.STORE_STOPPED)
