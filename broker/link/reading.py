"""`Reading`: the store's queues and messages, as pulls and look-ups of the network need them."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from ...client.consuming.message_view import MessageView
from ...client.lookup.hole_checks import before_hole, check_hole
from ...client.lookup.open_store import OpenStore
from ...client.lookup.queue_times import Boundary, QueueTimes
from ...client.session import Connection
from ...shm._words import Word
from ...store.config import delay_offsets
from ...store.consumequeue.queue import ENTRY
from ...store.delay import rocketmq_timers
from ...store.disk.files import Folder
from ...store.disk.paths import CONFIG
from ...store.disk.space import space_of
from ...store.errors import Corrupt, CorruptRange, IllegalQuery, MessageNotFound
from ...store.filters.tags import MessageFilter
from ...store.index import key_lookup
from ...store.names import SCHEDULE_TOPIC
from ...store.reading import get_message
from ...store.reading.running_store import ServedLog, ServedQueue
from ...store.record.fields import head_of
from ...store.record.ids import Host
from ...store.status import GetMessageStatus
from ._records import sorted_codes, take
from .store import StoreLink

if TYPE_CHECKING:
    from array import array

#: RocketMQ's defaultQueryMaxNum.
MOST_OF_A_UNIQUE_KEY: Final = 32
#: So many holes are remembered as told.
_MOST_TOLD: Final = 1000


class Read(msgspec.Struct, frozen=True):
    """What one read of a queue gave: records as they are stored, back to back. The next read begins
    at queue offset `next`; the queue held those from `least` up to, and without, `end`.
    """

    status: GetMessageStatus
    records: bytes
    next: int
    least: int
    end: int


#: A queue, the log, the limits of one read, what changes when the queue's topic does, the queue's
#: slot, and the word that says where it ends.
Place: TypeAlias = tuple[ServedQueue, ServedLog, get_message.Transfer, memoryview, int, Word]


@functools.lru_cache(1024)
def codes_of(chosen: MessageFilter) -> array[int] | None:
    """The tags codes that a filter takes, ascending; None for any."""
    return sorted_codes(chosen.codes)


class _Stored:
    """A filter on stored records. As RocketMQ's broker it compares the hashes of tags only; the
    client compares the tags.
    """

    def __init__(self, chosen: MessageFilter) -> None:
        self.codes = chosen.codes
        self._chosen = chosen if chosen.describe()[0] == "SQL92" else None

    def matches(self, record: bytes) -> bool:
        return self._chosen is None or self._chosen.matches(MessageView(record, 0))


class Reading:
    """Reads from the files of the link's session. Every method raises StoreGone."""

    def __init__(self, link: StoreLink, logger: Any) -> None:
        self._link = link
        self._logger = logger
        self._told: set[tuple[object, ...]] = set()  # holes that the log names
        self._times: QueueTimes | None = None
        link.began.append(self._begin)

    def _begin(self, _: Connection, store: OpenStore) -> None:
        self._times = QueueTimes(store.log)

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The first queue offset, and the one behind the last; (0, 0) for an unknown queue."""
        table = self._link.connection.table
        found = table.find(topic)
        if found is None or not 0 <= queue_id < len(found.slots):
            return 0, 0
        slot = found.slots[queue_id]
        words = (table.queue_word(slot, name).load() for name in ("min_offset", "max_offset"))
        least, end = words
        return least, end

    def place(self, topic: str, queue_id: int) -> Place | None:
        """Where `FastPull` reads a queue; None for an unknown one, and in a store with holes."""
        store, table = self._link.store, self._link.connection.table
        queue, found = store.queue_if_any(topic, queue_id), table.find(topic)
        if queue is None or found is None or store.holes:
            return None
        slot = found.slots[queue_id]
        end = table.queue_word(slot, "max_offset")
        return queue, store.log, store.transfer, table.topic_numbers(found.index), slot, end

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        most: int,
        max_bytes: int,
        chosen: MessageFilter | None,
    ) -> Read:
        """Reads a queue as RocketMQ's `DefaultMessageStore.getMessage`. A declared hole is passed
        as a file that was removed; the log says it once. Raises Corrupt.
        """
        store = self._link.store
        queue = store.queue_if_any(topic, queue_id)
        if queue is None:
            return Read(GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, b"", 0, 0, 0)
        while True:
            least, end = queue.least, queue.end
            verdict = get_message.judge(offset, least, end)
            if verdict is not None:
                return Read(verdict[0], b"", verdict[1], least, end)
            try:
                view = queue.view(offset, min(end - offset, get_message.scan_count(most)))
                break
            except FileNotFoundError:
                queue.check_topic()
                if queue.least > offset:
                    continue  # clean raises the least offset, then removes the file: look again
                behind = get_message.next_queue_file(offset, queue.file_size)
                return Read(GetMessageStatus.OFFSET_FOUND_NULL, b"", behind, least, end)
        found = self._take(store, view, most, max_bytes, chosen)
        if found is not None:
            records, passed = found
            status = GetMessageStatus.FOUND if records else GetMessageStatus.NO_MATCHED_MESSAGE
            return Read(status, records, offset + passed, least, end)
        try:
            entries = before_hole(store.holes, queue, offset, list(ENTRY.iter_unpack(view)))
        except CorruptRange as hole:
            return self._pass(hole, least, end)
        batch = get_message.collect(
            entries,
            store.log.part,
            lambda record, _: record,
            offset=offset,
            most=most,
            max_bytes=max_bytes,
            transfer=store.transfer,
            log_end=store.log.end,
            file_size=store.log.file_size,
            path=store.log.path,
            wanted=None if chosen is None else _Stored(chosen),
        )
        return Read(batch.status, b"".join(batch.messages), batch.next, least, end)

    def _pass(self, hole: CorruptRange, least: int, end: int) -> Read:
        assert hole.queue_offsets is not None
        place = (hole.topic, hole.queue_id, hole.start)
        if place not in self._told:
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
            self._told.add(place)
            self._logger.warning("a declared hole is passed", error=str(hole))
        return Read(GetMessageStatus.MESSAGE_WAS_REMOVING, b"", hole.queue_offsets[1], least, end)

    def _take(
        self,
        store: OpenStore,
        view: memoryview,
        most: int,
        max_bytes: int,
        chosen: MessageFilter | None,
    ) -> tuple[bytes, int] | None:
        """The usual read: all records are in the file that has the first one. None if they are not,
        and for a filter that needs the records.
        """
        if store.holes or (chosen is not None and chosen.codes is None):
            return None
        at = ENTRY.unpack_from(view)[0]
        file = store.log.file_with(at)
        if file is None:
            return None
        transfer, log_end = store.transfer, store.log.end
        if transfer.is_in_memory(log_end - at):
            count, size = transfer.count_in_memory, transfer.bytes_in_memory
        else:
            count, size = transfer.count_on_disk, transfer.bytes_on_disk
        codes = None if chosen is None else codes_of(chosen)
        wanted = min(max(max_bytes, get_message.LEAST_BYTES), get_message.MOST_BYTES)
        return take(view, *file, log_end, codes, most=min(most, count), max_bytes=min(wanted, size))

    def record_at(self, offset: int) -> bytes:
        """The record that begins at a log offset. Raises MessageNotFound, Corrupt."""
        store = self._link.store
        if not store.log.least <= offset < store.log.end:
            raise MessageNotFound(f"the log has offsets {store.log.least} to {store.log.end}")
        check_hole(store.holes, offset)
        record = store.log.record_at(offset)
        if record is None:
            raise MessageNotFound(f"no message begins at log offset {offset}")
        return record

    def by_key(
        self, topic: str, key: str, most: int, begin_ms: int, end_ms: int
    ) -> tuple[list[bytes], int, int]:
        """The records of a topic with this key, or this UNIQ_KEY, and time (epoch ms) and log
        offset up to which the index holds messages. There are none without an index.
        """
        store = self._link.store
        try:
            files = store.index_files()
        except IllegalQuery:
            return [], 0, 0
        query = key_lookup.KeyQuery(topic, key, most, begin_ms, end_ms)
        found = key_lookup.rocketmq_messages(files, query, store.transfer.batch, self._view)
        index = self._link.connection.control.progress().index
        # The index knows hashes only: those of other topics may be equal.
        records = [view.record for view in found if view.topic == topic]
        return records, index.end_time, index.end_offset

    def _view(self, at: int) -> MessageView | None:
        record = self._link.store.log.record_at(at)
        return None if record is None else MessageView(record, head_of(record).queue_offset)

    def offset_at(self, topic: str, queue_id: int, time_ms: int, boundary: Boundary) -> int:
        """The queue offset that belongs to a store time (epoch ms), as RocketMQ 5 finds it: 0 for
        an unknown queue, the end for a time behind all messages.
        """
        assert self._times is not None
        times, queue = self._times, self._link.store.queue_if_any(topic, queue_id)
        if queue is None or queue.end == 0:
            return 0
        found = queue.patiently(lambda: times.offset_at(queue, time_ms, boundary))
        return max(found, queue.least)

    def earliest_ms(self, topic: str, queue_id: int) -> int:
        """When the first message of a queue was stored, epoch ms; -1 if there is none."""
        queue = self._link.store.queue_if_any(topic, queue_id)
        if queue is None or queue.least >= queue.end:
            return -1
        try:
            at, size, _ = queue.entry(queue.least)
            return self._link.store.log.store_time(at, size)
        except (Corrupt, FileNotFoundError):
            return -1

    def stored_ms(self, topic: str, queue_id: int, offset: int) -> int:
        """When the message at a queue offset was stored, epoch ms; -1 if there is none."""
        queue = self._link.store.queue_if_any(topic, queue_id)
        if queue is None or not queue.least <= offset < queue.end:
            return -1
        try:
            at, size, _ = queue.entry(offset)
            return self._link.store.log.store_time(at, size)
        except (Corrupt, FileNotFoundError):
            return -1

    def entries(
        self, topic: str, queue_id: int, first: int, count: int
    ) -> list[tuple[int, int, int]]:
        """Up to `count` entries of a queue from offset `first` on: log offset, size, tags code."""
        queue = self._link.store.queue_if_any(topic, queue_id)
        if queue is None or not queue.least <= first < queue.end:
            return []
        found: list[tuple[int, int, int]] = []
        end = min(queue.end, first + count)
        try:
            while first + len(found) < end:
                found += queue.entries(first + len(found), end - first - len(found))
        except FileNotFoundError:  # removed just now
            pass
        return found

    def log_space(self) -> tuple[int, int]:
        """The space of the commit log's disk, and what is free of it, in bytes."""
        with Folder.open(self._link.store.log.path) as folder:
            space = space_of(folder)
        return space.blocks * space.block_size, space.available * space.block_size

    def log_begins_ms(self) -> int:
        """When the first message of the log was stored, epoch ms; -1 if there is none."""
        log = self._link.store.log
        try:
            record = log.record_at(log.least) if log.least < log.end else None
        except (Corrupt, FileNotFoundError):
            return -1
        return -1 if record is None else MessageView(record, 0).store_timestamp

    def delayed_end(self, level: int) -> int:
        """The end of the queue in which the messages of a delay level wait."""
        return self.bounds(SCHEDULE_TOPIC, level - 1)[1]

    def delay_offsets(self) -> dict[int, int]:
        """How far each delay level is delivered, as last written. Raises Corrupt."""
        folder = os.path.join(self._link.connection.path, CONFIG)
        return delay_offsets.load(os.path.join(folder, delay_offsets.FILE_NAME))[0]

    def timer_check(self) -> bytes:
        """The file config/timercheck, without what fills it up; empty if there is none."""
        try:
            with Folder.open(os.path.join(self._link.connection.path, CONFIG)) as folder:
                return folder.read(rocketmq_timers.FILE_NAME)[: rocketmq_timers.USED]
        except FileNotFoundError:
            return b""

    def is_in_memory(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a message is among the newest of the log, which count as in memory."""
        queue = self._link.store.queue_if_any(topic, queue_id)
        if queue is None or not queue.least <= offset < queue.end:
            return True
        store = self._link.store
        return store.transfer.is_in_memory(store.log.end - queue.entry(offset)[0])

    def is_whole_in_memory(self, topic: str) -> bool:
        """Whether a topic has all messages that it ever had, and the first ones count as in
        memory.
        """
        found = self._link.find(topic)
        queues = range(found.read_queue_nums) if found is not None else ()
        return all(
            self.bounds(topic, queue_id)[0] == 0 and self.is_in_memory(topic, queue_id, 0)
            for queue_id in queues
        )

    @property
    def host(self) -> Host:
        """The store host that is in records: the address that clients are told."""
        return Host.unpack(self._link.connection.config.store_host)
