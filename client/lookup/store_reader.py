"""`StoreReader`: reads and look-ups in a running store with RocketMQ's semantics."""

from __future__ import annotations

import errno
import functools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Concatenate, Final, Literal, ParamSpec, Self, TypeAlias, TypeVar

from ...store.consumequeue import time_lookup
from ...store.consumequeue.queue import ENTRY_SIZE
from ...store.errors import Corrupt, IllegalQuery, MessageNotFound
from ...store.index import key_lookup
from ...store.reading import get_message
from ...store.reading.running_store import ServedQueue
from ...store.record.format import MIN_RECORD_BYTES
from ...store.record.ids import decode_offset_message_id
from ...store.status import GetMessageStatus
from ..consuming.message_view import MessageView
from .open_store import FOREVER, ServedStore, check_limit, check_number

_READABLE: Final = 4

Boundary = Literal["lower", "upper"]


#: What `get_message` takes as a filter.
MessageFilter: TypeAlias = get_message.Filter[MessageView]


@dataclass(frozen=True, slots=True)
class GetMessageResult:
    """What a read of a queue gave. `messages` are in order; a status other than FOUND has none.
    Go on at `next_begin_offset`. The queue held [min_offset, max_offset).
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
    """One thread at a time: what is mapped, and for which queues, is common to all."""

    @functools.wraps(method)
    def locked(self: StoreReader, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        with self.lock:
            return method(self, *args, **kwargs)

    return locked


class StoreReader:
    """Answers from the store in folder `store`, by mapping its files: no process is asked for a
    message. It sees what has been dispatched. Threads may share it: they take turns.

    Who reads a queue on and on, each time from the `next_begin_offset` of the last, has the old
    commit-log file in which that is kept for a while when its time has come, as a `Consumer` has.

    A question that makes no sense (unknown topic, queue or offset out of range, negative or future
    time, malformed id, a limit below 1) raises IllegalQuery, a message that is not there
    MessageNotFound, bad bytes Corrupt, a store that does not run StoreClosed.
    """

    def __init__(self, store: str | os.PathLike[str]) -> None:
        self.lock = threading.RLock()
        self._store = ServedStore(store)
        self._log = self._store.log
        self._goes_on = ("", 0, 0)  # what a read that goes on asks for

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
        """Up to `max_messages` messages of a queue from queue offset `offset` on, up to `max_bytes`
        bytes of records (but at least one message), and no more than the store's transfer limits
        allow: RocketMQ's getMessage, with its statuses and next offsets.

        A queue that the topic does not have is NO_MATCHED_LOGIC_QUEUE.
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
                    continue  # clean moves the beginning, then removes the file: look again
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
        """The message at a queue offset."""
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
        """The message whose record begins at an address of the commit log."""
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
        """The message with an offset message id (32 or 56 hex digits: store host and commit-log
        offset).
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
        """The messages with a UNIQ_KEY, oldest first: one, or more where it was sent again."""
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
        """The newest `max` messages that have a key (one of KEYS, or the UNIQ_KEY) and were stored
        in [begin_ms, end_ms] (epoch ms), oldest first.

        With `rocketmq` what RocketMQ's store answers: times in whole seconds, at most
        `max_msgs_num_batch`, messages of other keys with the same hash, and nothing for an unknown
        topic.
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
            """Most of a long chain lies outside a narrow window: its records stay unread."""
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
        return MessageView(record, int.from_bytes(record[20:28], "big"))

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
        """The queue offset of the first message stored at `timestamp_ms` (epoch ms) or later
        ("lower"; the queue's end without one), or of the last one stored then or earlier ("upper";
        MessageNotFound without one).

        With `rocketmq` what RocketMQ 4's getOffsetInQueueByTime answers, which knows no boundary:
        the nearest in the first file modified at that time or later; 0 for an unknown queue.
        """
        if boundary not in ("lower", "upper"):
            raise IllegalQuery(f"boundary {boundary!a}: 'lower' or 'upper'")
        if rocketmq:
            return self._rocketmq_offset(topic, queue_id, timestamp_ms, boundary)
        queue = self._store.queue(topic, queue_id)
        self._store.check_time("timestamp_ms", timestamp_ms)
        found = queue.patiently(lambda: self._search(queue, timestamp_ms, boundary))
        if found < 0:
            raise MessageNotFound(f"{queue} has no message stored at {timestamp_ms} or before")
        return found

    def _search(self, queue: ServedQueue, timestamp: int, boundary: Boundary) -> int:
        """-1: none. Raises FileNotFoundError when the queue's beginning went meanwhile."""
        low, high = queue.least, queue.end

        def time_of(offset: int) -> int:
            return self._time(queue, offset)

        if boundary == "lower":
            return time_lookup.first_since(time_of, low, high, timestamp)
        found = time_lookup.last_until(time_of, low, high, timestamp)
        return found if found >= low else -1

    def _time(self, queue: ServedQueue, offset: int) -> int:
        """Store time of a message. Raises FileNotFoundError when it was removed."""
        at, size, _ = queue.entry(offset)
        stored = self._log.store_time(at, size)
        if stored == time_lookup.BEFORE_LOG:
            raise FileNotFoundError(errno.ENOENT, "removed", f"{self._log.path}, offset {at}")
        if stored < 0:
            raise Corrupt(self._log.path, at, f"no record of {size} bytes, as {queue} says")
        return stored

    def _rocketmq_offset(self, topic: str, queue_id: int, timestamp: int, boundary: str) -> int:
        self._store.check_open()
        check_number("timestamp_ms", timestamp)
        if boundary != "lower":
            raise IllegalQuery("RocketMQ 4 knows no boundary: leave it out with rocketmq=True")
        queue = self._store.queue_if_any(topic, queue_id)
        if queue is None:
            return 0

        def time_at(file: time_lookup.QueueFile, position: int) -> int:
            at, size, _ = queue.entry((file.base + position) // ENTRY_SIZE)
            return self._log.store_time(at, size)

        return queue.patiently(
            lambda: time_lookup.rocketmq_offset(
                queue.files(), queue.least * ENTRY_SIZE, timestamp, time_at
            )
        )

    @_in_turn
    def min_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset of the first message that is still there."""
        return self._store.queue(topic, queue_id).least

    @_in_turn
    def max_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset behind the last dispatched message."""
        return self._store.queue(topic, queue_id).end

    @_in_turn
    def earliest_time(self, topic: str, queue_id: int) -> int | None:
        """Store time (epoch ms) of a queue's first message; None without one."""
        queue = self._store.queue(topic, queue_id)

        def earliest() -> int | None:
            least = queue.least
            return self._time(queue, least) if least < queue.end else None

        return queue.patiently(earliest)

    def min_physical_offset(self) -> int:
        """Address of the commit log's first byte."""
        self._store.check_open()
        return self._log.least

    def max_physical_offset(self) -> int:
        """Address behind the commit log's last byte."""
        self._store.check_open()
        return self._log.end

    @_in_turn
    def earliest_store_time(self) -> int | None:
        """Store time (epoch ms) of the commit log's first message; None without one."""
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
