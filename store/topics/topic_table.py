"""The topic table: which topics and queues exist, each queue's next and greatest offset, and who
may write what.

One shared segment a store. The registry writes topics, queues and grants; append each queue's next
offset; reput each queue's greatest offset; clean the least. Everybody maps it, clients read-only.
The leases, a word for each session, are the registry's too: where in the commit log a reader is.
So are the notices: a consumer sleeps on its own, besides its queues, to hear of a new assignment.
Entries are never moved or reused while a store lives, so a slot number is a queue's name for all
processes.

Layout header:

======  ====  ====  ============  =======
offset  size  type  field         meaning
======  ====  ====  ============  =======
0       8     u64   magic         "SILOTBL1", written last
8       8     u64   version       of this layout
16      8     u64   max_topics    topic entries
24      8     u64   max_queues    queue entries
32      8     u64   buckets       hash buckets, a power of two, at least twice max_queues
40      8     u64   topic_count   registry: topics so far; an entry below it is whole
48      8     u64   queue_count   registry: queues so far; an entry below it is whole
56      8     u64   topics_at     position of the topic entries, of 320 bytes
64      8     u64   queues_at     position of the queue entries, of 256 bytes
72      8     u64   buckets_at    position of the buckets (u32: slot + 1, 0 = empty; linear probing)
80      8     u64   grants_at     position of the grants: a bitmap of topics for each session
88      8     u64   grant_stride  bytes of one bitmap
96      8     u64   max_sessions  bitmaps
104     8     u64   leases_at     position of the leases (u64 each: commit-log offset + 1, 0 = none)
112     8     u64   notices_at    position of the notices (a line each: moves at news)
120     8     u64   deletions     registry: topics deleted so far
======  ====  ====  ============  =======

Layout topic:

======  ====  =====  ===========  =======
offset  size  type   field        meaning
======  ====  =====  ===========  =======
0       4     u32    name_length  bytes, 1..255
4       4     u32    perm         RocketMQ's: 4 read, 2 write
8       4     u32    write_nums   queues that producers use
12      4     u32    read_nums    queues that consumers use
16      4     u32    first_slot   slot of queue 0, where the topic's first queues lie in a row
20      4     u32    queue_nums   queues that have an entry
24      4     u32    row_nums     queues that lie in a row; those added later are found by hash
28      4     u32    state        0 live, 1 its deletion has begun, 2 deleted
64      255   bytes  name         UTF-8
======  ====  =====  ===========  =======

Layout queue:

======  ====  =====  ===========  =======
offset  size  type   field        meaning
======  ====  =====  ===========  =======
0       8     u64    hash         of topic name and queue id
8       4     u32    topic        topic entry
12      4     u32    queue_id     number within the topic
16      4     u32    name_length  of the topic's name
20      44    bytes  name_start   of the topic's name: most are found without a look at the topic
64      8     u64    next         append: queue offset of the next message
72      8     u64    previous     append: `next` before the batch `mark`
80      8     u64    mark         append: `wrote` when the last batch that touched the queue began
128     8     u64    max_offset   reput: queue offset behind the last entry that readers may use
136     8     u64    since        registry: records below this log offset are a deleted topic's
192     8     u64    min_offset   clean: queue offset of the first entry whose message still exists
======  ====  =====  ===========  =======
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...shm._words import OwnedWord, Word
from ._table import find_queue, insert_bucket, queue_hash
from .session_words import NOTICE_SIZE, SessionWords

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAGIC = int.from_bytes(b"SILOTBL1", "little")
VERSION = 1
TOPIC_SIZE = 320
QUEUE_SIZE = 256
NO_MARK = 2**64 - 1
#: `since` of a queue whose topic is deleted: no record is its own any more.
DELETED = 2**64 - 1

_HEADER_WORDS = (
    "magic", "version", "max_topics", "max_queues", "buckets", "topic_count", "queue_count",
    "topics_at", "queues_at", "buckets_at", "grants_at", "grant_stride", "max_sessions",
    "leases_at", "notices_at", "deletions",
)  # fmt: skip
HEADER: dict[str, tuple[int, int]] = {name: (8 * i, 8) for i, name in enumerate(_HEADER_WORDS)}
TOPIC: dict[str, tuple[int, int]] = {
    "name_length": (0, 4),
    "perm": (4, 4),
    "write_nums": (8, 4),
    "read_nums": (12, 4),
    "first_slot": (16, 4),
    "queue_nums": (20, 4),
    "row_nums": (24, 4),
    "state": (28, 4),
    "name": (64, 255),
}
QUEUE: dict[str, tuple[int, int]] = {
    "hash": (0, 8),
    "topic": (8, 4),
    "queue_id": (12, 4),
    "name_length": (16, 4),
    "name_start": (20, 44),
    "next": (64, 8),
    "previous": (72, 8),
    "mark": (80, 8),
    "max_offset": (128, 8),
    "since": (136, 8),
    "min_offset": (192, 8),
}
LAYOUTS = {"header": HEADER, "topic": TOPIC, "queue": QUEUE}

_TOPIC = struct.Struct("<IIIIIIII")
_QUEUE = struct.Struct("<QIII44s")


def _page(size: int) -> int:
    return (size + 4095) // 4096 * 4096


@dataclass(frozen=True, slots=True)
class Plan:
    """Positions within a table of the given limits; `size` is the whole segment, bytes."""

    max_topics: int
    max_queues: int
    max_sessions: int

    @property
    def buckets(self) -> int:
        return 1 << (2 * self.max_queues - 1).bit_length()

    @property
    def topics_at(self) -> int:
        return 4096

    @property
    def queues_at(self) -> int:
        return _page(self.topics_at + TOPIC_SIZE * self.max_topics)

    @property
    def buckets_at(self) -> int:
        return _page(self.queues_at + QUEUE_SIZE * self.max_queues)

    @property
    def grants_at(self) -> int:
        return _page(self.buckets_at + 4 * self.buckets)

    @property
    def grant_stride(self) -> int:
        return (self.max_topics + 511) // 512 * 64

    @property
    def leases_at(self) -> int:
        return _page(self.grants_at + self.grant_stride * self.max_sessions)

    @property
    def notices_at(self) -> int:
        return _page(self.leases_at + 8 * self.max_sessions)

    @property
    def size(self) -> int:
        return _page(self.notices_at + NOTICE_SIZE * self.max_sessions)


class TopicState(enum.IntEnum):
    """Whether a topic may be used. A deleted one keeps its entry while the store lives."""

    LIVE = 0
    DELETING = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic as the table has it; `index` is its entry, `slots` the slots of its queues by queue
    id.
    """

    index: int
    name: str
    perm: int
    write_queue_nums: int
    read_queue_nums: int
    slots: tuple[int, ...]
    state: TopicState


