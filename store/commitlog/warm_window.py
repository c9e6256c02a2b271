"""The part of the commit log ahead of append that is populated and locked in memory.

It consists of chunks, each mapped by itself: to unmap a chunk also unlocks it. What lies behind
append stays in the page cache as long as the kernel likes, and is not locked. Under SYNC_FLUSH the
files' zeros are made durable as well, also beyond the window.

Pages are populated a piece at a time, and the core is yielded after each piece: a scheduler lets a
process finish its slice of some milliseconds before another that was woken.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque

import msgspec

from ...shm._memory import Mapping
from ..disk import files as disk
from ..disk.paths import file_name
from .log import CommitLog

#: Zeros are made durable so many bytes at a time: a sync of records waits for what the disk was
#: given before.
_DURABLE_STEP = 512 << 10
#: So many bytes are populated before the core is yielded. They take 20 us, and 0.1 ms where a host
#: gives the memory page by page.
PIECE = 32 << 10


class Chunk(msgspec.Struct, frozen=True):
    """The mapped bytes [start, end) of the log, which lie in one file."""

    start: int
    end: int
    mapping: Mapping
    locked: bool


class WarmWindow:
    """The chunks that one process holds. `warm` populates them, and `lock` locks them. `sync` makes
    zeros durable ahead, so that a later sync of records changes none of the file's metadata.

    `large` says that folios of 2 MiB are wanted, which take the least time for each byte. But the
    kernel gives the core to no other process before a folio is whole.

    `warm` becomes False if the kernel cannot populate. `lock` becomes False if a lock fails, and
    `lock_error` says why: the window goes on without.
    """

    def __init__(self, log: CommitLog, *, warm: bool, lock: bool, sync: bool) -> None:
        self.log = log
        self.warm = warm
        self.lock = lock
        self.sync = sync
        self.large = False
        self.lock_error: OSError | None = None
        self._chunks: deque[Chunk] = deque()
        self._reached = self._prepared = 0
        # The file of the last chunk stays open. The kernel notes with the open file that it is read
        # in order, and then makes large folios, which take a fraction of the page faults.
        self._file = contextlib.ExitStack()
        self._base = self._fd = -1

    @property
    def end(self) -> int:
        """The log offset behind the last chunk; without one, where the window last was."""
        return self._chunks[-1].end if self._chunks else self._reached

    @property
    def warm_end(self) -> int:
        """The log offset below which files were warmed, also beyond the window."""
        return max(self.end, self._prepared)

    @property
    def locked_bytes(self) -> int:
        return sum(chunk.mapping.length for chunk in self._chunks if chunk.locked)

    def move(self, wrote: int, until: int, ready: int) -> bool:
        """Does one step towards a window from the append position `wrote` to `until`, in the files
        that exist below `ready`. False if there is nothing to do. Raises OSError (ENOSPC: the disk
        is full).
        """
        if not (self.warm or self.lock):
            return False
        if self._chunks and self._chunks[0].end <= wrote:
            self._reached = self._chunks.popleft().end
            return True
        if self._chunks and self._chunks[-1].start >= max(until, wrote + 1):
            self._chunks.pop()
            return True
        start = self._chunks[-1].end if self._chunks else self._begin(wrote)
        return start < until and self._add(start, ready)

    def prepare(self, wrote: int, ready: int) -> bool:
        """Does one step of making zeros durable up to `ready`, from the end of the window on. False
        if there is nothing to do: always without `sync` and `warm`. Raises OSError.
        """
        start = max(self._prepared, self.end, wrote)
        if not (self.sync and self.warm) or start >= ready:
            return False
        self._map(start)
        return True

    def _begin(self, wrote: int) -> int:
        """Where a window without chunks begins. If append has outrun it, that is the next chunk and
        not the one that append writes just now: both would fault in the same pages.
        """
        outrun = 0 < self._reached < wrote
        return self._chunk_end(wrote) if outrun else wrote

    def _chunk_end(self, start: int) -> int:
        """The end of the chunk that holds log offset `start`. A chunk does not cross files."""
        base = self.log.base_of(start)
        at = (start - base) // disk.WARM_STEP * disk.WARM_STEP
        return base + min(at + disk.WARM_STEP, self.log.file_size)

    def _add(self, start: int, ready: int) -> bool:
        """Maps, populates and locks the chunk that holds `start`, from there on. The pages before
        may be on the disk only. False if its file does not exist yet.
        """
        if self._chunk_end(start) > ready:
            return False
        start, mapping = self._map(start)
        self._chunks.append(Chunk(start, start + mapping.length, mapping, self._lock(mapping)))
        return True

    def _map(self, start: int) -> tuple[int, Mapping]:
        """Maps and populates the chunk that holds `start`, from that page on: (offset, mapping)."""
        start -= start % disk.PAGE
        end, base = self._chunk_end(start), self.log.base_of(start)
        mapping = disk.map_file(self._open(base), start - base, end - start, writable=True)
        large = self.large and not self.sync
        (disk.in_large_folios if large else disk.in_small_folios)(mapping)
        # To populate pages makes them dirty: durable zeros would be written once more.
        if self.warm and not (self.sync and end <= self._prepared):
            self.warm = self._populate(mapping)
            if self.sync:
                self._prepared = end
        return start, mapping

    def _populate(self, mapping: Mapping) -> bool:
        """Populates a chunk, and makes its zeros durable if need be. False if the kernel cannot."""
        piece = mapping.length if self.large and not self.sync else PIECE
        durable = 0
        for at in range(0, mapping.length, piece):
            end = min(at + piece, mapping.length)
            if not disk.warm(mapping, at, end - at):
                return False
            if self.sync and (end - durable >= _DURABLE_STEP or end == mapping.length):
                disk.sync_range(mapping, durable, end - durable, ahead=True)
                durable = end
            os.sched_yield()
        return True

    def _open(self, base: int) -> int:
        if self._base != base:
            self._file.close()
            self._base = -1
            folder = self.log.folders.commit_log
            self._fd = self._file.enter_context(folder.file(file_name(base), write=True))
            self._base = base
        return self._fd

    def _lock(self, mapping: Mapping) -> bool:
        if not self.lock:
            return False
        try:
            mapping.lock(0, mapping.length)
        except OSError as error:
            self.lock, self.lock_error = False, error
        return self.lock
