"""`StoreReader`: reads and look-ups in a running store, with RocketMQ's semantics."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Concatenate, Final, ParamSpec, Self, TypeAlias, TypeVar

from ...store.errors import Corrupt, IllegalQuery, MessageNotFound
from ...store.index import key_lookup
from ...store.reading import get_message
from ...store.reading.running_store import ServedQueue
from ...store.record.fields import head_of
from ...store.record.format import MIN_RECORD_BYTES
from ...store.record.ids import decode_offset_message_id
from ...store.status import GetMessageStatus
from ..consuming.message_view import MessageView
from .open_store import FOREVER, OpenStore, check_limit, check_number
from .queue_times import Boundary, QueueTimes

#: RocketMQ's PermName.PERM_READ.
_READABLE: Final = 4

#: What `get_message` takes as a filter: an object with `codes` and `matches`
#: (`get_message.Filter`).
MessageFilter: TypeAlias = get_message.Filter[MessageView]


@dataclass(frozen=True, slots=True)
class GetMessageResult:
    """What one read of a queue gave (RocketMQ's class of that name).

    `messages` are in the order of the queue; there are none unless `status` is FOUND. The next read
    begins at queue offset `next_begin_offset`. The queue held the queue offsets from `min_offset`
    up to, and without, `max_offset`.
    """

    status: GetMessageStatus
    messages: list[MessageView]
    next_begin_offset: int
    min_offset: int
    max_offset: int


_P = ParamSpec("_P")
_T = TypeVar("_T")


def _in_turn(
    method: Callable[Concatenate[StoreReader, _P], _T],
) -> Callable[Concatenate[StoreReader, _P], _T]:
    """Makes threads take turns, because the open queues and mapped files are shared."""

    @functools.wraps(method)
    def locked(self: StoreReader, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        with self._lock:
            return method(self, *args, **kwargs)

    return locked


class StoreReader:
    """Looks up messages in the store in folder `store` (RocketMQ: the queries of `MessageStore`).
    It maps the store's files and asks no process for a message. It sees the messages that reput has
    dispatched. Threads may share a reader: they take turns. It is a context manager.

    A caller may read a queue from front to back, each time at the `next_begin_offset` of the last
    result. It then holds a lease as a `Consumer` does: the store keeps the old commit-log file that
    is read for a while after its retention time.

    All methods raise:

    - IllegalQuery for illegal arguments: an unknown topic, a queue or an offset out of range, a
      negative or future time, a malformed id, a limit below 1;
    - MessageNotFound for a message that is not there;
    - Corrupt for damaged bytes;
    - StoreClosed when the store does not run.
    """

    def __init__(self, store: str | os.PathLike[str]) -> None:
        self._lock = threading.RLock()
        self._store = OpenStore(store)
        self._log = self._store.log
        self._times = QueueTimes(self._log)
        self._goes_on = ("", 0, 0)  # topic, queue id and offset that continue the last read

    # -- a queue, from an offset on

    @_in_turn
    def get_message(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int = 32,
        *,
        max_bytes: int = get_message.MOST_BYTES,
        filter: MessageFilter | None = None,  # noqa: A002 - RocketMQ's word for it
    ) -> GetMessageResult:
        """Reads a queue from queue offset `offset` on (RocketMQ: `DefaultMessageStore.getMessage`,
        with its statuses and next offsets).

        The result has up to `max_messages` messages, with records of up to `max_bytes` bytes
        together but at least one message, and never more than the store's transfer limits allow.
        `filter` chooses among them; `silomq.MessageFilter` says how. A queue id that the topic does
        not have gives the status NO_MATCHED_LOGIC_QUEUE.
        """
        check_number("offset", offset)
        check_number("queue_id", queue_id)
        check_limit("max_messages", max_messages)
        check_limit("max_bytes", max_bytes)
        found = self._store.topic(topic)
        if not found.perm & _READABLE:
            raise IllegalQuery(f"topic {topic} may not be read (perm {found.perm})")
        if queue_id >= len(found.slots):
            return GetMessageResult(GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, [], 0, 0, 0)
        queue = self._store.queue(topic, queue_id)
        while True:
            least, end = queue.least, queue.end
            verdict = get_message.judge(offset, least, end)
            if verdict is not None:
                return GetMessageResult(verdict[0], [], verdict[1], least, end)
            try:
                entries = queue.entries(
                    offset, min(end - offset, get_message.scan_count(max_messages))
                )
                break
            except FileNotFoundError:
                queue.check_topic()
                if queue.least > offset:
                    continue  # clean raises the least offset, then removes the file: look again
                behind = get_message.next_queue_file(offset, queue.file_size)
                status = GetMessageStatus.OFFSET_FOUND_NULL
                return GetMessageResult(status, [], behind, least, end)
        if (topic, queue_id, offset) == self._goes_on:
            self._store.lease(entries[0][0])
        batch = get_message.collect(
            entries,
            self._log.part,
            MessageView,
            offset=offset,
            most=max_messages,
            max_bytes=max_bytes,
            transfer=self._store.transfer,
            log_end=self._log.end,
            file_size=self._log.file_size,
            path=self._log.path,
            wanted=filter,
        )
        self._goes_on = (topic, queue_id, batch.next)
        return GetMessageResult(batch.status, batch.messages, batch.next, least, end)

    @_in_turn
    def at(self, topic: str, queue_id: int, queue_offset: int) -> MessageView:
        """The message at queue offset `queue_offset`, checked as by `MessageView.check`."""
        check_number("queue_offset", queue_offset)
        queue = self._store.queue(topic, queue_id)
        return queue.patiently(lambda: self._at(queue, queue_offset))

    def _at(self, queue: ServedQueue, offset: int) -> MessageView:
        least, end = queue.least, queue.end
        if not least <= offset < end:
            has = f"offsets {least} to {end - 1}" if least < end else "no messages"
            removed = " (older ones were removed)" if offset < least else ""
            raise IllegalQuery(f"{queue} has {has}{removed}: there is no offset {offset}")
        at, size, _ = queue.entry(offset)
        record = self._log.part(at, size)
        if record is None:
            raise MessageNotFound(f"message {offset} of {queue} was just removed")
        view = MessageView(record, offset)
        try:
            view.check()
        except Corrupt as error:
            raise Corrupt(self._log.path, at, error.why) from error
        return view

    # -- by address, id and key

    @_in_turn
    def look_at(self, physical_offset: int) -> MessageView:
        """The message whose record begins at commit-log offset `physical_offset`, in bytes
        (RocketMQ: `lookMessageByOffset`).
        """
        self._store.check_open()
        check_number("physical_offset", physical_offset)
        least, end = self._log.least, self._log.end
        if physical_offset >= end:
            raise IllegalQuery(
                f"the commit log ends at {end}: there is no offset {physical_offset}"
            )
        if physical_offset < least:
            raise MessageNotFound(
                f"the commit log begins at {least}: what was at {physical_offset} was removed"
            )
        found = self._message(physical_offset)
        if found is None:
            raise MessageNotFound(f"no message begins at commit-log offset {physical_offset}")
        return found

    @_in_turn
    def by_offset_message_id(self, message_id: str) -> MessageView:
        """The message with this offset message id: 32 hex digits, or 56 with an IPv6 host, of store
        host and commit-log offset (RocketMQ: `MQAdmin.viewMessage`).
        """
        try:
            host, offset = decode_offset_message_id(message_id)
        except ValueError as error:
            raise IllegalQuery(str(error)) from error
        found = self.look_at(offset)
        if found.store_host != host:
            raise MessageNotFound(
                f"message id {message_id} names a message of {host}; the one at commit-log offset "
                f"{offset} here is {found.offset_message_id} of {found.store_host}"
            )
        return found

    @_in_turn
    def by_unique_key(self, topic: str, key: str) -> list[MessageView]:
        """The messages of a topic with this UNIQ_KEY (`MessageView.message_id`), oldest first.
        There are several if the producer sent the message again.
        """
        self._store.topic(topic)
        query = self._key_query(topic, key, FOREVER, 0, FOREVER)
        return key_lookup.matching(self._store.index_files(), query, self._message, unique=True)

    @_in_turn
    def by_key(
        self,
        topic: str,
        key: str,
        max: int = 32,  # noqa: A002 - RocketMQ's word for it
        begin_ms: int = 0,
        end_ms: int = FOREVER,
        *,
        rocketmq: bool = False,
    ) -> list[MessageView]:
        """The newest `max` messages of a topic that have this key (one of KEYS, or the UNIQ_KEY)
        and were stored from `begin_ms` to `end_ms` (epoch ms, both included), oldest first.

        With `rocketmq` the answer is that of RocketMQ's `DefaultMessageStore.queryMessage`. Times
        count in whole seconds, and at most `max_msgs_num_batch` messages are returned. Messages of
        other keys with the same hash are among them, and an unknown topic has no messages.
        """
        if not rocketmq:
            self._store.topic(topic)
        query = self._key_query(topic, key, max, begin_ms, end_ms)
        if rocketmq:
            cap = self._store.transfer.batch
            return key_lookup.rocketmq_messages(
                self._store.index_files(), query, cap, self._message
            )

        def at(offset: int) -> MessageView | None:
            """Reads the store time first: in a long chain most messages lie outside a narrow
            window, and their records need not be read.
            """
            stored = self._log.store_time(offset, MIN_RECORD_BYTES)
            return self._message(offset) if begin_ms <= stored <= end_ms else None

        return key_lookup.matching(self._store.index_files(), query, at)

    def _key_query(
        self, topic: str, key: str, most: int, begin_ms: int, end_ms: int
    ) -> key_lookup.KeyQuery:
        self._store.check_open()
        if not key:
            raise IllegalQuery("an empty key: no message has it")
        check_limit("max", most)
        self._store.check_time("begin_ms", begin_ms)
        check_number("end_ms", end_ms)
        if end_ms < begin_ms:
            raise IllegalQuery(f"end_ms {end_ms} is before begin_ms {begin_ms}")
        return key_lookup.KeyQuery(topic, key, most, begin_ms, end_ms)

    def _message(self, at: int) -> MessageView | None:
        record = self._log.record_at(at)
        if record is None:
            return None
        return MessageView(record, head_of(record).queue_offset)

    # -- offsets and times

    @_in_turn
    def offset_at_time(
        self,
        topic: str,
        queue_id: int,
        timestamp_ms: int,
        boundary: Boundary = "lower",
        *,
        rocketmq: bool = False,
    ) -> int:
        """The queue offset that belongs to a store time, `timestamp_ms` (epoch ms).

        With the boundary "lower" (RocketMQ 5's `BoundaryType`) this is the offset of the first
        message stored then or later, or the queue's end if there is none. With "upper" it is that
        of the last message stored then or earlier; MessageNotFound if there is none.

        With `rocketmq` the answer is that of RocketMQ 4's `getOffsetInQueueByTime`, which has no
        boundary. It is the nearest message in the first queue file modified at that time or later,
        and 0 for an unknown queue.
        """
        if boundary not in ("lower", "upper"):
            raise IllegalQuery(f"boundary {boundary!a}: 'lower' or 'upper'")
        if rocketmq:
            return self._rocketmq_offset(topic, queue_id, timestamp_ms, boundary)
        queue = self._store.queue(topic, queue_id)
        self._store.check_time("timestamp_ms", timestamp_ms)
        found = queue.patiently(lambda: self._times.offset_at(queue, timestamp_ms, boundary))
        if found < 0:
            raise MessageNotFound(f"{queue} has no message stored at {timestamp_ms} or before")
        return found

    def _rocketmq_offset(self, topic: str, queue_id: int, timestamp: int, boundary: str) -> int:
        self._store.check_open()
        check_number("timestamp_ms", timestamp)
        if boundary != "lower":
            raise IllegalQuery("RocketMQ 4 knows no boundary: leave it out with rocketmq=True")
        queue = self._store.queue_if_any(topic, queue_id)
        if queue is None:
            return 0
        return queue.patiently(lambda: self._times.rocketmq_offset(queue, timestamp))

    @_in_turn
    def min_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset of the first message that is still there."""
        return self._store.queue(topic, queue_id).least

    @_in_turn
    def max_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset behind the last dispatched message."""
        return self._store.queue(topic, queue_id).end

    @_in_turn
    def earliest_time(self, topic: str, queue_id: int) -> int | None:
        """The store time (epoch ms) of a queue's first message; None for an empty queue."""
        queue = self._store.queue(topic, queue_id)

        def earliest() -> int | None:
            least = queue.least
            return self._times.time_of(queue, least) if least < queue.end else None

        return queue.patiently(earliest)

    def min_physical_offset(self) -> int:
        """The offset (bytes) at which the commit log begins now."""
        self._store.check_open()
        return self._log.least

    def max_physical_offset(self) -> int:
        """The offset (bytes) at which the commit log ends now."""
        self._store.check_open()
        return self._log.end

    @_in_turn
    def earliest_store_time(self) -> int | None:
        """The store time (epoch ms) of the commit log's first message; None for an empty log."""
        self._store.check_open()
        while True:
            least = self._log.least
            found = self._message(least)
            if found is not None:
                return found.store_timestamp
            if self._log.least == least:
                return None

    @_in_turn
    def close(self) -> None:
        """Ends the session. Messages that were read stay readable."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
