"""The layout of the topic table, and the writer of each field.

Each store has one topic table: a segment that every process maps, clients read-only. It says which
topics and queues exist, where each queue begins and ends, to which topics a session may write and
where it reads. Entries are never moved or reused while a store runs, so a slot number identifies a
queue in all processes.

Fields without a writer are written once, by the start that makes the table. The registry writes all
of a queue's entry until `queue_count` passes it, also the initial values of other processes' words.
From then on each word has the writer that the layout names. A session's grant, lease and notice lie
at the session's index.

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
72      8     u64   buckets_at    position of the buckets, of 4 bytes
80      8     u64   grants_at     position of the grants: a bitmap of topics for each session
88      8     u64   grant_stride  bytes of one bitmap
96      8     u64   max_sessions  bitmaps
104     8     u64   leases_at     position of the leases, of 8 bytes, by session
112     8     u64   notices_at    position of the notices, of 64 bytes, by session
120     8     u64   deletions     registry: topics deleted so far
======  ====  ====  ============  =======

Layout topic:

======  ====  =====  ===========  =======
offset  size  type   field        meaning
======  ====  =====  ===========  =======
0       4     u32    name_length  registry: bytes, 1..255
4       4     u32    perm         registry: RocketMQ's: 4 read, 2 write
8       4     u32    write_nums   registry: queues that producers use
12      4     u32    read_nums    registry: queues that consumers use
16      4     u32    first_slot   registry: slot of queue 0 and of the row that begins there
20      4     u32    queue_nums   registry: queues that have an entry
24      4     u32    row_nums     registry: queues in a row; those added later are found by hash
28      4     u32    state        registry: 0 live, 1 its deletion has begun, 2 deleted
64      255   bytes  name         registry: UTF-8
======  ====  =====  ===========  =======

Layout queue:

======  ====  =====  ===========  =======
offset  size  type   field        meaning
======  ====  =====  ===========  =======
0       8     u64    hash         registry: of topic name and queue id
8       4     u32    topic        registry: topic entry
12      4     u32    queue_id     registry: number within the topic
16      4     u32    name_length  registry: of the topic's name
20      44    bytes  name_start   registry: the name's first bytes, which most look-ups need alone
64      8     u64    next         append: queue offset of the next message
72      8     u64    previous     append: `next` before the batch `mark`
80      8     u64    mark         append: `wrote` when the last batch that touched the queue began
128     8     u64    max_offset   reput: queue offset behind the last entry that readers may use
136     8     u64    since        registry: records below this log offset are a deleted topic's
192     8     u64    min_offset   clean: queue offset of the first entry whose message still exists
======  ====  =====  ===========  =======

Layout bucket:

======  ====  ====  ======  =======
offset  size  type  field   meaning
======  ====  ====  ======  =======
0       4     u32   slot    registry: slot + 1 of a queue, 0 = empty; linear probing by hash
======  ====  ====  ======  =======

Layout grant:

======  ====  ====  ======  =======
offset  size  type  field   meaning
======  ====  ====  ======  =======
0       1     u8    topics  registry: bit per topic entry, in a row of `grant_stride` bytes
======  ====  ====  ======  =======

Layout lease:

======  ====  ====  ======  =======
offset  size  type  field   meaning
======  ====  ====  ======  =======
0       8     u64   offset  registry: 1 + a commit-log offset in the file it reads; 0 = none
======  ====  ====  ======  =======

Layout notice:

======  ====  ====  ======  =======
offset  size  type  field   meaning
======  ====  ====  ======  =======
0       8     u64   news    registry: grows with each piece of news; consumers sleep on it
======  ====  ====  ======  =======
"""

from __future__ import annotations

import msgspec

from ...shm.ownership import STARTUP, check_writer

MAGIC = int.from_bytes(b"SILOTBL1", "little")
VERSION = 1
TOPIC_SIZE = 320
QUEUE_SIZE = 256
NOTICE_SIZE = 64  # a cache line each: thousands may sleep

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
BUCKET = {"slot": (0, 4)}
GRANT = {"topics": (0, 1)}
LEASE = {"offset": (0, 8)}
NOTICE = {"news": (0, 8)}
LAYOUTS = {
    "header": HEADER,
    "topic": TOPIC,
    "queue": QUEUE,
    "bucket": BUCKET,
    "grant": GRANT,
    "lease": LEASE,
    "notice": NOTICE,
}
_QUEUE_WRITERS = {
    "next": "append",
    "previous": "append",
    "mark": "append",
    "max_offset": "reput",
    "min_offset": "clean",
}
#: Layout -> field -> writer; a field that is missing is written at start-up.
WRITERS = {
    "header": dict.fromkeys(("topic_count", "queue_count", "deletions"), "registry"),
    "queue": dict.fromkeys(QUEUE, "registry") | _QUEUE_WRITERS,
} | {
    name: dict.fromkeys(LAYOUTS[name], "registry")
    for name in ("topic", "bucket", "grant", "lease", "notice")
}


def check_table_writer(layout: str, field: str, role: str) -> None:
    """Raises NotTheWriter unless `role` may write this field of the topic table."""
    writer = WRITERS[layout].get(field, STARTUP)
    check_writer(f"{field} of a {layout} in the topic table", writer, role)


def _page(size: int) -> int:
    return (size + 4095) // 4096 * 4096


class Plan(msgspec.Struct, frozen=True):
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
