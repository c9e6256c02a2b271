"""The history of the last hour: one row a second of what a store has done so far.

The supervisor writes it, so it goes on while actors are replaced. It is a ring of ROWS rows behind
the metrics page, in the same segment. Rows hold counters, not rates: a reader takes two rows and
divides. A row has its own time, so a gap (a machine that slept) is seen as one.

The writer fills a row, then publishes `written`. A reader copies rows, and drops those that the
writer may have reached again meanwhile, as `written` shows.

Layout history:

======  ====  ====  =======  =======
offset  size  type  field    meaning
======  ====  ====  =======  =======
0       8     u64   written  supervisor: rows written so far; row n lies at n modulo 3,600
======  ====  ====  =======  =======

The rows follow at offset 128.

Layout row:

======  ====  ====  ===============  =======
offset  size  type  field            meaning
======  ====  ====  ===============  =======
0       8     u64   time_ms          supervisor: epoch ms
8       8     u64   clock_ns         supervisor: monotonic ns
16      8     u64   wrote            supervisor: the word of that name, as those below
24      8     u64   records          supervisor: messages appended
32      8     u64   rejected         supervisor: frames refused
40      8     u64   put_bytes        supervisor: bytes of appended records
48      8     u64   committed        supervisor: end of the bytes in files
56      8     u64   flushed          supervisor: end of the durable bytes
64      8     u64   flushes          supervisor: syncs of the commit log
72      8     u64   dispatched       supervisor: end of the dispatched bytes
80      8     u64   dispatch_count   supervisor: queue entries written
88      8     u64   min_offset       supervisor: start of the first log file
96      8     u64   sessions         supervisor: client sessions; a level
104     8     u64   get_found        supervisor: reads that found messages
112     8     u64   get_missed       supervisor: reads that found none
120     8     u64   get_messages     supervisor: messages read by local clients
128     8     u64   delayed_waiting  supervisor: messages that wait for their time; a level
136     8     u64   trans_open       supervisor: open transactions; a level
144     8     u64   puts             supervisor: frames in `put_time`
152     8     u64   put_sum_ns       supervisor: the sum of their times
160     8     u64   put_p50_ns       supervisor: of the puts since the row before; a level
168     8     u64   put_p99_ns       supervisor: the same
176     8     u64   syncs            supervisor: times in `sync_time`
184     8     u64   sync_sum_ns      supervisor: their sum
192     8     u64   sync_p99_ns      supervisor: of the syncs since the row before; a level
======  ====  ====  ===============  =======
"""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from ._words import OwnedWord, Word
from .metrics import SIZE as PAGE
from .metrics import Histogram, Metrics
from .ownership import check_writer

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from .control import Control

ROWS: Final = 3600
ROW_SIZE: Final = 256
_DATA: Final = 128
#: The kind of the segment (`segments.py`), and its bytes: the page, and the history.
METRICS_SEGMENT: Final = "metrics"
SEGMENT_SIZE: Final = PAGE + _DATA + ROWS * ROW_SIZE
#: Rows are as far apart as this, or farther (ns).
EVERY_NS: Final = 1_000_000_000
#: Fields that repeat words of the control block, and of the metrics page.
_OF_CONTROL: Final = (
    *("wrote", "records", "rejected", "committed", "flushed", "flushes", "dispatched"),
    *("dispatch_count", "min_offset", "sessions"),
)
_OF_METRICS: Final = (
    *("put_bytes", "get_found", "get_missed", "get_messages", "delayed_waiting", "trans_open"),
)


class Row(NamedTuple):
    """One row. The layout `row` has the meaning of each field."""

    time_ms: int
    clock_ns: int
    wrote: int
    records: int
    rejected: int
    put_bytes: int
    committed: int
    flushed: int
    flushes: int
    dispatched: int
    dispatch_count: int
    min_offset: int
    sessions: int
    get_found: int
    get_missed: int
    get_messages: int
    delayed_waiting: int
    trans_open: int
    puts: int
    put_sum_ns: int
    put_p50_ns: int
    put_p99_ns: int
    syncs: int
    sync_sum_ns: int
    sync_p99_ns: int


HISTORY: Final[dict[str, tuple[int, int]]] = {"written": (0, 8)}
ROW: Final = {name: (8 * i, 8) for i, name in enumerate(Row._fields)}
LAYOUTS = {"history": HISTORY, "row": ROW}
#: Layout -> field -> writer.
WRITERS = {
    "history": {"written": "supervisor"},
    "row": dict.fromkeys(ROW, "supervisor"),
}
_ROW: Final = struct.Struct(f"<{len(ROW)}Q")

assert _ROW.size <= ROW_SIZE


class Looker:
    """Makes rows out of a store's shared words."""

    def __init__(self, control: Control, metrics: Metrics) -> None:
        self._control = {name: control.word(name) for name in _OF_CONTROL}
        self._metrics = metrics
        self._put, self._sync = Histogram(), Histogram()

    def row(self) -> Row:
        """The row of this moment. Its percentiles are of the time since the call before."""
        put, sync = self._metrics.histogram("put_time"), self._metrics.histogram("sync_time")
        puts, syncs = put.since(self._put), sync.since(self._sync)
        self._put, self._sync = put, sync
        return Row(
            time_ms=time.time_ns() // 1_000_000,
            clock_ns=time.monotonic_ns(),
            **{name: word.load() for name, word in self._control.items()},
            **{name: self._metrics.load(name) for name in _OF_METRICS},
            puts=put.count,
            put_sum_ns=put.sum_ns,
            put_p50_ns=puts.percentile_ns(0.5),
            put_p99_ns=puts.percentile_ns(0.99),
            syncs=sync.count,
            sync_sum_ns=sync.sum_ns,
            sync_p99_ns=syncs.percentile_ns(0.99),
        )


class HistoryWriter:
    """Writes a row a second about a store with this control block. `memory` is the segment."""

    def __init__(self, memory: Buffer, control: Control, metrics: Metrics) -> None:
        check_writer("written", WRITERS["history"]["written"], control.role)
        self._memory = memoryview(memory)
        self._written = OwnedWord(memory, PAGE)
        self._looker = Looker(control, metrics)
        self._due_ns = 0

    def tick(self) -> None:
        """Writes a row if it is time. To be called at least once a second."""
        now_ns = time.monotonic_ns()
        if now_ns < self._due_ns:
            return
        # Rows keep their rhythm, unless this process has stood still.
        late = now_ns - self._due_ns > EVERY_NS
        self._due_ns = (now_ns if late else self._due_ns) + EVERY_NS
        number = self._written.load()
        _ROW.pack_into(self._memory, _place(number), *self._looker.row())
        self._written.store(number + 1)  # SYNC: history-row publish


class History:
    """The history in `memory` (the segment), to read."""

    def __init__(self, memory: Buffer) -> None:
        self._memory = memoryview(memory)
        self._written = Word(memory, PAGE)

    def rows(self, seconds: int = ROWS) -> list[Row]:
        """The rows of about so many last seconds, the oldest first."""
        end = self._written.load()  # SYNC: history-row observe
        begin = max(0, end - min(seconds, ROWS - 1))
        copied = [_ROW.unpack_from(self._memory, _place(number)) for number in range(begin, end)]
        # The writer may have come round to the oldest of them, and fills one more now.
        spoilt = max(0, self._written.load() + 1 - ROWS - begin)
        return [Row(*values) for values in copied[spoilt:]]


def _place(number: int) -> int:
    return PAGE + _DATA + number % ROWS * ROW_SIZE
