"""What a consumer reads from: the store's queues and log, mapped read-only; a `Cursor` a queue."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable

from ..store.disk import Folder
from ..store.errors import Corrupt
from ..store.paths import COMMIT_LOG, CONSUME_QUEUE
from ..store.reading import LogReader, QueueReader
from .errors import StoreClosed
from .received import MessageView
from .session import Connection

_NO_FILE = 2**63
_CODE_MASK = 0xFFFFFFFF
_MOST_ENTRIES = 4096


class Source:
    """Reads queues of the store behind `link`, without asking any process for a message.

    A reader of an old commit-log file says so to the store (a lease), which then keeps the file for
    a while when its time has come. Belongs to one thread. Closing the link is its owner's.

    With `check_crc` every message is checked before it is handed out (`MessageView.check`).
    """

    def __init__(self, link: Connection, *, check_crc: bool = False) -> None:
        self.check_crc = check_crc
        self.link = link
        self._leased = -1
        self._active_end = 0
        self._cursors: list[Cursor] = []
        with contextlib.ExitStack() as opened:
            root = opened.enter_context(Folder.open(link.path))
            self.queues = opened.enter_context(root.folder(CONSUME_QUEUE))
            log = opened.enter_context(root.folder(COMMIT_LOG))
            self.log = LogReader(log, link.config.file_size_commit_log)
            self._wrote = link.control.word("wrote")
            self._folders = opened.pop_all()

    def cursor(self, topic: str, queue_id: int, slot: int, next_offset: int) -> Cursor:
        """A place in a queue of `topic`, the table's `slot`: at queue offset `next_offset`."""
        cursor = Cursor(self, topic, queue_id, slot, next_offset)
        self._cursors.append(cursor)
        return cursor

    def drop(self, cursor: Cursor) -> None:
        """This queue is no longer read here: closes its folder, and gives up the lease for it."""
        self._cursors.remove(cursor)
        cursor.close()
        if 0 <= self._leased == cursor.file:
            self._renew()

    def relax(self) -> None:
        """The reader is about to sleep: gives the lease back."""
        if self._leased >= 0:
            self._lease(-1)

    def close(self) -> None:
        """Closes all folders. Messages that were read stay readable."""
        while self._cursors:
            self._cursors.pop().close()
        self._folders.close()

    def is_active(self) -> bool:
        """Whether the commit log is still in the file that was last known as the one written."""
        return self._wrote.load() <= self._active_end

    def enter(self, cursor: Cursor, at: int) -> int:
        """The cursor goes on in another commit-log file, or the store does: the end of the file
        that holds `at`.

        An old file is leased, the one that is written needs no lease: it never goes.
        """
        size = self.log.file_size
        cursor.file = at - at % size
        self._renew()
        return cursor.file + size

    def _renew(self) -> None:
        """Leases the oldest file that a cursor is in, if it is not the one that is written."""
        size = self.log.file_size
        active = max(0, self._wrote.load() - 1) // size * size
        self._active_end = active + size
        files = [c.file for c in self._cursors if c.file < active and c.next < c.end.load()]
        lowest = min(files, default=-1)
        if lowest != self._leased:
            self._lease(lowest)

    def _lease(self, offset: int) -> None:
        """Tells the store which commit-log file is the oldest that is being read; -1: none."""
        self._leased = offset
        with contextlib.suppress(StoreClosed):  # then nobody cleans, and what is left can be read
            self.link.request({"do": "lease", "offset": None if offset < 0 else offset})


