"""`Consumer`: reads one or more queues of a topic from an offset on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeVar

from ...shm._words import MOST_WORDS, values, wait_any
from ...shm.bell import Reason
from ...shm.protocol.requests import Open, Watch
from ...store.errors import Corrupt, CorruptRange, IllegalArgument, IllegalUse
from ...store.reading._columns import Columns
from ...store.reading.columns import COLUMNS, ColumnName, arrow, to_batch
from .. import arguments
from .._bell import Bell
from ..errors import StoreClosed
from ..liveness import Liveness
from ..loop_reader import LoopReaders, wake_all
from ..session import Connection
from ..times import Start, parse_start
from .cursor import Cursor
from .fill_columns import fill_from
from .message_view import MessageView
from .start_times import first_since
from .store_view import StoreView
from .wanted_columns import WantedColumns

if TYPE_CHECKING:
    import pyarrow as pa

_Found = TypeVar("_Found")

#: A sleeping consumer checks this often (s) that the store is alive: a killed store wakes no
#: reader.
_TICK_S = 5.0
#: Iteration reads up to this many messages at once.
_BATCH = 256
#: More queues than any topic has.
_MOST_QUEUES = 1 << 16

Offset = Literal["earliest", "latest"] | int


class Consumer:
    """Reads queues of `topic` in the store in folder `store`, outside of any consumer group. It
    maps the store's files and asks no process for a message. RocketMQ's nearest class is
    `DefaultLitePullConsumer` with assigned queues.

    `queues` are queue ids (default: all queues that may be read). `offset` says where to begin:
    "earliest", "latest", a queue offset, or a mapping from queue id to one of these. Queues that
    the mapping leaves out begin at "earliest". A queue that has not reached its offset yet gives no
    messages until it has. `start` says it by time instead: in each queue the first message that was
    stored at that time or later. A time is a `datetime`, milliseconds since 1970, or text like
    "15min ago" or "2026-11-21 09:15" (the forms of `client/times.py`).

    A consumer belongs to the thread that made it; another thread gets IllegalUse. It is a context
    manager, and an iterable and an asynchronous iterable over all messages.

    While it reads an old commit-log file it holds a lease: the store keeps that file for a while
    after its retention time. Messages that were removed before they were read are skipped, as in
    RocketMQ (OFFSET_TOO_SMALL), and counted in `missed`.

    With `check_crc` every message is checked before it is returned: BODYCRC, the record checksum if
    it has one, and its structure. This costs several microseconds a message. `poll` returns the
    messages before a damaged one and then raises Corrupt. To continue after it, `seek` past it.

    Where `silo repair --holes` has declared that messages are lost, `poll` returns the messages
    before them and then raises CorruptRange, once for each hole of a queue. The next call goes on
    behind the hole.

    Raises StoreClosed when no store runs there, IllegalMessage when the topic does not exist,
    IllegalArgument for an unknown queue id or an illegal offset or time, IllegalType. `poll` raises
    TopicDeleted when the topic was deleted, even if there is a new topic of that name.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        topic: str,
        *,
        queues: Iterable[int] | None = None,
        offset: Offset | Mapping[int, Offset] | None = None,
        start: Start | None = None,
        check_crc: bool = False,
    ) -> None:
        check_crc = arguments.switch("check_crc", check_crc)
        self._topic = arguments.text("topic", topic)
        if queues is not None:
            queues = arguments.several("queues", queues, _MOST_QUEUES)
        if offset is not None and start is not None:
            raise IllegalArgument("offset and start: give one of them")
        if isinstance(offset, Mapping):
            offset = arguments.mapping("offset", offset, _MOST_QUEUES)
        first: Offset | Mapping[int, Offset] = "earliest" if offset is None else offset
        since = None
        if start is not None:
            begin = parse_start(start)
            if isinstance(begin, int):
                since = begin
            else:
                first = begin
        self._closed = False
        self._bell: Bell | None = None
        self._readers = LoopReaders(wake_all)
        self._thread = threading.get_ident()
        self._link = Connection(store, client="Consumer")
        self._liveness = Liveness(self._link)
        try:
            self._view = StoreView(self._link, check_crc=check_crc)
        except BaseException:
            self._link.close()
            raise
        try:
            self._open(self._topic, queues, first, since)
        except BaseException:
            self.close()
            raise

    def _open(
        self,
        topic: str,
        queues: list[int] | None,
        offset: Offset | Mapping[int, Offset],
        since: int | None,
    ) -> None:
        """Opens the queues at `offset`, or at the time `since` (epoch ms)."""
        slots = self._link.request(Open(topic, write=False)).slots
        chosen = list(range(len(slots))) if queues is None else self._chosen(queues, len(slots))
        if isinstance(offset, Mapping):
            offset = dict(zip(self._chosen(offset, len(slots)), offset.values(), strict=True))
        self._queues = [self._view.cursor(topic, i, slots[i], 0) for i in chosen]
        for queue in self._queues:
            if since is not None:
                queue.next = first_since(queue, since)
            elif isinstance(offset, Mapping):
                queue.next = self._resolve(queue, offset.get(queue.queue_id, "earliest"))
            else:
                queue.next = self._resolve(queue, offset)
        self._turn = 0
        if len(self._queues) > MOST_WORDS:
            self._words = [self._link.control.word("dispatched")]
        else:
            self._link.request(Watch([queue.slot for queue in self._queues]))
            self._words = [queue.arrival for queue in self._queues]

    def _chosen(self, queues: Iterable[int], count: int) -> list[int]:
        """The ids of queues. Raises IllegalArgument for one that the topic does not have, or that
        occurs twice.
        """
        found = [arguments.whole("queue", queue_id, -(2**63)) for queue_id in queues]
        for queue_id in found:
            if not 0 <= queue_id < count:
                raise IllegalArgument(
                    f"queue {queue_id} of topic {self._topic}: it has queues 0 to {count - 1}"
                )
        if len(set(found)) < len(found):
            raise IllegalArgument("queues: one of them is named twice")
        return found

    def _resolve(self, queue: Cursor, offset: Offset) -> int:
        """The queue offset that `offset` means now. Raises IllegalArgument, IllegalType."""
        at = arguments.offset(offset)
        if isinstance(at, int):
            return at
        return (queue.start if at == "earliest" else queue.end).load()

    @property
    def topic(self) -> str:
        """The topic that is read."""
        return self._topic

    def poll(self, max_messages: int = 32, timeout: float | None = 0.0) -> list[MessageView]:
        """Up to `max_messages` messages, from the queues in turn. Waits up to `timeout` seconds for
        the first one (None: without limit); returns an empty list when none came in that time.

        Within a queue messages come in order and without a gap. Raises StoreClosed when the store
        stopped and everything in it was read, TopicDeleted when the topic was deleted. Raises
        Corrupt at a damaged message and CorruptRange at a declared hole, after the messages before
        it were returned.
        """
        max_messages = arguments.whole("max_messages", max_messages, 1)
        return self._until(lambda: self._take(max_messages), timeout)

    def poll_arrow(
        self,
        max_messages: int = 16_384,
        timeout: float | None = 0.0,
        *,
        columns: Iterable[ColumnName] = COLUMNS,
        max_bytes: int = 4 << 20,
        raw_bodies: bool = False,
        body_views: bool = False,
    ) -> pa.RecordBatch:
        """As `poll`, but a pyarrow.RecordBatch with one row for each message. No Python object is
        made for any message. pyarrow ships no types, so a type checker sees Any.

        `columns` are the names of the columns wanted, in that order; `store/reading/columns.py`
        lists them all with their types. A column that is not asked for costs nothing. A batch ends
        when its records reach `max_bytes` bytes: batches that fit into the CPU's caches are filled
        fastest. A batch without rows means that no message came in time.

        Bodies that a producer compressed are decompressed, unless `raw_bodies` is set. One that
        cannot be decompressed is null, and a warning in the log `silomq` says which one.

        With `body_views` bodies are not copied: `body` has the type binary_view, 16 bytes a row
        that point into the mapped log. Polars, DuckDB and others that read Arrow take it as it is.
        The batch keeps its log files mapped, also after `close`. If the store removes such a file,
        its space becomes free when the last batch of it is gone.

        Raises as `poll`; ImportError without pyarrow (`pip install 'silomq[arrow]'`),
        IllegalArgument for an unknown column.
        """
        arrow()
        wanted = WantedColumns.of(
            columns, max_messages, max_bytes, raw_bodies=raw_bodies, body_views=body_views
        )

        def fill() -> Columns | None:
            filled = wanted.empty()
            turn = self._turn % max(1, len(self._queues))
            self._turn += 1
            queues = self._queues[turn:] + self._queues[:turn]
            fill_from(queues, filled, wanted.rows, None, wanted.size)
            return filled if filled.rows else None

        return to_batch(self._until(fill, timeout) or wanted.empty(), wanted.names)

    def _until(self, take: Callable[[], _Found], timeout: float | None) -> _Found:
        """Calls `take` until it finds something, or `timeout` seconds have passed. Returns what
        `take` found last. Sleeps between two calls.
        """
        self._link.check_process()
        self._check_thread()
        deadline = time.monotonic() + arguments.seconds("timeout", timeout)
        if self._closed:
            raise StoreClosed("this consumer is closed")
        rests, is_over = self._bell is not None, False
        while True:
            seen = values(self._words)  # SYNC: arrival observe
            try:
                found = take()
            except CorruptRange as hole:
                next(q for q in self._queues if q.queue_id == hole.queue_id).pass_hole(hole)
                raise
            left = deadline - time.monotonic()
            if found or (left <= 0 and not rests):
                return found
            if left <= 0:
                rests = False
                self._rest()
                continue
            try:
                longest = self._liveness.patience(_TICK_S)
            except StoreClosed:
                if is_over:
                    raise
                is_over = True  # something may have come since it was looked for
                continue
            if values(self._words) == seen:  # otherwise there is something to read: keep its lease
                self._view.release_lease()
            wait_any(self._words, seen, min(left, longest))

    def _rest(self) -> None:
        """Arms the bell, because nothing was found; the caller looks once more. Raises StoreClosed
        when the store has stopped.
        """
        assert self._bell is not None
        if not self._bell.drain():
            self._liveness.check()
        self._view.release_lease()
        self._bell.arm(Reason.ARRIVALS | Reason.NOTICES)

    def _check_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise IllegalUse(
                "a Consumer belongs to the thread that made it: make one for each thread"
            )

    def _take(self, limit: int) -> list[MessageView]:
        """Up to `limit` messages that are available now. Each call begins with another queue."""
        found: list[MessageView] = []
        for i in range(len(self._queues)):
            queue = self._queues[(self._turn + i) % len(self._queues)]
            if len(found) >= limit:
                break
            try:
                found += queue.read(limit - len(found))
            except (Corrupt, CorruptRange):
                if not found:  # otherwise a later call raises it
                    raise
        self._turn += 1
        return found

    def __iter__(self) -> Iterator[MessageView]:
        """All messages, without end: waits for new ones. Ends when the store stops. Raises as
        `poll`, except StoreClosed. After CorruptRange a new iteration goes on behind the hole.
        """
        while True:
            try:
                found = self.poll(_BATCH, _TICK_S)
            except StoreClosed:
                return
            yield from found

    async def __aiter__(self) -> AsyncIterator[MessageView]:
        """Asynchronous iteration, otherwise as iteration. It waits in the event loop, without a
        thread. The loop must run in the thread that made this consumer. A task may be cancelled
        while it waits: no message is lost by that.
        """
        import asyncio  # loaded here, because it would slow down the start of every client

        while True:
            await asyncio.sleep(0)  # other tasks have their turn, also while messages come and come
            try:
                fd = self.fileno()
                while not (found := self.poll(_BATCH)):
                    await self._readers.readable(fd)
            except StoreClosed:
                return
            for message in found:
                yield message

    def fileno(self) -> int:
        """A descriptor for select, poll, epoll or an event loop: readable when there may be
        messages, or the store has stopped, or the topic was deleted.

        After a `poll` that returned nothing it is readable again when there may be something new.
        It may be readable without that, and is at first. It stays the same until `close`. Raises
        StoreClosed; IllegalMessage and TooManyOpenFiles when descriptors are short.
        """
        self._link.check_process()
        self._check_thread()
        if self._bell is None:
            bell = self._link.own_bell()
            for queue in self._queues:
                bell.watch(queue.slot)
            self._bell = bell
        return self._bell.fd

    def seek(self, queue_id: int, offset: Offset) -> None:
        """Continues in queue `queue_id` at another offset: a queue offset, "earliest" or "latest".
        Raises IllegalArgument for a queue that this consumer does not read, or a bad offset.
        """
        self._link.check_process()
        self._check_thread()
        queue_id = arguments.whole("queue_id", queue_id)
        queue = next((q for q in self._queues if q.queue_id == queue_id), None)
        if queue is None:
            raise IllegalArgument(f"this consumer does not read queue {queue_id} of {self.topic}")
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
        self._link.check_process()
        return sum(max(0, queue.end.load() - queue.next) for queue in self._queues)

    def close(self) -> None:
        """Ends the session. Messages that were read stay readable."""
        self._closed = True
        self._readers.close()
        self._link.close()
        self._view.close()

    __reduce_ex__ = arguments.no_copy

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
