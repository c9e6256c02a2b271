"""A queue in memory, as a reader of a running store has it mapped."""

from __future__ import annotations

import mmap
import struct

from silomq.client.consuming._mapped_queue import MappedQueue
from silomq.client.consuming._message_view import Memory
from silomq.shm._words import OwnedWord

ENTRY = struct.Struct(">qiq")
RECORD = 16  # bytes; nobody parses them here
TAGS_CODE = 7


class QueueInMemory:
    """`count` messages with records of RECORD bytes, the first at log offset `base`, of which the
    first `there` have arrived. The message at queue offset N has the tags code TAGS_CODE + N % 2.
    `queue_id` is that of the queue, of the topic "topic".
    """

    def __init__(self, count: int, there: int, base: int = 1000, queue_id: int = 3) -> None:
        page = mmap.mmap(-1, mmap.PAGESIZE)
        self.start, self.end, self.since, self.wrote, self.arrival, self.notice = (
            OwnedWord(page, 8 * i) for i in range(6)
        )
        self.base, self.count, self.queue = base, count, ("topic", queue_id)
        self.log = b"".join(b"%*d" % (RECORD, i) for i in range(count))
        self.entries = b"".join(
            ENTRY.pack(base + RECORD * i, RECORD, TAGS_CODE + i % 2) for i in range(count)
        )
        self.cursor = MappedQueue(self.start, self.end, self.since, self.wrote, 0)
        self.map(0, count)
        self.arrive(there)

    def map(self, first: int, count: int) -> None:
        """Has the cursor map `count` entries from the queue offset `first` on, and all records."""
        size = ENTRY.size
        self.cursor.map_entries(self.entries[size * first : size * (first + count)], first)
        self.cursor.memory = Memory(self.log, self.base, "log", self.queue)

    def arrive(self, count: int) -> None:
        """Has `count` more messages arrive. Wakes nobody."""
        self.end.add(count)
        self.wrote.store(self.base + RECORD * self.end.load())
        self.arrival.add(1)
