"""The metrics page: counters and latency histograms of a store's processes.

The page lies at the start of the segment `metrics`; the history of the last hour (`history.py`)
follows it. Each word has one writer, and only grows, except those that are marked as a level. A
process adds to its words by plain stores. A successor goes on with the values that it finds, so a
counter counts from the start of the store, over all restarts of actors. Nothing of it is on the
disk: the next start of the store counts from 0.

What the control block counts already (`records`, `rejected`, `flushes`, `dispatch_count`,
`files_removed`, `sessions`, the starts of processes) is not repeated here.

A histogram has no count of its own: it is the sum of the steps' counts. So no reader sees a total
that its parts do not make up. The sum of the times is a word of its own, and may be behind by what
the writer counts at this moment. A killed writer may leave it, and `put_bytes`, behind by one
batch.

`put_time` counts frames (a put of one message, or of a batch), from the moment when the producer
looked at the clock for the records until append has published the answer. A client writes the first
time itself (`sent_us` in `ring.py`), so a client can spoil this histogram and nothing else. The
other times are taken within one process, by the monotonic clock.

Layout metrics:

======  ====  ====  =================  =======
offset  size  type  field              meaning
======  ====  ====  =================  =======
0       8     u64   magic              "SILOMET1", written last
8       8     u64   layout_version     of this table and that of the history
1024    8     u64   put_bytes          append: bytes of the records that it has appended
1032    8     u64   file_rolls         append: how often it went on in the next file
1152    128   u64   refused            append: frames refused, a word for each PutMessageStatus
1280    256   line  put_time           append: histogram of puts until they are appended
1536    256   line  file_wait_time     append: histogram of waits for the next file
2048    256   line  commit_time        commit: histogram of writes of pool bytes to files
3200    256   line  sync_time          flush: histogram of syncs of the commit log
3456    256   line  queue_sync_time    flush: histogram of rounds that sync queues and index
4096    8     u64   dispatch_failures  reput: steps that a full disk stopped
4224    256   line  dispatch_time      reput: histogram of steps that dispatched something
5120    8     u64   files_made         allocate: commit-log files it has made
5128    8     u64   make_failures      allocate: files it could not make
5248    256   line  make_time          allocate: histogram of the making of files
6144    8     u64   queue_removed      clean: queue files removed
6152    8     u64   index_removed      clean: index files removed
6272    256   line  clean_time         clean: histogram of runs that removed commit-log files
7168    8     u64   requests           registry: requests of clients it has answered
7176    8     u64   requests_refused   registry: those that it answered with an error
7184    8     u64   leases             registry: leases of log files that readers asked for
7192    8     u64   rings              registry: sessions of clients with a ring; a level
7200    8     u64   members            registry: members of consumer groups; a level
7208    8     u64   get_found          registry: reads of local clients that found messages
7216    8     u64   get_missed         registry: reads of local clients that found none
7224    8     u64   get_messages       registry: messages that local clients read
7424    8     u64   delayed_waiting    schedule: messages that wait for their time; a level
7432    8     u64   delayed_delivered  schedule: delayed messages delivered
7680    8     u64   trans_open         transactions: transactions that are not ended; a level
7688    8     u64   trans_committed    transactions: transactions committed
7696    8     u64   trans_rolled_back  transactions: rolled back, and those that were given up
7704    8     u64   trans_checks       transactions: checks asked for
======  ====  ====  =================  =======

Layout histogram:

======  ====  ====  ==========  =======
offset  size  type  field       meaning
======  ====  ====  ==========  =======
0       8     u64   sum_ns      all times together
8       8     u64   longest_ns  the longest of them
16      216   u64   counts      times in each step: step n counts those below LIMITS_US[n]
======  ====  ====  ==========  =======
"""

from __future__ import annotations

import bisect
import time
from typing import TYPE_CHECKING, Final, ParamSpec

import msgspec

from ._words import OwnedWord, Word
from .control import LayoutError
from .ownership import READER, STARTUP, check_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Buffer

P = ParamSpec("P")

