"""What counting costs append: its rate with the metrics page beside that without, in one run.

Two kernels work in this process, on the same frames, in turns. So whatever else the machine does
disturbs both alike.
"""

from __future__ import annotations

import struct
import time
from typing import Final

import crc32c

from ..shm import ring
from ..shm.control import SIZE, Control
from ..shm.metrics import SIZE as METRICS_SIZE
from ..shm.ownership import STARTUP
from ..shm.ring import DATA, FRAME_HEADER, KIND_RECORDS
from ..store.commitlog import _append as kernel
from ..store.record.format import encode_record
from ..store.record.ids import Host
from ..store.topics.table_layout import Plan as TablePlan
from ..store.topics.topic_table import TopicTable
from .rows import Plan, Row

_CAPACITY: Final = 1 << 20
_LOG: Final = 64 << 20
_ROUNDS: Final = 200
_BODY: Final = b"x" * 128
_PROPERTIES: Final = b"UNIQ_KEY\x01" + b"0" * 32 + b"\x02"


class _Append:
    """An append kernel with memory of its own, and one ring."""

    def __init__(self, frame: bytes, *, counts: bool) -> None:
        plan = TablePlan(max_topics=2, max_queues=2, max_sessions=2)
        self._control = Control(bytearray(SIZE), STARTUP)
        self._control.create(1)
        table = TopicTable.create(bytearray(plan.size), plan)
        table.add_topic("bench", write_nums=1, read_nums=1, perm=6)
        table.grant_all(0)
        self._memory = bytearray(DATA + _CAPACITY)
        self._head = ring.RING["head"][0]
        self._published = 0
        self._count = _CAPACITY // len(frame)
        self._frames = frame * self._count
        self._log = bytearray(_LOG)
        self._kernel = kernel.Appender(
            self._control.memory,
            table.memory,
            2,
            store_host=Host.of("127.0.0.1", 10911).packed(),
            batch_bytes=1 << 17,
            max_body=4 << 20,
            append_crc=False,
            light=False,
            sleeper=0,
            cores=2,
            metrics=bytearray(METRICS_SIZE) if counts else None,
        )
        self._kernel.set_file(self._log, 0)
        self._kernel.attach(0, self._memory, _CAPACITY, 0, 0)

    def rate(self, rounds: int) -> float:
        """Messages a second over so many rings full of frames."""
        spent = 0.0
        for _ in range(rounds):
            self._memory[DATA : DATA + len(self._frames)] = self._frames
            self._published += len(self._frames)
            struct.pack_into("<Q", self._memory, self._head, self._published)
            began = time.perf_counter()
            while self._kernel.run(0, 10**9) != kernel.IDLE:
                pass
            spent += time.perf_counter() - began
        return rounds * self._count / spent


def _frame() -> bytes:
    record = encode_record(b"bench", _BODY, _PROPERTIES, queue_id=0, flag=0)
    at = record.index(_BODY)
    length = -(-(FRAME_HEADER + len(record)) // 1024) * 1024  # so that the ring has no rest
    now_us = time.time_ns() // 1000 & 0xFFFFFFFF
    checked = struct.pack("<IIIII", len(record), 1, 0, 0, now_us)
    crc = crc32c.crc32c(
        record[at + len(_BODY) :], crc32c.crc32c(record[:at], crc32c.crc32c(checked))
    )
    header = struct.pack("<III", length, KIND_RECORDS, crc) + checked
    return (header + bytes(FRAME_HEADER - len(header)) + record).ljust(length, b"\0")


def counting(plan: Plan) -> list[Row]:
    """One row: the rate with counting, and beside it the rate without."""
    frame = _frame()
    with_page: list[float] = []
    without: list[float] = []
    for _ in range(plan.runs):
        for counts, found in ((True, with_page), (False, without)):
            rounds = min(plan.count(_ROUNDS), _LOG // _CAPACITY - 3)
            found.append(_Append(frame, counts=counts).rate(rounds))
    return [Row("append, counting puts", "1/s", with_page, "append, not counting", without)]
