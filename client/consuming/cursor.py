"""`Cursor`: reads one queue of a running store."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from ...store.commitlog.holes import Holes
from ...store.consumequeue.queue import ENTRY, ENTRY_SIZE
from ...store.consumequeue.queue_reader import QueueReader
from ...store.disk import files as disk
from ...store.disk.files import Folder
from ...store.disk.forks import NO_FORK
from ...store.disk.paths import COMMIT_LOG
from ...store.errors import Corrupt, CorruptRange
from ...store.reading._columns import DAMAGED, Columns
from ...store.reading.columns import MOST_BYTES
from ...store.topics.topic_table import DELETED
from ..errors import TopicDeleted
from ._mapped_queue import ALL, BAD_ENTRY, FULL, MappedQueue, take
from ._message_view import Memory, MessageView

if TYPE_CHECKING:
    from ...shm._memory import Mapping
    from ...shm._words import Word
    from ...store.commitlog.log_reader import LogReader
    from ..session import Connection

_Found = TypeVar("_Found", int, list[MessageView])

_NO_FILE = 2**63
_AHEAD = 16 << 20


class View(Protocol):
    """The files that a cursor reads: a `StoreView`, which explains what these do."""

    check_crc: bool
    link: Connection
    wrote: Word
    holes: Holes
    queues: Folder
    log: LogReader

    def is_active(self) -> bool: ...

    def is_old(self, base: int) -> bool: ...

    def enter_file(self, base: int) -> Mapping: ...

    def renew_lease(self) -> None: ...


class Cursor(MappedQueue):
    """Where a reader is in one queue; made by `StoreView.cursor`.

    `next` is the queue offset of the next message and may be set. `missed` counts messages that the
    store removed before they were read (RocketMQ's OFFSET_TOO_SMALL). `start`, `end` and `arrival`
    are shared words of the queue: its least queue offset, the queue offset behind its last message,
    and a counter that changes when messages arrive.

    Most reads find all that they need in memory that is mapped (`MappedQueue`). The others open
    and map files, renew the lease, and say what is wrong.
    """

    def __init__(self, view: View, topic: str, queue_id: int, slot: int, next_offset: int) -> None:
        table = view.link.table
        start, end = table.queue_word(slot, "min_offset"), table.queue_word(slot, "max_offset")
        self._since = table.queue_word(slot, "since")
        super().__init__(start, end, self._since, view.wrote, next_offset)
        self.topic = topic
        self.queue_id = queue_id
        self.slot = slot
        self.missed = 0
        self.arrival = view.link.control.arrival(slot)
        self.file = _NO_FILE  # offset of the commit-log file that it reads, mapped at `memory`
        self._view = view
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

        found = self.take_mapped(limit, chosen, max_bytes)
        if found is None:
            found = self._advance(
                lambda entries, first: take(self.memory, entries, first, limit, chosen, max_bytes)
            )
        else:
            self._view.link.reads.find(found)
        if not found:
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
            file, base = (None, 0) if self.memory is None else (self.memory.source, self.file)
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
        self.memory = Memory(mapping, base, self._view.log.path(base), queue)
        self._is_old = self._view.is_old(base)
        self._asked = at
        if self._is_old:
            self._read_ahead(at)

    def _read_ahead(self, at: int) -> None:
        """Asks the kernel to read the bytes after offset `at` from the disk before they are
        needed.
        """
        assert self.memory is not None
        if at + _AHEAD // 2 >= self._asked:
            start = max(at, self._asked)
            disk.read_ahead(self.memory.source, start - self.file, _AHEAD)
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
        base, file = self._reader.file(first)
        if not self._view.holes:
            self.map_entries(file, base // ENTRY_SIZE)
        return self._reader.view(first, count)

    def leave_file(self) -> None:
        """Unmaps the commit-log file. Messages that were read from it stay readable."""
        self.file = _NO_FILE
        self.memory = None

    def close(self) -> None:
        """Closes the queue's folder and files; called by the view (`StoreView.remove`)."""
        self.leave_file()
        self.map_entries(None, 0)
        with NO_FORK:
            if self._folder is not None:
                self._folder.close()
            self._folder = self._reader = None