MAGIC: Final = int.from_bytes(b"SILOMET1", "little")
LAYOUT_VERSION: Final = 1
#: Bytes of the page. The history begins here.
SIZE: Final = 8192
#: Words of `refused`.
STATUSES: Final = 16
#: The upper ends of a histogram's steps, us. RocketMQ's ranges of put times end at some of them.
LIMITS_US: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000),
    *(100_000, 200_000, 500_000, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000),
    *(10_000_000, 30_000_000, 60_000_000),
)
STEPS: Final = len(LIMITS_US) + 1
_LIMITS_NS: Final = tuple(1000 * limit for limit in LIMITS_US)

METRICS: Final[dict[str, tuple[int, int]]] = {
    "magic": (0, 8),
    "layout_version": (8, 8),
    "put_bytes": (1024, 8),
    "file_rolls": (1032, 8),
    "refused": (1152, 8 * STATUSES),
    "put_time": (1280, 256),
    "file_wait_time": (1536, 256),
    "commit_time": (2048, 256),
    "sync_time": (3200, 256),
    "queue_sync_time": (3456, 256),
    "dispatch_failures": (4096, 8),
    "dispatch_time": (4224, 256),
    "files_made": (5120, 8),
    "make_failures": (5128, 8),
    "make_time": (5248, 256),
    "queue_removed": (6144, 8),
    "index_removed": (6152, 8),
    "clean_time": (6272, 256),
    "requests": (7168, 8),
    "requests_refused": (7176, 8),
    "leases": (7184, 8),
    "rings": (7192, 8),
    "members": (7200, 8),
    "get_found": (7208, 8),
    "get_missed": (7216, 8),
    "get_messages": (7224, 8),
    "delayed_waiting": (7424, 8),
    "delayed_delivered": (7432, 8),
    "trans_open": (7680, 8),
    "trans_committed": (7688, 8),
    "trans_rolled_back": (7696, 8),
    "trans_checks": (7704, 8),
}
HISTOGRAM: Final[dict[str, tuple[int, int]]] = {
    "sum_ns": (0, 8),
    "longest_ns": (8, 8),
    "counts": (16, 8 * STEPS),
}
LAYOUTS = {"metrics": METRICS, "histogram": HISTOGRAM}
_WRITTEN_BY: Final = {
    "append": ("put_bytes", "file_rolls", "refused", "put_time", "file_wait_time"),
    "commit": ("commit_time",),
    "flush": ("sync_time", "queue_sync_time"),
    "reput": ("dispatch_failures", "dispatch_time"),
    "allocate": ("files_made", "make_failures", "make_time"),
    "clean": ("queue_removed", "index_removed", "clean_time"),
    "registry": (
        *("requests", "requests_refused", "leases", "rings", "members"),
        *("get_found", "get_missed", "get_messages"),
    ),
    "schedule": ("delayed_waiting", "delayed_delivered"),
    "transactions": ("trans_open", "trans_committed", "trans_rolled_back", "trans_checks"),
}
#: Layout -> field -> writer; a field that is missing is written at start-up. A histogram's words
#: have the writer of the field that it lies in.
WRITERS: Final[dict[str, dict[str, str]]] = {
    "metrics": {name: who for who, fields in _WRITTEN_BY.items() for name in fields},
    "histogram": {},
}
assert HISTOGRAM["counts"][0] + HISTOGRAM["counts"][1] <= 256
assert max(at + size for at, size in METRICS.values()) <= SIZE


#: Stages that pause on purpose: they are never called slow.
_PAUSES: Final = frozenset(("clean",))


class Histogram(msgspec.Struct, frozen=True):
    """How many times were in each step, and their sum and maximum, ns."""

    counts: tuple[int, ...] = (0,) * STEPS
    sum_ns: int = 0
    longest_ns: int = 0

    @property
    def count(self) -> int:
        """How many times there were."""
        return sum(self.counts)

    def since(self, before: Histogram) -> Histogram:
        """What was counted after `before`. The longest time is that of all."""
        counts = tuple(map(int.__sub__, self.counts, before.counts))
        return Histogram(counts, self.sum_ns - before.sum_ns, self.longest_ns)

    def percentile_ns(self, share: float) -> int:
        """So long took this share of the times at most: the upper end of a step, or the longest
        time. 0 if there were none.
        """
        left = share * self.count
        for limit, count in zip(_LIMITS_NS, self.counts, strict=False):
            left -= count
            if left <= 0 < count:
                return min(limit, self.longest_ns)
        return self.longest_ns if self.count else 0

    def below_us(self, limit: int) -> int:
        """How many times were below `limit`, which is one of LIMITS_US."""
        return sum(self.counts[: LIMITS_US.index(limit) + 1])


