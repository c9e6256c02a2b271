"""`StoreView`: the files of a running store, as one reader sees them."""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING

from ...shm.protocol.requests import Lease
from ...store.commitlog.holes import Holes
from ...store.commitlog.log_reader import LogReader
from ...store.disk.files import Folder
from ...store.disk.forks import NO_FORK
from ...store.disk.paths import COMMIT_LOG, CONSUME_QUEUE
from ..errors import StoreClosed
from ..forks import abandon_in_child
from ..session import Connection
from .cursor import Cursor

if TYPE_CHECKING:
    from ...shm._memory import Mapping


class StoreView:
    """A read-only view of the queues and the commit log of the store behind `link`.

    It makes the cursors, and holds one lease for all of them. A view belongs to one thread at a
    time. `close` leaves `link` open, because the caller owns it.

    With `check_crc` a cursor checks every message before it returns it (`MessageView.check`).
    Raises FileNotFoundError when the store's folders do not exist, Corrupt when the declaration of
    holes is damaged.
    """

    def __init__(self, link: Connection, *, check_crc: bool = False) -> None:
        self.check_crc = check_crc
        self.link = link
        self._leased, self._active_end = -1, 0
        self._may_hold_old = False
        # A cursor refers to its view. A view that referred back would keep both, and their
        # descriptors, until the next collection of cycles.
        self._cursors: weakref.WeakSet[Cursor] = weakref.WeakSet()
        with NO_FORK, contextlib.ExitStack() as opened:
            root = opened.enter_context(Folder.open(link.path))
            self.holes = Holes.read(root)
            self.queues = opened.enter_context(root.folder(CONSUME_QUEUE))
            log = opened.enter_context(root.folder(COMMIT_LOG))
            self.log = LogReader(log, link.config.file_size_commit_log)
            self.wrote = link.control.word("wrote")
            self._folders = opened.pop_all()
            abandon_in_child(self)

    def cursor(self, topic: str, queue_id: int, slot: int, next_offset: int) -> Cursor:
        """A cursor at queue offset `next_offset` of a queue of `topic`. `slot` is the queue's place
        in the topic table.
        """
        cursor = Cursor(self, topic, queue_id, slot, next_offset)
        self._cursors.add(cursor)
        return cursor

    def remove(self, cursor: Cursor) -> None:
        """Closes a cursor whose queue is no longer read here, and renews the lease without it."""
        self._cursors.remove(cursor)
        was_leased = 0 <= self._leased == cursor.file
        cursor.close()
        if was_leased:
            self.renew_lease()

    def release_lease(self) -> None:
        """Gives the lease back and unmaps old commit-log files. A reader calls this before it
        sleeps, because a reader that is idle must not keep old files on the disk.
        """
        if not self._may_hold_old and self.is_active():
            return
        if self._leased >= 0:
            self._lease(-1)
        active = self._find_active()
        self._may_hold_old = False
        for cursor in self._cursors:
            if cursor.file < active:
                cursor.leave_file()
        self.log.forget(active)

    def close(self) -> None:
        """Closes all folders. Messages that were read stay readable. May be called again."""
        with NO_FORK:
            while self._cursors:
                self._cursors.pop().close()
            self._folders.close()

    def abandon(self) -> None:
        """Closes the copies that a forked child has (`client/forks.py`)."""
        self.close()

    @property
    def most_written(self) -> int:
        """While `wrote` is not above this log offset, `release_lease` has nothing to do. -1: it
        has.
        """
        return -1 if self._may_hold_old else self._active_end

    def is_active(self) -> bool:
        """Whether append still writes the commit-log file that it wrote at the last look."""
        return self.wrote.load() <= self._active_end

    def enter_file(self, base: int) -> Mapping:
        """Maps the commit-log file that begins at offset `base`, for a cursor that continues there.
        Raises FileNotFoundError when clean has removed it.
        """
        self._may_hold_old = True
        self.renew_lease()
        return self.log.file(base)

    def renew_lease(self) -> None:
        """Leases the oldest file in which a cursor still has messages to read. The file that append
        writes needs no lease, because clean never removes it.
        """
        active = self._find_active()
        files = [c.file for c in self._cursors if c.file < active and c.next < c.end.load()]
        lowest = min(files, default=-1)
        if lowest != self._leased:
            self._lease(lowest)

    def is_old(self, base: int) -> bool:
        """Whether the commit-log file at `base` was full at the last look."""
        return base + self.log.file_size < self._active_end

    def _find_active(self) -> int:
        size = self.log.file_size
        active = max(0, self.wrote.load() - 1) // size * size
        self._may_hold_old |= self._active_end != active + size
        self._active_end = active + size
        return active

    def _lease(self, offset: int) -> None:
        """Tells the store the offset of the oldest commit-log file that is read here; -1: none."""
        self._leased = offset
        with contextlib.suppress(StoreClosed):  # a store that has stopped removes no file
            self.link.request(Lease(None if offset < 0 else offset))
