"""`Consumer`: reads one or more queues of a topic from an offset on."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Literal, Self

from ..shm._words import MOST_WORDS, wait_any
from ..shm.control import StoreState
from ..store.disk import Folder
from ..store.errors import Corrupt, StoreError
from ..store.paths import COMMIT_LOG, CONSUME_QUEUE
from ..store.reading import LogReader, QueueReader
from .errors import StoreClosed
from .received import MessageView
from .session import Connection

_NO_FILE = 2**63

Start = Literal["earliest", "latest"] | int


class _Queue:
    """Where the consumer is in one queue."""

    def __init__(self, queue_id: int, slot: int, link: Connection) -> None:
        self.queue_id = queue_id
        self.slot = slot
        self.start = link.table.queue_word(slot, "min_offset")
        self.end = link.table.queue_word(slot, "max_offset")
        self.arrival = link.control.arrival(slot)
        self.next = 0
        self.file = _NO_FILE  # the commit-log file it was last read from, by offset
        self.reader: QueueReader | None = None


class Consumer:
    """Reads queues of `topic` in the store in folder `store`, without asking any process for a
    message.

    `queues` are queue ids (default: all that may be read). `offset` is where to begin: "earliest",
    "latest", a queue offset, or a mapping from queue id to one of these. Belongs to the thread that
    made it: another one gets a RuntimeError.

    A reader of an old commit-log file says so to the store, which then keeps the file for a while
    when its time has come. Messages that went before they were read are passed over, as RocketMQ
    does (OFFSET_TOO_SMALL), and counted in `missed`.

    With `check_crc` every message is checked before it is handed out (BODYCRC, the record checksum
    where it has one, its structure): `poll` returns what is good before a damaged one, and raises
    Corrupt at it; `seek` behind it goes on. That costs several microseconds a message.

    Raises StoreClosed when no store runs there, IllegalMessage when the topic does not exist.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        topic: str,
        *,
        queues: Iterable[int] | None = None,
        offset: Start | Mapping[int, Start] = "earliest",
        check_crc: bool = False,
    ) -> None:
        self.topic = topic
        self._check_crc = check_crc
        self.missed = 0
        self._leased = -1
        self._active_end = 0
        self._thread = threading.get_ident()
        self._folders: list[Folder] = []
        self._link = Connection(store)
        try:
            self._open(topic, queues, offset)
        except BaseException:
            self.close()
            raise

    def _open(
        self, topic: str, queues: Iterable[int] | None, offset: Start | Mapping[int, Start]
    ) -> None:
        config = self._link.config
        slots = self._link.request({"do": "open", "topic": topic, "write": False})["slots"]
        chosen = list(range(len(slots))) if queues is None else list(queues)
        for queue_id in chosen:
            if not 0 <= queue_id < len(slots):
                raise ValueError(
                    f"queue {queue_id} of topic {topic}: it has queues 0 to {len(slots) - 1}"
                )
        self._root = Folder.open(self._link.path)
        self._folders.append(self._root)
        self._queue_root = self._root.folder(CONSUME_QUEUE)
        log = self._root.folder(COMMIT_LOG)
        self._folders += [self._queue_root, log]
        self._log = LogReader(log, config.file_size_commit_log)
        self._wrote = self._link.control.word("wrote")
        self._queues = [_Queue(queue_id, slots[queue_id], self._link) for queue_id in chosen]
        for queue in self._queues:
            start = (
                offset.get(queue.queue_id, "earliest") if isinstance(offset, Mapping) else offset
            )
            queue.next = self._resolve(queue, start)
        self._turn = 0
        if len(self._queues) > MOST_WORDS:
            self._words = [self._link.control.word("dispatched")]
        else:
            self._link.request({"do": "watch", "slots": [queue.slot for queue in self._queues]})
            self._words = [queue.arrival for queue in self._queues]

    def _resolve(self, queue: _Queue, start: str | int) -> int:
        if start == "earliest":
            return queue.start.load()
        if start == "latest":
            return queue.end.load()
        if isinstance(start, int) and start >= 0:
            return start
        raise ValueError(f"offset {start!r}: 'earliest', 'latest' or a queue offset from 0 on")

    def poll(self, max_messages: int = 32, timeout: float = 0.0) -> list[MessageView]:
        """Up to `max_messages` messages, the queues in turn; waits up to `timeout` seconds for the
        first.

        Within a queue messages come in order and without a gap. Raises StoreClosed when the store
        stopped and all that it had was read.
        """
        if threading.get_ident() != self._thread:
            raise RuntimeError(
                "a Consumer belongs to the thread that made it: make one for each thread"
            )
        deadline = time.monotonic() + timeout
        while True:
            seen = [word.load() for word in self._words]  # SYNC: arrival observe
            found = self._take(max_messages)
            left = deadline - time.monotonic()
            if found or left <= 0:
                return found
            if not self._link.is_alive() or self._link.control.load("state") == StoreState.STOPPED:
                raise StoreClosed(
                    f"the store at {self._link.path} stopped; everything in it was read"
                )
            if self._leased >= 0:
                self._lease(-1)
            wait_any(self._words, seen, min(left, 1.0))

    def _take(self, limit: int) -> list[MessageView]:
        found: list[MessageView] = []
        for i in range(len(self._queues)):
            queue = self._queues[(self._turn + i) % len(self._queues)]
            if len(found) >= limit:
                break
            found += self._read(queue, limit - len(found))
        self._turn += 1
        return found

    def _read(self, queue: _Queue, limit: int) -> list[MessageView]:
        """Messages from where the queue is at, or from its least offset if that has moved on."""
        while True:
            least = queue.start.load()  # SYNC: queue-min observe
            if least > queue.next:
                self.missed += least - queue.next
                queue.next = least
            count = min(limit, queue.end.load() - queue.next)  # SYNC: queue-max observe
            if count <= 0:
                return []
            try:
                return self._read_files(queue, count)
            except FileNotFoundError:
                # The minima move before the files go: look at them again.
                if queue.start.load() <= queue.next:
                    raise

    def _read_files(self, queue: _Queue, count: int) -> list[MessageView]:
        """Messages of one commit-log file. Raises FileNotFoundError when it is gone, or the file of
        the queue.
        """
        if queue.reader is None:
            parent = self._queue_root.folder(self.topic)
            folder = parent.folder(str(queue.queue_id))
            parent.close()
            self._folders.append(folder)
            queue.reader = QueueReader(folder, self._link.config.file_size_consume_queue)
        first = queue.next
        entries = queue.reader.entries(first, count)
        end = queue.file + self._log.file_size
        if (
            not queue.file <= entries[0][0] <= entries[-1][0] < end
            or self._wrote.load() > self._active_end
        ):
            end = self._enter(queue, entries[0][0])
            entries = [entry for entry in entries if entry[0] < end]
        record = self._log.record
        found: list[MessageView] = []
        for i, (at, size, _) in enumerate(entries):
            try:
                view = MessageView(record(at, size), first + i)
                if self._check_crc:
                    view.check()
            except Corrupt as error:
                if found:
                    break
                raise Corrupt(f"{self._link.path}/{COMMIT_LOG}", at, error.why) from error
            found.append(view)
        queue.next = first + len(found)
        return found

    def _enter(self, queue: _Queue, at: int) -> int:
        """The queue goes on in another commit-log file, or the store does: the queue's file's end.

        An old file is leased, the one that is written needs no lease: it never goes.
        """
        size = self._log.file_size
        queue.file = at - at % size
        active = max(0, self._wrote.load() - 1) // size * size
        self._active_end = active + size
        files = [q.file for q in self._queues if q.file < active and q.next < q.end.load()]
        lowest = min(files, default=-1)
        if lowest != self._leased:
            self._lease(lowest)
        return queue.file + size

    def _lease(self, offset: int) -> None:
        """Tells the store which commit-log file is the oldest that is being read; -1: none."""
        self._leased = offset
        with contextlib.suppress(StoreClosed):  # then nobody cleans, and what is left can be read
            self._link.request({"do": "lease", "offset": None if offset < 0 else offset})

    def __iter__(self) -> Iterator[MessageView]:
        """Every message, for ever; ends when the store stops."""
        while True:
            try:
                found = self.poll(256, 1.0)
            except StoreClosed:
                return
            yield from found

    def seek(self, queue_id: int, offset: Start) -> None:
        """Goes on in a queue from another offset on."""
        queue = next((q for q in self._queues if q.queue_id == queue_id), None)
        if queue is None:
            raise StoreError(f"this consumer does not read queue {queue_id} of {self.topic}")
        queue.next = self._resolve(queue, offset)

    def positions(self) -> dict[int, int]:
        """The next queue offset of each queue."""
        return {queue.queue_id: queue.next for queue in self._queues}

    def lag(self) -> int:
        """Messages that were dispatched and not read yet."""
        return sum(max(0, queue.end.load() - queue.next) for queue in self._queues)

    def close(self) -> None:
        """Ends the session. Messages that were read stay readable."""
        self._link.close()
        while self._folders:
            self._folders.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