class OwnHistogram:
    """A histogram that this process writes, and no other does. `watch` hears of each time."""

    def __init__(
        self, words: Iterator[OwnedWord], watch: Callable[[float], None] | None = None
    ) -> None:
        self._sum, self._longest, *self._counts = words
        self._watch = watch

    def look(self, seconds: float) -> None:
        """Has the one who watches hear of a time that is counted otherwise."""
        if self._watch is not None:
            self._watch(seconds)

    def timed(self, call: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Makes a call, and counts the time that it took."""
        began = time.monotonic()
        call(*args, **kwargs)
        self.add(time.monotonic() - began)

    def add(self, seconds: float) -> None:
        """Counts one time."""
        ns = max(0, round(seconds * 1e9))
        self._counts[bisect.bisect_right(_LIMITS_NS, ns)].add(1)
        self._sum.add(ns)
        if ns > self._longest.load():
            self._longest.store(ns)
        self.look(seconds)


class Metrics:
    """The page in `memory`, as a process with `role` may use it: as `Control`."""

    def __init__(self, memory: Buffer, role: str = READER) -> None:
        self.memory = memory
        self.role = role
        self._read: dict[str, list[Word]] = {}
        self._slow_s = 0.0
        self._tell: Callable[[str, float], None] | None = None

    def watch(self, slow_s: float, tell: Callable[[str, float], None]) -> None:
        """Has `tell` called with the stage and its seconds, for each time from `slow_s` on that a
        histogram counts which is asked for later. 0: for none.
        """
        self._slow_s, self._tell = slow_s, tell

    def _watcher(self, stage: str) -> Callable[[float], None] | None:
        limit, tell = self._slow_s, self._tell
        if not limit or tell is None or stage in _PAUSES:
            return None

        def look(seconds: float) -> None:
            if seconds >= limit:
                tell(stage, seconds)

        return look

    def create(self) -> None:
        """Writes the header of a new page. For start-up."""
        check_writer("magic", STARTUP, self.role)
        OwnedWord(self.memory, METRICS["layout_version"][0]).store(LAYOUT_VERSION)
        OwnedWord(self.memory, METRICS["magic"][0]).store(MAGIC)

    def check(self) -> None:
        """Raises LayoutError unless this is a page of this layout."""
        if self.load("magic") != MAGIC:
            raise LayoutError("not a page of SiloMQ's metrics (its magic is missing)")
        if self.load("layout_version") != LAYOUT_VERSION:
            raise LayoutError(
                f"the store's metrics have layout {self.load('layout_version')}, this program "
                f"knows {LAYOUT_VERSION}: use the same SiloMQ version on both sides"
            )

    def own(self, field: str) -> OwnedWord:
        """A counter to write. Raises NotTheWriter if another role writes it."""
        check_writer(field, WRITERS["metrics"].get(field, STARTUP), self.role)
        return OwnedWord(self.memory, METRICS[field][0])

    def own_histogram(self, field: str) -> OwnHistogram:
        """A histogram to write. Raises as `own`."""
        check_writer(field, WRITERS["metrics"][field], self.role)
        at, _ = METRICS[field]
        words = (OwnedWord(self.memory, at + 8 * i) for i in range(2 + STEPS))
        return OwnHistogram(words, self._watcher(field.removesuffix("_time")))

    def own_times(self, field: str) -> memoryview:
        """The memory of a histogram, for compiled code that writes it. Raises as `own`."""
        check_writer(field, WRITERS["metrics"][field], self.role)
        at, size = METRICS[field]
        return memoryview(self.memory)[at : at + size]

    def load(self, field: str) -> int:
        """The value of a counter."""
        return self.words(field)[0]

    def words(self, field: str) -> list[int]:
        """The values of all words of a field."""
        found = self._read.get(field)
        if found is None:
            at, size = METRICS[field]
            found = [Word(self.memory, at + 8 * i) for i in range(size // 8)]
            self._read[field] = found
        return [word.load() for word in found]

    def histogram(self, field: str) -> Histogram:
        """A histogram as it is now."""
        sum_ns, longest_ns, *counts = self.words(field)
        return Histogram(tuple(counts[:STEPS]), sum_ns, longest_ns)
