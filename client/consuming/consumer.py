"""`Consumer`: reads one or more queues of a topic from an offset on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeVar

from ...shm._words import MOST_WORDS, wait_any
from ...shm.control import StoreState
from ...shm.protocol.requests import Open, Watch
from ...store.errors import Corrupt, StoreError
from ...store.reading._columns import Columns
from ...store.reading.columns import COLUMNS, ColumnName, arrow, mask_of, to_batch
from ..errors import StoreClosed
from ..session import Connection
from .cursors import Cursor, StoreView, fill_from
from .message_view import MessageView

if TYPE_CHECKING:
    import pyarrow as pa

_Found = TypeVar("_Found")

#: A sleeping consumer checks this often (s) that the store is alive: a killed store wakes no
#: reader.
_TICK_S = 5.0
#: Iteration reads up to this many messages at once.
_BATCH = 256

Start = Literal["earliest", "latest"] | int


class Consumer:
    """Reads queues of `topic` in the store in folder `store`, outside of any consumer group. It
    maps the store's files and asks no process for a message. RocketMQ's nearest class is
    `DefaultLitePullConsumer` with assigned queues.

    `queues` are queue ids (default: all queues that may be read). `offset` says where to begin:
    "earliest", "latest", a queue offset, or a mapping from queue id to one of these. Queues that
    the mapping leaves out begin at "earliest". A queue that has not reached its offset yet gives no
    messages until it has.

    A consumer belongs to the thread that made it; another thread gets a RuntimeError. It is a
    context manager, and an iterable over all messages.

    While it reads an old commit-log file it holds a lease: the store keeps that file for a while
    after its retention time. Messages that were removed before they were read are skipped, as in
    RocketMQ (OFFSET_TOO_SMALL), and counted in `missed`.

    With `check_crc` every message is checked before it is returned: BODYCRC, the record checksum if
    it has one, and its structure. This costs several microseconds a message. `poll` returns the
    messages before a damaged one and then raises Corrupt. To continue after it, `seek` past it.

    Raises StoreClosed when no store runs there, IllegalMessage when the topic does not exist,
    ValueError for an unknown queue id or an illegal offset. `poll` raises TopicDeleted when the
    topic was deleted, even if there is a new topic of that name.
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
        self._topic = topic
        self._thread = threading.get_ident()
        self._link = Connection(store)
        try:
            self._view = StoreView(self._link, check_crc=check_crc)
        except BaseException:
            self._link.close()
            raise
        try:
            self._open(topic, queues, offset)
        except BaseException:
            self.close()
            raise

    def _open(
        self, topic: str, queues: Iterable[int] | None, offset: Start | Mapping[int, Start]
    ) -> None:
        slots = self._link.request(Open(topic, write=False)).slots
        chosen = list(range(len(slots))) if queues is None else list(queues)
        for queue_id in chosen:
            if not 0 <= queue_id < len(slots):
                raise ValueError(
                    f"queue {queue_id} of topic {topic}: it has queues 0 to {len(slots) - 1}"
                )
        self._queues = [self._view.cursor(topic, i, slots[i], 0) for i in chosen]
        for queue in self._queues:
            start = (
                offset.get(queue.queue_id, "earliest") if isinstance(offset, Mapping) else offset
            )
            queue.next = self._resolve(queue, start)
        self._turn = 0
        if len(self._queues) > MOST_WORDS:
            self._words = [self._link.control.word("dispatched")]
        else:
            self._link.request(Watch([queue.slot for queue in self._queues]))
            self._words = [queue.arrival for queue in self._queues]

    def _resolve(self, queue: Cursor, start: str | int) -> int:
        """The queue offset that `start` means now. Raises ValueError."""
        if start == "earliest":
            return queue.start.load()
        if start == "latest":
            return queue.end.load()
        if isinstance(start, int) and start >= 0:
            return start
        raise ValueError(f"offset {start!r}: 'earliest', 'latest' or a queue offset from 0 on")

    @property
    def topic(self) -> str:
        """The topic that is read."""
        return self._topic

    def poll(self, max_messages: int = 32, timeout: float = 0.0) -> list[MessageView]:
        """Up to `max_messages` messages, from the queues in turn. Waits up to `timeout` seconds for
        the first one; returns an empty list when none came in that time.

        Within a queue messages come in order and without a gap. Raises StoreClosed when the store
        stopped and everything in it was read, TopicDeleted when the topic was deleted, and Corrupt
        at a damaged message after the messages before it were returned.
        """
        return self._until(lambda: self._take(max_messages), timeout)

    def poll_arrow(
        self,
        max_messages: int = 16_384,
        timeout: float = 0.0,
        *,
        columns: Iterable[ColumnName] = COLUMNS,
        max_bytes: int = 4 << 20,
    ) -> pa.RecordBatch:
        """As `poll`, but a pyarrow.RecordBatch with one row for each message. No Python object is
        made for any message. pyarrow ships no types, so a type checker sees Any.

        `columns` are the names of the columns wanted, in that order; `store/reading/columns.py`
        lists them all with their types. A column that is not asked for costs nothing. A batch ends
        when its records reach `max_bytes` bytes: batches that fit into the CPU's caches are filled
        fastest. A batch without rows means that no message came in time.

        Raises as `poll`; ImportError without pyarrow (`pip install 'silomq[arrow]'`), ValueError
        for an unknown column.
        """
        arrow()
        names = tuple(columns)
        mask = mask_of(names)

        def fill() -> Columns | None:
            filled = Columns(mask)
            turn = self._turn % max(1, len(self._queues))
            self._turn += 1
            queues = self._queues[turn:] + self._queues[:turn]
            fill_from(queues, filled, max_messages, None, max_bytes)
            return filled if filled.rows else None

        return to_batch(self._until(fill, timeout) or Columns(mask), names)

    def _until(self, take: Callable[[], _Found], timeout: float) -> _Found:
        """Calls `take` until it finds something, or `timeout` seconds have passed. Returns what
        `take` found last. Sleeps between two calls.
        """
        if threading.get_ident() != self._thread:
            raise RuntimeError(
                "a Consumer belongs to the thread that made it: make one for each thread"
            )
        deadline = time.monotonic() + timeout
        while True:
            seen = [word.load() for word in self._words]  # SYNC: arrival observe
            found = take()
            left = deadline - time.monotonic()
            if found or left <= 0:
                return found
            if not self._link.is_alive() or self._link.control.load("state") == StoreState.STOPPED:
                raise StoreClosed(
                    f"the store at {self._link.path} stopped; everything in it was read"
                )
            self._view.release_lease()
            wait_any(self._words, seen, min(left, _TICK_S))

    def _take(self, limit: int) -> list[MessageView]:
        """Up to `limit` messages that are available now. Each call begins with another queue."""
        found: list[MessageView] = []
        for i in range(len(self._queues)):
            queue = self._queues[(self._turn + i) % len(self._queues)]
            if len(found) >= limit:
                break
            try:
                found += queue.read(limit - len(found))
            except Corrupt:
                if not found:  # otherwise the next call raises it
                    raise
        self._turn += 1
        return found

    def __iter__(self) -> Iterator[MessageView]:
        """All messages, without end: waits for new ones. Ends when the store stops. Raises as
        `poll`, except StoreClosed.
        """
        while True:
            try:
                found = self.poll(_BATCH, _TICK_S)
            except StoreClosed:
                return
            yield from found

    def seek(self, queue_id: int, offset: Start) -> None:
        """Continues in queue `queue_id` at another offset: a queue offset, "earliest" or "latest".
        Raises StoreError for a queue that this consumer does not read, ValueError for a bad offset.
        """
        queue = next((q for q in self._queues if q.queue_id == queue_id), None)
        if queue is None:
            raise StoreError(f"this consumer does not read queue {queue_id} of {self.topic}")
        queue.next = self._resolve(queue, offset)

    @property
    def missed(self) -> int:
        """The number of messages that the store removed before they were read here."""
        return sum(queue.missed for queue in self._queues)

    def positions(self) -> dict[int, int]:
        """Queue id -> queue offset of the next message of that queue."""
        return {queue.queue_id: queue.next for queue in self._queues}

    def lag(self) -> int:
        """The number of messages in these queues that were dispatched and not read yet."""
        return sum(max(0, queue.end.load() - queue.next) for queue in self._queues)

    def close(self) -> None:
        """Ends the session. Messages that were read stay readable."""
        self._link.close()
        self._view.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