class TableFull(Exception):
    """No room for another topic or queue; the message names the setting to raise."""


class TopicTable(SessionWords):
    """The table in `memory`. Methods that write are the registry's (and start-up's, before any
    actor runs).
    """

    def __init__(self, memory: Buffer) -> None:
        self.memory = memory
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
        """Writes the header of an empty table into zeroed memory, the magic last."""
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
        return cls(memory)

    def _header(self, field: str) -> int:
        return Word(self.memory, HEADER[field][0]).load()

    @property
    def topic_count(self) -> int:
        return self._header("topic_count")

    def set_count(self, field: str, value: int) -> None:
        """Stores one of the registry's words of the header."""
        OwnedWord(self.memory, HEADER[field][0]).store(value)

    @property
    def deletions(self) -> int:
        return self._header("deletions")

    @property
    def queue_count(self) -> int:
        return self._header("queue_count")

    def queue_word(self, slot: int, field: str) -> Word:
        return Word(self.memory, self._queue_at(slot) + QUEUE[field][0])

    def own_queue_word(self, slot: int, field: str) -> OwnedWord:
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
        at = self._topics_at + TOPIC_SIZE * index
        length = int.from_bytes(self.view[at : at + 4], "little")
        return bytes(self.view[at + 64 : at + 64 + length]).decode()

    def topic(self, index: int) -> Topic:
        at = self._topics_at + TOPIC_SIZE * index
        fields = _TOPIC.unpack_from(self.view, at)
        _, perm, write_nums, read_nums, first, nums, row, state = fields
        name = self.topic_name(index)
        added = (self.slot(name, queue_id) for queue_id in range(row, nums))
        slots = (*range(first, first + row), *added)
        return Topic(index, name, perm, write_nums, read_nums, slots, TopicState(state))

    def entries(self) -> Iterator[Topic]:
        """Every topic there was since the start, deleted ones too."""
        for index in range(self.topic_count):
            yield self.topic(index)

    def topics(self) -> Iterator[Topic]:
        """The topics that there are."""
        return (topic for topic in self.entries() if topic.state == TopicState.LIVE)

    def find(self, name: str) -> Topic | None:
        """The topic called `name`. Looks through entries that came since the last call once, then
        by hash.
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
        """The slot of a queue, or -1, by the look-up that reput uses."""
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
        """Adds a topic and its queues, at least `least`. A registry killed half-way leaves nothing
        that counts, and starts over. `since` is the queues' word. Raises TableFull.
        """
        index, first = self.topic_count, self.queue_count
        nums = max(write_nums, read_nums, least)
        if index >= self.max_topics:
            raise TableFull(f"the store has its {self.max_topics} topics: raise max_topics")
        if first + nums > self.max_queues:
            raise TableFull(f"no room for {nums} of {self.max_queues} queues: raise max_queues")
        encoded = name.encode()
        at = self._topics_at + TOPIC_SIZE * index
        row = (len(encoded), perm, write_nums, read_nums, first, nums, nums, TopicState.LIVE)
        _TOPIC.pack_into(self.view, at, *row)
        self.view[at + 64 : at + 64 + len(encoded)] = encoded
        for queue_id in range(nums):
            self.write_queue(first + queue_id, index, queue_id, since)
        # An entry is found only through its bucket, so the counts may be ahead of the buckets: a
        # registry killed in between finds the topic again and `repair` files what is missing.
        self.set_count("queue_count", first + nums)
        self.set_count("topic_count", index + 1)
        for slot in range(first, first + nums):
            insert_bucket(self.memory, slot)
        return self.topic(index)

    def write_queue(self, slot: int, topic: int, queue_id: int, since: int) -> None:
        """A queue's entry, which does not count yet."""
        name = self.topic_name(topic).encode()
        row = (queue_hash(name, queue_id), topic, queue_id, len(name), name[:44])
        _QUEUE.pack_into(self.view, self._queue_at(slot), *row)
        self.own_queue_word(slot, "mark").store(NO_MARK)
        self.own_queue_word(slot, "since").store(since)

    def set_topic(self, index: int, **values: int) -> None:
        """Changes fields of a topic's entry, by the layout's names."""
        at = self._topics_at + TOPIC_SIZE * index
        for name, value in values.items():
            struct.pack_into("<I", self.view, at + TOPIC[name][0], value)
