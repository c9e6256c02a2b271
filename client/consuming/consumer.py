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
from ...store.errors import Corrupt, StoreError
from ...store.reading._columns import Columns
from ...store.reading.columns import COLUMNS, arrow, mask_of, to_batch
from ..errors import StoreClosed
from ..session import Connection
from .cursors import Cursor, Source, fill_from
from .message_view import MessageView

if TYPE_CHECKING:
    import pyarrow as pa

_Found = TypeVar("_Found")

# Asleep, a consumer looks this often whether a store that was killed still lives.
_TICK_S = 5.0

Start = Literal["earliest", "latest"] | int


class Consumer:
    """Reads queues of `topic` in the store in folder `store`, without asking any process for a
    message.

    `queues` are queue ids (default: all that may be read). `offset` is where to begin: "earliest",
    "latest", a queue offset, or a mapping from queue id to one of these; nothing comes from a queue
    that has not reached its offset yet. Belongs to the thread that made it: another one gets a
    RuntimeError.

    A reader of an old commit-log file says so to the store, which then keeps the file for a while
    when its time has come. Messages that went before they were read are passed over, as RocketMQ
    does (OFFSET_TOO_SMALL), and counted in `missed`.

    With `check_crc` every message is checked before it is handed out (BODYCRC, the record checksum
    where it has one, its structure): `poll` returns what is good before a damaged one, and raises
    Corrupt at it; `seek` behind it goes on. That costs several microseconds a message.

    Raises StoreClosed when no store runs there, IllegalMessage when the topic does not exist;
    `poll` TopicDeleted when it was deleted, also if there is a new one of that name.
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
        self._thread = threading.get_ident()
        self._link = Connection(store)
        try:
            self._source = Source(self._link, check_crc=check_crc)
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
        slots = self._link.request({"do": "open", "topic": topic, "write": False})["slots"]
        chosen = list(range(len(slots))) if queues is None else list(queues)
        for queue_id in chosen:
            if not 0 <= queue_id < len(slots):
                raise ValueError(
                    f"queue {queue_id} of topic {topic}: it has queues 0 to {len(slots) - 1}"
                )
        self._queues = [self._source.cursor(topic, i, slots[i], 0) for i in chosen]
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

    def _resolve(self, queue: Cursor, start: str | int) -> int:
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
        return self._until(lambda: self._take(max_messages), timeout)

    def poll_arrow(
        self,
        max_messages: int = 16_384,
        timeout: float = 0.0,
        *,
        columns: Iterable[str] = COLUMNS,
        max_bytes: int = 4 << 20,
    ) -> pa.RecordBatch:
        """As `poll`, but a pyarrow.RecordBatch: a row for each message, made without a Python
        object for any of them.

        `columns` are those wanted, in their order, out of those that `store/reading/columns.py`
        lists; what is not asked for costs nothing. At most `max_bytes` bytes of records make a
        batch: batches that fit into the CPU's caches are filled fastest. Without messages in time
        it has no rows.

        Raises ImportError without pyarrow (`pip install 'silomq[arrow]'`), ValueError for a column
        that there is not.
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
        """What `take` finds, as soon as that is something, or time is up."""
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
            self._source.relax()
            wait_any(self._words, seen, min(left, _TICK_S))

    def _take(self, limit: int) -> list[MessageView]:
        found: list[MessageView] = []
        for i in range(len(self._queues)):
            queue = self._queues[(self._turn + i) % len(self._queues)]
            if len(found) >= limit:
                break
            try:
                found += queue.read(limit - len(found))
            except Corrupt:
                if not found:  # else it is met again, when what was read is handed out
                    raise
        self._turn += 1
        return found

    def __iter__(self) -> Iterator[MessageView]:
        """Every message, for ever; ends when the store stops."""
        while True:
            try:
                found = self.poll(256, _TICK_S)
            except StoreClosed:
                return
            yield from found

    def seek(self, queue_id: int, offset: Start) -> None:
        """Goes on in a queue from another offset on."""
        queue = next((q for q in self._queues if q.queue_id == queue_id), None)
        if queue is None:
            raise StoreError(f"this consumer does not read queue {queue_id} of {self.topic}")
        queue.next = self._resolve(queue, offset)

    @property
    def missed(self) -> int:
        """Messages that the store removed before they were read here."""
        return sum(queue.missed for queue in self._queues)

    def positions(self) -> dict[int, int]:
        """The next queue offset of each queue."""
        return {queue.queue_id: queue.next for queue in self._queues}

    def lag(self) -> int:
        """Messages that were dispatched and not read yet."""
        return sum(max(0, queue.end.load() - queue.next) for queue in self._queues)

    def close(self) -> None:
        """Ends the session. Messages that were read stay readable."""
        self._link.close()
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
