"""`StoreReader`: reads and look-ups in a running or a stopped store, with RocketMQ's semantics."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Final, Self, TypeAlias

from ...store.errors import Corrupt, IllegalQuery, MessageNotFound
from ...store.index import key_lookup
from ...store.reading import get_message
from ...store.reading.running_store import ServedQueue
from ...store.record.fields import head_of
from ...store.record.format import MIN_RECORD_BYTES
from ...store.record.ids import decode_offset_message_id
from ...store.status import GetMessageStatus
from ...store.topics.topic_table import Topic
from .. import arguments
from ..consuming.message_view import MessageView
from .get_message_result import GetMessageResult
from .hole_checks import before_hole, check_hole
from .in_turn import in_turn
from .open_store import FOREVER, OpenStore
from .query_arguments import boundary_of, number, past_time, queue_of
from .queue_times import Boundary, QueueTimes
from .stopped_store import StoppedStore, StoppedTopic

#: RocketMQ's PermName.PERM_READ.
_READABLE: Final = 4

#: What `get_message` takes as a filter: an object with `codes` and `matches`
#: (`get_message.Filter`).
MessageFilter: TypeAlias = get_message.Filter[MessageView]


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
    - IllegalType for arguments of a wrong type;
    - MessageNotFound for a message that is not there;
    - Corrupt for damaged bytes;
    - CorruptRange for a message in a range that `silo repair --holes` has declared lost. A read of
      a queue goes on at the end of the error's `queue_offsets`;
    - StoreClosed when the store does not run.

    With `stopped` it reads the files of a store that does not run. A store that was killed may hold
    records that its next start will dispatch: `undispatched` counts their bytes, and they are not
    found. To start the store meanwhile does no harm, but the reader does not see what is new.
    """

    def __init__(self, store: str | os.PathLike[str], *, stopped: bool = False) -> None:
        self._lock = threading.RLock()
        is_stopped = arguments.switch("stopped", stopped)
        path = arguments.store(store)
        self._store = StoppedStore(path) if is_stopped else OpenStore(path)
        self._log = self._store.log
        self._times = QueueTimes(self._log)
        self._goes_on = ("", 0, 0)  # topic, queue id and offset that continue the last read

    @property
    def undispatched(self) -> int:
        """Bytes of the commit log that no queue leads to yet. In a running store reput dispatches
        them, in a stopped one the next start.
        """
        self._store.check_open()
        return self._store.undispatched

    @in_turn
    def read_queues(self, topic: str) -> int:
        """How many queues of the topic consumers read: those with the ids 0 to this number - 1."""
        found = self._topic(topic)
        return min(found.read_queue_nums, len(found.slots))

    def _topic(self, topic: str) -> Topic | StoppedTopic:
        return self._store.topic(arguments.text("topic", topic))

    def _queue(self, topic: str, queue_id: int) -> ServedQueue:
        return self._store.queue(arguments.text("topic", topic), queue_of(queue_id))

    # -- a queue, from an offset on

    @in_turn
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
        offset, queue_id = number("offset", offset), number("queue_id", queue_id)
        max_messages = number("max_messages", max_messages, 1)
        max_bytes = number("max_bytes", max_bytes, 1)
        found = self._topic(topic)
        topic = found.name
        if filter is not None and not (hasattr(filter, "codes") and hasattr(filter, "matches")):
            arguments.refuse_type("filter", filter, "an object with `codes` and `matches`")
        if not found.perm & _READABLE:
            raise IllegalQuery(f"topic {topic} may not be read (perm {found.perm})")
        if queue_id >= len(found.slots):
            return GetMessageResult(GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, [], 0, 0, 0)
        queue = self._queue(topic, queue_id)
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
        entries = before_hole(self._store.holes, queue, offset, entries)
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

    @in_turn
    def at(self, topic: str, queue_id: int, queue_offset: int) -> MessageView:
        """The message at queue offset `queue_offset`, checked as by `MessageView.check`."""
        queue_offset = number("queue_offset", queue_offset)
        queue = self._queue(topic, queue_id)
        return queue.patiently(lambda: self._at(queue, queue_offset))

    def _at(self, queue: ServedQueue, offset: int) -> MessageView:
        least, end = queue.least, queue.end
        if not least <= offset < end:
            has = f"offsets {least} to {end - 1}" if least < end else "no messages"
            removed = " (older ones were removed)" if offset < least else ""
            raise IllegalQuery(f"{queue} has {has}{removed}: there is no offset {offset}")
        entry = queue.entry(offset)
        before_hole(self._store.holes, queue, offset, [entry])
        at, size, _ = entry
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

    @in_turn
    def look_at(self, physical_offset: int) -> MessageView:
        """The message whose record begins at commit-log offset `physical_offset`, in bytes
        (RocketMQ: `lookMessageByOffset`).
        """
        self._store.check_open()
        physical_offset = number("physical_offset", physical_offset)
        least, end = self._log.least, self._log.end
        if physical_offset >= end:
            raise IllegalQuery(
                f"the commit log ends at {end}: there is no offset {physical_offset}"
            )
        if physical_offset < least:
            raise MessageNotFound(
                f"the commit log begins at {least}: what was at {physical_offset} was removed"
            )
        check_hole(self._store.holes, physical_offset)
        found = self._message(physical_offset)
        if found is None:
            raise MessageNotFound(f"no message begins at commit-log offset {physical_offset}")
        return found

    @in_turn
    def by_offset_message_id(self, message_id: str) -> MessageView:
        """The message with this offset message id: 32 hex digits, or 56 with an IPv6 host, of store
        host and commit-log offset (RocketMQ: `MQAdmin.viewMessage`).
        """
        message_id = arguments.text("message_id", message_id)
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

    @in_turn
    def by_unique_key(self, topic: str, key: str) -> list[MessageView]:
        """The messages of a topic with this UNIQ_KEY (`MessageView.message_id`), oldest first.
        There are several if the producer sent the message again.
        """
        topic = self._topic(topic).name
        query = self._key_query(topic, key, FOREVER, 0, FOREVER)
        return key_lookup.matching(self._store.index_files(), query, self._message, unique=True)

    @in_turn
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
        if not arguments.switch("rocketmq", rocketmq):
            self._topic(topic)
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
            return self._message(offset) if query.begin_ms <= stored <= query.end_ms else None

        return key_lookup.matching(self._store.index_files(), query, at)

    def _key_query(
        self, topic: str, key: str, most: int, begin_ms: int, end_ms: int
    ) -> key_lookup.KeyQuery:
        self._store.check_open()
        topic, key = arguments.text("topic", topic), arguments.text("key", key)
        if not key:
            raise IllegalQuery("an empty key: no message has it")
        most = number("max", most, 1)
        begin_ms = past_time("begin_ms", begin_ms, self._store.now_ms())
        end_ms = number("end_ms", end_ms)
        if end_ms < begin_ms:
            raise IllegalQuery(f"end_ms {end_ms} is before begin_ms {begin_ms}")
        return key_lookup.KeyQuery(topic, key, most, begin_ms, end_ms)

    def _message(self, at: int) -> MessageView | None:
        record = self._log.record_at(at)
        if record is None:
            return None
        return MessageView(record, head_of(record).queue_offset)

    # -- offsets and times

    @in_turn
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
        boundary = boundary_of(boundary)
        if arguments.switch("rocketmq", rocketmq):
            return self._rocketmq_offset(topic, queue_id, timestamp_ms, boundary)
        queue = self._queue(topic, queue_id)
        timestamp = past_time("timestamp_ms", timestamp_ms, self._store.now_ms())
        found = queue.patiently(lambda: self._times.offset_at(queue, timestamp, boundary))
        if found < 0:
            raise MessageNotFound(f"{queue} has no message stored at {timestamp} or before")
        return found

    def _rocketmq_offset(self, topic: str, queue_id: int, timestamp: int, boundary: str) -> int:
        self._store.check_open()
        timestamp = number("timestamp_ms", timestamp)
        if boundary != "lower":
            raise IllegalQuery("RocketMQ 4 knows no boundary: leave it out with rocketmq=True")
        queue = self._store.queue_if_any(arguments.text("topic", topic), queue_of(queue_id))
        if queue is None:
            return 0
        return queue.patiently(lambda: self._times.rocketmq_offset(queue, timestamp))

    @in_turn
    def min_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset of the first message that is still there."""
        return self._queue(topic, queue_id).least

    @in_turn
    def max_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset behind the last dispatched message."""
        return self._queue(topic, queue_id).end

    @in_turn
    def earliest_time(self, topic: str, queue_id: int) -> int | None:
        """The store time (epoch ms) of a queue's first message; None for an empty queue."""
        queue = self._queue(topic, queue_id)

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

    @in_turn
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

    def close(self) -> None:
        """Ends the session. Messages that were read stay readable. May be called again."""
        if self._store.is_mine:
            with self._lock:
                self._store.close()

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
