"""What a consumer reads from: the store's queues and log, mapped read-only; a `Cursor` a queue."""

from __future__ import annotations

import contextlib
import sys
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ...store.commitlog.log_reader import LogReader
from ...store.consumequeue.queue import ENTRY, ENTRY_SIZE
from ...store.consumequeue.queue_reader import QueueReader
from ...store.disk import files as disk
from ...store.disk.files import Folder
from ...store.disk.paths import COMMIT_LOG, CONSUME_QUEUE
from ...store.errors import Corrupt
from ...store.reading._columns import DAMAGED, Columns
from ...store.reading.columns import COLUMNS, MOST_BYTES, arrow, mask_of, to_batch
from ...store.topics.topic_table import DELETED
from ..errors import StoreClosed, TopicDeleted
from ..session import Connection
from ._message_view import ALL, BAD_ENTRY, FULL, Memory, MessageView, take

if TYPE_CHECKING:
    import pyarrow as pa

    from ...shm._memory import Mapping

_Found = TypeVar("_Found", int, list[MessageView])

_NO_FILE = 2**63
_AHEAD = 16 << 20


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
        self._may_hold_old = False
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
        was_leased = 0 <= self._leased == cursor.file
        cursor.close()
        if was_leased:
            self.renew()

    def relax(self) -> None:
        """The reader is about to sleep: gives the lease back, and old files with it."""
        if not self._may_hold_old and self.is_active():
            return
        if self._leased >= 0:
            self._lease(-1)
        active = self._find_active()
        self._may_hold_old = False
        for cursor in self._cursors:
            if cursor.file < active:
                cursor.leave()
        self.log.forget(active)

    def close(self) -> None:
        """Closes all folders. Messages that were read stay readable."""
        while self._cursors:
            self._cursors.pop().close()
        self._folders.close()

    def is_active(self) -> bool:
        """Whether the commit log is still in the file that was last known as the one written."""
        return self._wrote.load() <= self._active_end

    def enter(self, base: int) -> Mapping:
        """The commit-log file at `base`, into which a cursor goes on."""
        self._may_hold_old = True
        self.renew()
        return self.log.file(base)

    def renew(self) -> None:
        """Leases the oldest file that a cursor is in. The one that is written needs no lease: it
        never goes.
        """
        active = self._find_active()
        files = [c.file for c in self._cursors if c.file < active and c.next < c.end.load()]
        lowest = min(files, default=-1)
        if lowest != self._leased:
            self._lease(lowest)

    def is_old(self, base: int) -> bool:
        """Whether the file at `base` was full when last looked."""
        return base + self.log.file_size < self._active_end

    def _find_active(self) -> int:
        size = self.log.file_size
        active = max(0, self._wrote.load() - 1) // size * size
        self._may_hold_old |= self._active_end != active + size
        self._active_end = active + size
        return active

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
        self._since = source.link.table.queue_word(slot, "since")
        self.file = _NO_FILE  # the commit-log file it was last read from, by offset
        self._source = source
        self._memory: Memory | None = None  # that file
        self._is_old = False
        self._asked = 0  # how far the disk was asked to read ahead, an offset
        self._codes: frozenset[int] | None = None
        self._chosen: array[int] | None = None
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
        if limit < 1 or max_bytes < 1:
            return []
        chosen = self._ascending(codes)

        def step(entries: memoryview, first: int) -> tuple[list[MessageView], int, int]:
            return take(self._memory, entries, first, limit, chosen, max_bytes)

        found = self._advance(step)
        if found is None:
            return []
        return self._checked(found) if self._source.check_crc else found

    def fill(
        self,
        columns: Columns,
        limit: int,
        codes: frozenset[int] | None = None,
        max_bytes: int = MOST_BYTES,
    ) -> int:
        """As `read`, but the messages become rows of `columns`, until it has `limit` of them, of
        `max_bytes` bytes of records (at most MOST_BYTES): how many were added.

        A record whose lengths do not add up is damage here; with `check_crc` it must also pass its
        BODYCRC and be of its queue offset and place.
        """
        if limit < 1 or max_bytes < 1:
            return 0
        chosen = self._ascending(codes)
        check = self._source.check_crc

        def step(entries: memoryview, first: int) -> tuple[int, int, int]:
            file, base = (None, 0) if self._memory is None else (self._memory.source, self.file)
            return columns.take(file, base, entries, first, limit, chosen, max_bytes, check)

        return self._advance(step) or 0

    def read_arrow(
        self,
        limit: int,
        codes: frozenset[int] | None = None,
        max_bytes: int = 4 << 20,
        columns: tuple[str, ...] = COLUMNS,
    ) -> pa.RecordBatch:
        """As `read`, a batch of columns (`store/reading/columns.py` lists them), also over the end
        of a commit-log file. No rows: the queue's end was reached. Raises ImportError without
        pyarrow.
        """
        arrow()
        filled = Columns(mask_of(columns))
        fill_from([self], filled, limit, codes, max_bytes)
        return to_batch(filled, columns)

    def check_topic(self) -> None:
        """Raises TopicDeleted."""
        if self._since.load() == DELETED:
            raise TopicDeleted(
                f"topic {self.topic} was deleted while queue {self.queue_id} of it was read: if "
                "there is a new one of that name, open it anew"
            )

    def _ascending(self, codes: frozenset[int] | None) -> array[int] | None:
        """Tags codes as the kernel takes them; who reads asks with the same ones again and
        again.
        """
        if codes is not self._codes:
            self._codes = codes
            self._chosen = None if codes is None else array("i", sorted(codes))
        return self._chosen

    def _advance(self, step: Callable[[memoryview, int], tuple[_Found, int, int]]) -> _Found | None:
        """Gives entries to `step` until it has found something: what that is; None: the queue's end
        was reached. Moves `next` behind what was examined. Raises TopicDeleted.
        """
        while True:
            self.check_topic()
            least = self.start.load()  # SYNC: queue-min observe
            if least > self.next:
                self.missed += least - self.next
                self.next = least
            count = self.end.load() - self.next  # SYNC: queue-max observe
            if count <= 0:
                return None
            before = self.next
            try:
                found = self._read_files(count, step)
            except FileNotFoundError:
                # The minima move before the files go: look at them again.
                self.check_topic()
                if self.start.load() <= self.next:
                    raise
            else:
                if found or self.next == before:
                    return found

    def _read_files(
        self, count: int, step: Callable[[memoryview, int], tuple[_Found, int, int]]
    ) -> _Found:
        """Messages of one commit-log file. Raises FileNotFoundError when it is gone, or the file of
        the queue.
        """
        if not self._source.is_active():
            self._source.renew()
        first, examined = self.next, 0
        entries = self._entries(first, count)
        while True:
            found, passed, why = step(entries[examined * ENTRY_SIZE :], first + examined)
            examined += passed
            self.next = first + examined
            if found or why in (ALL, FULL):
                break
            at, size, _ = ENTRY.unpack_from(entries, examined * ENTRY_SIZE)
            if why == BAD_ENTRY:
                raise self._source.log.bad_entry(at, size)
            if why == DAMAGED:
                raise Corrupt(
                    f"{self._source.link.path}/{COMMIT_LOG}",
                    at,
                    f"the {size} bytes here, to which queue offset {self.next} of queue "
                    f"{self.queue_id} of {self.topic} leads, are no whole record",
                )
            self._enter(at)
        if found and self._is_old:
            self._read_ahead(ENTRY.unpack_from(entries, (examined - 1) * ENTRY_SIZE)[0])
        return found

    def _enter(self, at: int) -> None:
        """Goes on in the commit-log file that holds offset `at`."""
        self.leave()
        base = at - at % self._source.log.file_size
        self.file = base
        mapping = self._source.enter(base)
        self._memory = Memory(mapping, base, self._source.log.path(base))
        self._is_old = self._source.is_old(base)
        self._asked = at
        if self._is_old:
            self._read_ahead(at)

    def _read_ahead(self, at: int) -> None:
        """Has what follows `at` read from the disk before it is asked for."""
        assert self._memory is not None
        if at + _AHEAD // 2 >= self._asked:
            start = max(at, self._asked)
            disk.read_ahead(self._memory.source, start - self.file, _AHEAD)
            self._asked = start + _AHEAD

    def _checked(self, found: list[MessageView]) -> list[MessageView]:
        """Those before the first that is damaged, to which `next` is set; raises Corrupt if that is
        the first of all.
        """
        for i, view in enumerate(found):
            try:
                view.check()
            except Corrupt as error:
                self.next = view.queue_offset
                if i == 0:
                    where = f"{self._source.link.path}/{COMMIT_LOG}"
                    raise Corrupt(where, view.place, error.why) from error
                return found[:i]
        return found

    def _entries(self, first: int, count: int) -> memoryview:
        if self._reader is None:
            with self._source.queues.folder(self.topic) as parent:
                self._folder = parent.folder(str(self.queue_id))
            self.check_topic()  # else this may be the folder of a new topic of that name
            self._reader = QueueReader(
                self._folder, self._source.link.config.file_size_consume_queue
            )
        return self._reader.view(first, count)

    def leave(self) -> None:
        """Lets go of the commit-log file; what was read of it stays readable."""
        self.file = _NO_FILE
        self._memory = None

    def close(self) -> None:
        """Closes what is open of the queue; made by `Source.drop`."""
        self.leave()
        if self._folder is not None:
            self._folder.close()
        self._folder = self._reader = None


def fill_from(
    cursors: Sequence[Cursor],
    columns: Columns,
    limit: int,
    codes: frozenset[int] | None = None,
    max_bytes: int = MOST_BYTES,
) -> None:
    """Rows from one cursor after the other, each up to its queue's end, until there are `limit` or
    `max_bytes` are reached. Raises Corrupt only if there are no rows before the damage.
    """
    max_bytes = min(max_bytes, MOST_BYTES)
    for cursor in cursors:
        while columns.rows < limit and columns.bytes < max_bytes:
            try:
                added = cursor.fill(columns, limit, codes, max_bytes)
            except Corrupt:
                if not columns.rows:
                    raise
                break
            if not added:
                break
