"""The topic table of a running store: which topics and queues exist, and how far each queue is.

The registry writes topics, queues, grants, leases and notices. Append, reput and clean write words
of every queue. `table_layout.py` owns the layout, `table_changes.py` changes existing topics.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from ...shm._words import OwnedWord, Word, fault
from ...shm.ownership import READER, STARTUP
from ._table import find_queue, insert_bucket, queue_hash
from .session_words import SessionWords
from .table_layout import (
    HEADER,
    MAGIC,
    QUEUE,
    QUEUE_SIZE,
    TOPIC,
    TOPIC_SIZE,
    VERSION,
    Plan,
    check_table_writer,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

NO_MARK = 2**64 - 1
#: `since` of a queue whose topic is deleted: all records lie below it.
DELETED = 2**64 - 1

_TOPIC = struct.Struct("<IIIIIIII")
_QUEUE = struct.Struct("<QIII44s")
_WORD = struct.Struct("<Q")
_NAME_AT = TOPIC["name"][0]


class TopicState(enum.IntEnum):
    """Whether a topic may be used. A deleted one keeps its entry while the store runs."""

    LIVE = 0
    DELETING = 1
    DELETED = 2


class Topic(msgspec.Struct, frozen=True):
    """A copy of one topic's entry. `index` is the entry's number; `slots` has the slots of its
    queues by queue id.
    """

    index: int
    name: str
    perm: int
    write_queue_nums: int
    read_queue_nums: int
    slots: tuple[int, ...]
    state: TopicState


class TableFull(Exception):
    """The table has no room for another topic or queue. The message names the setting to raise."""


class TopicTable(SessionWords):
    """The table in `memory`, as a process with `role` may use it.

    Only the registry and a start may call methods that write, append, reput and clean their own
    queue words; in other roles they raise NotTheWriter. Raises ValueError for memory that holds no
    table of this layout version.
    """

    def __init__(self, memory: Buffer, role: str = READER) -> None:
        self.memory = memory
        self.role = role
        self.view = memoryview(memory)
        header = {name: self._header(name) for name in HEADER}
        if header["magic"] != MAGIC or header["version"] != VERSION:
            raise ValueError("not a topic table of this layout version")
        self.max_topics = header["max_topics"]
        self.max_queues = header["max_queues"]
        self.max_sessions = header["max_sessions"]
        self._topics_at = header["topics_at"]
        self._queues_at = header["queues_at"]
        self._grants_at = header["grants_at"]
        self._grant_stride = header["grant_stride"]
        self._leases_at = header["leases_at"]
        self._notices_at = header["notices_at"]
        self._by_name: dict[str, int] = {}
        self._scanned = 0

    @classmethod
    def create(cls, memory: Buffer, plan: Plan) -> TopicTable:
        """Makes an empty table in zeroed memory, for a start to fill. The magic is written last."""
        values = {
            "version": VERSION,
            "max_topics": plan.max_topics,
            "max_queues": plan.max_queues,
            "buckets": plan.buckets,
            "topics_at": plan.topics_at,
            "queues_at": plan.queues_at,
            "buckets_at": plan.buckets_at,
            "grants_at": plan.grants_at,
            "grant_stride": plan.grant_stride,
            "max_sessions": plan.max_sessions,
            "leases_at": plan.leases_at,
            "notices_at": plan.notices_at,
        }
        for name, value in values.items():
            OwnedWord(memory, HEADER[name][0]).store(value)
        OwnedWord(memory, HEADER["magic"][0]).store(MAGIC)
        return cls(memory, STARTUP)

    def _header(self, field: str) -> int:
        return Word(self.memory, HEADER[field][0]).load()

    def _set_header(self, field: str, value: int) -> None:
        check_table_writer("header", field, self.role)
        OwnedWord(self.memory, HEADER[field][0]).store(value)

    @property
    def topic_count(self) -> int:
        """The number of topic entries, also of deleted topics. Entries below it are whole."""
        return self._header("topic_count")

    @property
    def queue_count(self) -> int:
        """The number of queue entries, also of deleted topics. Slots below it are whole."""
        return self._header("queue_count")

    @property
    def deletions(self) -> int:
        """The number of topics that were deleted while the store runs."""
        return self._header("deletions")

    @property
    def deletions_word(self) -> Word:
        """The word of `deletions`, to read."""
        return Word(self.memory, HEADER["deletions"][0])

    def count_topics(self, count: int) -> None:
        """Makes the first `count` topic entries count."""
        self._set_header("topic_count", count)

    def count_queues(self, count: int) -> None:
        """Makes the first `count` queue entries count."""
        self._set_header("queue_count", count)

    def count_deletion(self) -> None:
        """Counts one more deleted topic, so that reput unmaps the files of its queues."""
        self._set_header("deletions", self.deletions + 1)

    def queue_word(self, slot: int, field: str) -> Word:
        """A word of a queue, to read."""
        return Word(self.memory, self._queue_at(slot) + QUEUE[field][0])

    def own_queue_word(self, slot: int, field: str) -> OwnedWord:
        """A word of a queue, to write. Raises NotTheWriter if another process writes it."""
        check_table_writer("queue", field, self.role)
        return OwnedWord(self.memory, self._queue_at(slot) + QUEUE[field][0])

    def queue_column(self, field: str) -> list[int]:
        """One word of every queue, by slot: a copy, for loops over all queues."""
        count = self.queue_count
        words = self.view[self._queues_at : self._queues_at + QUEUE_SIZE * count].cast("Q")
        return words[QUEUE[field][0] // 8 :: QUEUE_SIZE // 8].tolist()

    def _queue_at(self, slot: int) -> int:
        if not 0 <= slot < self.max_queues:
            raise IndexError(f"queue slot {slot} of {self.max_queues}")
        return self._queues_at + QUEUE_SIZE * slot

    def queue(self, slot: int) -> tuple[int, int]:
        """(topic index, queue id) of the queue in `slot`."""
        _, topic, queue_id, _, _ = _QUEUE.unpack_from(self.view, self._queue_at(slot))
        return topic, queue_id

    def topic_name(self, index: int) -> str:
        """The name of the topic in entry `index`."""
        at = self._topics_at + TOPIC_SIZE * index
        length = int.from_bytes(self.view[at : at + 4], "little")
        return bytes(self.view[at + _NAME_AT : at + _NAME_AT + length]).decode()

    def topic(self, index: int) -> Topic:
        """The topic in entry `index`."""
        at = self._topics_at + TOPIC_SIZE * index
        fields = _TOPIC.unpack_from(self.view, at)
        _, perm, write_nums, read_nums, first, nums, row, state = fields
        name = self.topic_name(index)
        added = (self.slot(name, queue_id) for queue_id in range(row, nums))
        slots = (*range(first, first + row), *added)
        return Topic(index, name, perm, write_nums, read_nums, slots, TopicState(state))

    def topic_numbers(self, index: int) -> memoryview:
        """The bytes of all numbers in entry `index`: they change when the topic does."""
        at = self._topics_at + TOPIC_SIZE * index
        return self.view[at : at + _TOPIC.size].toreadonly()

    def entries(self) -> Iterator[Topic]:
        """Every topic since the store's start, deleted ones too."""
        for index in range(self.topic_count):
            yield self.topic(index)

    def topics(self) -> Iterator[Topic]:
        """The topics that are not deleted, nor about to be."""
        return (topic for topic in self.entries() if topic.state == TopicState.LIVE)

    def find(self, name: str) -> Topic | None:
        """The topic called `name`, or None. A call reads the names of entries that are new since
        the last call.
        """
        while self._scanned < self.topic_count:
            self._by_name[self.topic_name(self._scanned)] = self._scanned
            self._scanned += 1
        index = self._by_name.get(name, -1)
        topic = None if index < 0 else self.topic(index)
        return topic if topic and topic.state == TopicState.LIVE else None

    def is_deleted(self, slot: int) -> bool:
        """Whether the topic of the queue in `slot` is deleted."""
        return self.queue_word(slot, "since").load() == DELETED

    def slot(self, topic: str, queue_id: int) -> int:
        """The slot of a queue, or -1. It is the same look-up by hash as reput's."""
        return find_queue(self.memory, topic.encode(), queue_id)

    def add_topic(
        self,
        name: str,
        *,
        write_nums: int,
        read_nums: int,
        perm: int,
        least: int = 0,
        since: int = 0,
    ) -> Topic:
        """Adds a topic with as many queues as it needs, at least `least`. `since` is the value of
        the queues' words of that name. Raises TableFull.

        If the registry is killed before the topic counts, `repair` frees the slots, and the
        successor adds the topic again.
        """
        index, first = self.topic_count, self.queue_count
        nums = max(write_nums, read_nums, least)
        if index >= self.max_topics:
            raise TableFull(f"the store has its {self.max_topics} topics: raise max_topics")
        if first + nums > self.max_queues:
            raise TableFull(f"no room for {nums} of {self.max_queues} queues: raise max_queues")
        check_table_writer("topic", "name", self.role)
        encoded = name.encode()
        at = self._topics_at + TOPIC_SIZE * index
        row = (len(encoded), perm, write_nums, read_nums, first, nums, nums, TopicState.LIVE)
        _TOPIC.pack_into(self.view, at, *row)
        self.view[at + _NAME_AT : at + _NAME_AT + len(encoded)] = encoded
        for queue_id in range(nums):
            self.write_queue(first + queue_id, index, queue_id, since)
        # A look-up finds an entry only through its bucket, so the counts may be ahead of the
        # buckets. If the registry is killed in between, `repair` makes the missing buckets.
        self.count_queues(first + nums)
        self.count_topics(index + 1)
        fault("registry:counted")
        for slot in range(first, first + nums):
            self.file_queue(slot)
        return self.topic(index)

    def write_queue(self, slot: int, topic: int, queue_id: int, since: int) -> None:
        """Writes a queue's entry with the initial values of all words. It must not count yet."""
        check_table_writer("queue", "hash", self.role)
        assert slot >= self.queue_count, "the entry counts: its words have their own writers"
        name, at = self.topic_name(topic).encode(), self._queue_at(slot)
        row = (queue_hash(name, queue_id), topic, queue_id, len(name), name[:44])
        _QUEUE.pack_into(self.view, at, *row)
        _WORD.pack_into(self.view, at + QUEUE["mark"][0], NO_MARK)
        _WORD.pack_into(self.view, at + QUEUE["since"][0], since)

    def file_queue(self, slot: int) -> None:
        """Makes look-ups find the entry in `slot`, which must be whole, and no longer a deleted
        queue of that name.
        """
        check_table_writer("bucket", "slot", self.role)
        insert_bucket(self.memory, slot)

    def set_topic(self, index: int, **values: int) -> None:
        """Stores fields of a topic's entry, given by the layout's names."""
        at = self._topics_at + TOPIC_SIZE * index
        for name, value in values.items():
            check_table_writer("topic", name, self.role)
            struct.pack_into("<I", self.view, at + TOPIC[name][0], value)