class Cursor:
    """Where a reader is in one queue; made by `Source.cursor`.

    `next` is the queue offset of the next message and may be set. `missed` counts messages that the
    store removed before they were read. `start`, `end` and `arrival` are the queue's words: its
    least offset, the offset behind its last message, and what changes when messages arrive.
    """

    def __init__(
        self, source: Source, topic: str, queue_id: int, slot: int, next_offset: int
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.slot = slot
        self.next = next_offset
        self.missed = 0
        self.start = source.link.table.queue_word(slot, "min_offset")
        self.end = source.link.table.queue_word(slot, "max_offset")
        self.arrival = source.link.control.arrival(slot)
        self.file = _NO_FILE  # the commit-log file it was last read from, by offset
        self._source = source
        self._folder: Folder | None = None
        self._reader: QueueReader | None = None

    def read(
        self, limit: int, codes: frozenset[int] | None = None, max_bytes: int = sys.maxsize
    ) -> list[MessageView]:
        """Up to `limit` messages, fewer if their records would exceed `max_bytes` bytes (but always
        one); moves `next` behind what was examined. None: the queue's end was reached.

        Of all messages, or those whose tags code (the entry's low 32 bits, signed) is in `codes`;
        the rest is passed over without a look at the log. Raises Corrupt at a damaged message, when
        those before it were handed out; `next` is its offset then.
        """
        while limit > 0 and max_bytes > 0:
            least = self.start.load()  # SYNC: queue-min observe
            if least > self.next:
                self.missed += least - self.next
                self.next = least
            count = self.end.load() - self.next  # SYNC: queue-max observe
            if count <= 0:
                break
            before = self.next
            try:
                found = self._read_files(count, limit, codes, max_bytes)
            except FileNotFoundError:
                # The minima move before the files go: look at them again.
                if self.start.load() <= self.next:
                    raise
            else:
                if found:
                    return found
                assert self.next > before, "an examined entry is either taken or passed over"
        return []

    def _read_files(
        self, count: int, limit: int, codes: frozenset[int] | None, max_bytes: int
    ) -> list[MessageView]:
        """Messages of one commit-log file. Raises FileNotFoundError when it is gone, or the file of
        the queue.
        """
        first = self.next
        entries = self._entries(first, min(count, limit if codes is None else _MOST_ENTRIES))
        chosen = _choose(entries, limit, codes)
        if not chosen:
            self.next = first + len(entries)
            return []
        end = self._file_end(entries[chosen[0]][0], entries[chosen[-1]][0])
        examined = len(entries) if len(chosen) < limit and codes is not None else chosen[-1] + 1
        found: list[MessageView] = []
        spent = 0
        for i in chosen:
            at, size, _ = entries[i]
            spent += size
            if at >= end or (found and spent > max_bytes):
                examined = i
                break
            try:
                view = MessageView(self._source.log.record(at, size), first + i)
                if self._source.check_crc:
                    view.check()
            except Corrupt as error:
                examined = i
                if found:
                    break
                self.next = first + i
                raise Corrupt(f"{self._source.link.path}/{COMMIT_LOG}", at, error.why) from error
            found.append(view)
        self.next = first + examined
        return found

    def _file_end(self, first: int, last: int) -> int:
        """Where the commit-log file of the record at `first` ends, leased if it is an old one."""
        end = self.file + self._source.log.file_size
        if self.file <= first <= last < end and self._source.is_active():
            return end
        return self._source.enter(self, first)

    def _entries(self, first: int, count: int) -> list[tuple[int, int, int]]:
        if self._reader is None:
            with self._source.queues.folder(self.topic) as parent:
                self._folder = parent.folder(str(self.queue_id))
            self._reader = QueueReader(
                self._folder, self._source.link.config.file_size_consume_queue
            )
        return self._reader.entries(first, count)

    def close(self) -> None:
        if self._folder is not None:
            self._folder.close()
        self._folder = self._reader = None


def _choose(
    entries: Iterable[tuple[int, int, int]],
    limit: int,
    codes: frozenset[int] | None,
) -> list[int]:
    """Which entries have one of the codes: their places in `entries`, at most `limit`."""
    chosen: list[int] = []
    for i, (_, _, code) in enumerate(entries):
        low = code & _CODE_MASK
        if codes is None or low - ((low & 0x80000000) << 1) in codes:
            chosen.append(i)
            if len(chosen) == limit:
                break
    return chosen
