"""How a consumer reads a running store: a `StoreView` of its files, and a `Cursor` in each queue.

Both map the store's files read-only and ask no process for a message. A reader tells the store one
thing only, its lease: the oldest commit-log file that it still reads. Clean keeps that file for a
while after its retention time.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ...shm.protocol.requests import Lease
from ...store.commitlog.holes import Holes
from ...store.commitlog.log_reader import LogReader
from ...store.consumequeue.queue import ENTRY, ENTRY_SIZE
from ...store.consumequeue.queue_reader import QueueReader
from ...store.disk import files as disk
from ...store.disk.files import Folder
from ...store.disk.forks import NO_FORK
from ...store.disk.paths import COMMIT_LOG, CONSUME_QUEUE
from ...store.errors import Corrupt, CorruptRange
from ...store.reading._columns import DAMAGED, Columns
from ...store.reading.columns import MOST_BYTES
from ...store.topics.topic_table import DELETED
from ..errors import StoreClosed, TopicDeleted
from ..forks import abandon_in_child
from ..session import Connection
from ._message_view import ALL, BAD_ENTRY, FULL, Memory, MessageView, take

if TYPE_CHECKING:
    from ...shm._memory import Mapping

_Found = TypeVar("_Found", int, list[MessageView])

_NO_FILE = 2**63
_AHEAD = 16 << 20


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
            self._wrote = link.control.word("wrote")
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

    def is_active(self) -> bool:
        """Whether append still writes the commit-log file that it wrote at the last look."""
        return self._wrote.load() <= self._active_end

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
        active = max(0, self._wrote.load() - 1) // size * size
        self._may_hold_old |= self._active_end != active + size
        self._active_end = active + size
        return active

    def _lease(self, offset: int) -> None:
        """Tells the store the offset of the oldest commit-log file that is read here; -1: none."""
        self._leased = offset
        with contextlib.suppress(StoreClosed):  # a store that has stopped removes no file
            self.link.request(Lease(None if offset < 0 else offset))


class Cursor:
    """Where a reader is in one queue; made by `StoreView.cursor`.

    `next` is the queue offset of the next message and may be set. `missed` counts messages that the
    store removed before they were read (RocketMQ's OFFSET_TOO_SMALL). `start`, `end` and `arrival`
    are shared words of the queue: its least queue offset, the queue offset behind its last message,
    and a counter that changes when messages arrive.
    """

    def __init__(
        self, view: StoreView, topic: str, queue_id: int, slot: int, next_offset: int
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.slot = slot
        self.next = next_offset
        self.missed = 0
        self.start = view.link.table.queue_word(slot, "min_offset")
        self.end = view.link.table.queue_word(slot, "max_offset")
        self.arrival = view.link.control.arrival(slot)
        self._since = view.link.table.queue_word(slot, "since")
        self.file = _NO_FILE  # offset of the commit-log file that it reads
        self._view = view
        self._memory: Memory | None = None  # that file
        self._is_old = False
        self._asked = 0  # log offset up to which it asked for read-ahead
        self._codes: frozenset[int] | None = None
        self._chosen: array[int] | None = None
        self._folder: Folder | None = None
        self._reader: QueueReader | None = None

    def read(
        self, limit: int, codes: frozenset[int] | None = None, max_bytes: int = sys.maxsize
    ) -> list[MessageView]:
        """Up to `limit` messages; fewer if their records would exceed `max_bytes` bytes, but always
        one. Moves `next` behind the entries that were examined. An empty list means that the
        queue's end was reached.

        With `codes` takes only messages whose tags code (the low 32 bits of the queue entry's,
        signed) is among them; the records of the others are not read. Raises TopicDeleted when the
        topic was deleted. Raises Corrupt at a damaged message, and CorruptRange at a declared hole,
        after the messages before it were returned. Then `next` is at that message; `pass_hole`
        moves it behind the hole.
        """
        if limit < 1 or max_bytes < 1:
            return []
        chosen = self._ascending(codes)

        def step(entries: memoryview, first: int) -> tuple[list[MessageView], int, int]:
            return take(self._memory, entries, first, limit, chosen, max_bytes)

        found = self._advance(step)
        if found is None:
            return []
        return self._checked(found) if self._view.check_crc else found

    def fill(
        self,
        columns: Columns,
        limit: int,
        codes: frozenset[int] | None = None,
        max_bytes: int = MOST_BYTES,
    ) -> int:
        """As `read`, but appends the messages to `columns`, until these hold `limit` rows or
        records of `max_bytes` bytes (at most MOST_BYTES). Returns how many rows were added.

        A record whose lengths contradict each other raises Corrupt. With `check_crc` its body must
        also match its BODYCRC, and the record must name the queue offset and log offset it was
        found at.
        """
        if limit < 1 or max_bytes < 1:
            return 0
        chosen = self._ascending(codes)
        check = self._view.check_crc

        def step(entries: memoryview, first: int) -> tuple[int, int, int]:
            file, base = (None, 0) if self._memory is None else (self._memory.source, self.file)
            return columns.take(file, base, entries, first, limit, chosen, max_bytes, check)

        return self._advance(step) or 0

    def pass_hole(self, error: CorruptRange) -> None:
        """Goes on behind the hole that `read` or `fill` raised. The caller calls this when it hands
        the error on, so that its user sees each hole of a queue once.
        """
        assert error.queue_offsets is not None
        self.next = max(self.next, error.queue_offsets[1])

    def check_topic(self) -> None:
        """Raises TopicDeleted when the topic was deleted since the cursor was made."""
        if self._since.load() == DELETED:
            raise TopicDeleted(
                f"topic {self.topic} was deleted while queue {self.queue_id} of it was read: if "
                "there is a new one of that name, open it anew"
            )

    def _ascending(self, codes: frozenset[int] | None) -> array[int] | None:
        """Tags codes as the compiled code takes them: an ascending array. The array is kept,
        because a reader passes the same codes on every call.
        """
        if codes is not self._codes:
            self._codes = codes
            self._chosen = None if codes is None else array("i", sorted(codes))
        return self._chosen

    def _advance(self, step: Callable[[memoryview, int], tuple[_Found, int, int]]) -> _Found | None:
        """Passes queue entries to `step` until it finds something, and returns that; None when the
        queue's end was reached. Moves `next` behind the entries examined. Raises TopicDeleted.
        """
        while True:
            self.check_topic()
            least = self.start.load()  # SYNC: queue-min observe
            if least > self.next:
                self.missed += least - self.next
                self.next = least
            count = self.end.load() - self.next  # SYNC: queue-max observe
            if count <= 0:
                return self._view.link.reads.find(None)
            before = self.next
            try:
                found = self._read_files(count, step)
            except FileNotFoundError as error:
                # Clean raises the least offset before it removes the file: load the offset again.
                self.check_topic()
                if self.start.load() <= self.next:
                    raise self._missing(error) from error
            else:
                if found or self.next == before:
                    return self._view.link.reads.find(found)

    def _read_files(
        self, count: int, step: Callable[[memoryview, int], tuple[_Found, int, int]]
    ) -> _Found:
        """Messages of one commit-log file. Raises FileNotFoundError when that file or the queue's
        file was removed.
        """
        if not self._view.is_active():
            self._view.renew_lease()
        first, examined = self.next, 0
        entries = self._entries(first, count)
        if self._view.holes:
            entries = self._before_hole(entries)
        while True:
            found, passed, why = step(entries[examined * ENTRY_SIZE :], first + examined)
            examined += passed
            self.next = first + examined
            if found or why in (ALL, FULL):
                break
            at, size, _ = ENTRY.unpack_from(entries, examined * ENTRY_SIZE)
            if why == BAD_ENTRY:
                raise self._view.log.bad_entry(at, size)
            if why == DAMAGED:
                raise Corrupt(
                    f"{self._view.link.path}/{COMMIT_LOG}",
                    at,
                    f"the {size} bytes here, to which queue offset {self.next} of queue "
                    f"{self.queue_id} of {self.topic} leads, are no whole record",
                )
            self._enter_file(at)
        if found and self._is_old:
            self._read_ahead(ENTRY.unpack_from(entries, (examined - 1) * ENTRY_SIZE)[0])
        return found

    def _missing(self, error: FileNotFoundError) -> Corrupt:
        """The exception for a file that is gone although clean did not remove it."""
        return Corrupt(
            error.filename,
            self.next,
            f"the file is missing (queue offset {self.next} of queue {self.queue_id} of "
            f"{self.topic}): stop the store and restore it, or go on without it: silo repair "
            "--holes, or --rebuild for a file of the queue",
        )

    def _before_hole(self, entries: memoryview) -> memoryview:
        """The entries from `next` on that lie before the next declared hole. Raises CorruptRange if
        there are none. All entries count, whatever tags are wanted: nobody knows the tags of the
        lost messages.
        """
        count, hole = self._view.holes.before(entries)
        if hole is None:
            return entries[: count * ENTRY_SIZE]
        behind = self.next + (passed := Holes.passing(hole, entries))
        while passed * ENTRY_SIZE == len(entries) and behind < self.end.load():
            entries = self._entries(behind, self.end.load() - behind)  # of the queue's next file
            passed = Holes.passing(hole, entries)
            behind += passed
        raise hole.error(self.topic, self.queue_id, first=self.next, end=behind)

    def _enter_file(self, at: int) -> None:
        """Continues in the commit-log file that holds offset `at`."""
        self.leave_file()
        base = at - at % self._view.log.file_size
        self.file = base
        mapping = self._view.enter_file(base)
        queue = (self.topic, self.queue_id)
        self._memory = Memory(mapping, base, self._view.log.path(base), queue)
        self._is_old = self._view.is_old(base)
        self._asked = at
        if self._is_old:
            self._read_ahead(at)

    def _read_ahead(self, at: int) -> None:
        """Asks the kernel to read the bytes after offset `at` from the disk before they are
        needed.
        """
        assert self._memory is not None
        if at + _AHEAD // 2 >= self._asked:
            start = max(at, self._asked)
            disk.read_ahead(self._memory.source, start - self.file, _AHEAD)
            self._asked = start + _AHEAD

    def _checked(self, found: list[MessageView]) -> list[MessageView]:
        """The messages before the first damaged one. Sets `next` to the damaged one, and raises
        Corrupt if no message comes before it.
        """
        for i, message in enumerate(found):
            try:
                message.check()
            except Corrupt as error:
                self.next = message.queue_offset
                if i == 0:
                    where = f"{self._view.link.path}/{COMMIT_LOG}"
                    raise Corrupt(where, message.place, error.why) from error
                return found[:i]
        return found

    def _entries(self, first: int, count: int) -> memoryview:
        if self._reader is None:
            with NO_FORK, self._view.queues.folder(self.topic) as parent:
                self._folder = parent.folder(str(self.queue_id))
            self.check_topic()  # otherwise this may be the folder of a new topic of that name
            self._reader = QueueReader(self._folder, self._view.link.config.file_size_consume_queue)
        return self._reader.view(first, count)

    def leave_file(self) -> None:
        """Unmaps the commit-log file. Messages that were read from it stay readable."""
        self.file = _NO_FILE
        self._memory = None

    def close(self) -> None:
        """Closes the queue's folder and files; called by the view (`StoreView.remove`)."""
        self.leave_file()
        with NO_FORK:
            if self._folder is not None:
                self._folder.close()
            self._folder = self._reader = None
