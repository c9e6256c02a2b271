"""The producer's side of a ring in plain Python: actors that send use it.

Frames are those of `shm/ring.py`, and append serves this ring like a client's. Unlike a client's
ring it outlives its producer: the supervisor holds the memory, and the next process of that name
continues at `head`.
"""

from __future__ import annotations

import os
import struct

from ._checksum import crc32c
from ._memory import Mapping
from .control import Control
from .ownership import check_writer
from .ring import ALIGNMENT, DATA, FRAME_HEADER, KIND_PAD, KIND_RECORDS, Ring, largest_frame

_CHECKED = struct.Struct("<IIIII")
_HEADER = struct.Struct("<III")
_RESULT = struct.Struct("<qqqq")
_NO_RESULT = _RESULT.pack(-1, -1, -1, -1)


class RingWriter:
    """Writes frames of one record into the ring in `memory`, and reads their results.

    `bell` is the session's eventfd, `control` the control block of the calling process. Raises
    NotTheWriter in any process but the actor `writer`, whose ring it is.
    """

    def __init__(
        self, memory: Mapping, capacity: int, bell: int, control: Control, writer: str
    ) -> None:
        check_writer("the store's own ring", writer, control.role)
        ring = Ring(memory, "producer")
        self._view = memoryview(memory)
        self._capacity = capacity
        self._bell = bell
        self._append_asleep = control.word("append_asleep")
        self._head = ring.own("head")
        self.tail = ring.word("tail")
        self.closed = ring.word("closed")
        self.head = self._head.load()
        #: Frames below it may be overwritten. The caller moves it after it has read their results.
        self.reaped = self.tail.load()
        # Stays 1: append then wakes the sleepers on `tail` once for each batch of this ring.
        ring.own("producer_asleep").store(1)

    @property
    def largest_record(self) -> int:
        """Bytes of the longest record that always fits into the empty ring."""
        return largest_frame(self._capacity) - FRAME_HEADER

    def put(self, record: bytes, body: tuple[int, int], slot: int) -> tuple[int, int] | None:
        """Publishes a record for the queue in `slot`. None if the ring has no room.

        `body` is where the record's body begins and ends. Returns the frame's position in the ring
        and its end as a counter. The frame is answered when `tail` has reached its end.
        """
        length = -(-(FRAME_HEADER + len(record)) // ALIGNMENT) * ALIGNMENT
        at = self.head % self._capacity
        rest = self._capacity - at
        need = length if rest >= length else rest + length
        if self._capacity - (self.head - self.reaped) < need:
            return None
        view = self._view
        if rest < length:
            start = DATA + at
            view[start : start + FRAME_HEADER] = bytes(FRAME_HEADER)
            view[start : start + 8] = struct.pack("<II", rest, KIND_PAD)
            self.head += rest
            at = 0
        start = DATA + at
        checked = _CHECKED.pack(len(record), 1, slot, 0, 0)
        crc = crc32c(checked)
        crc = crc32c(record[: body[0]], crc)
        crc = crc32c(record[body[1] :], crc)
        header = _HEADER.pack(length, KIND_RECORDS, crc) + checked + _NO_RESULT
        view[start : start + FRAME_HEADER] = header
        view[start + FRAME_HEADER : start + FRAME_HEADER + len(record)] = record
        self.head += length
        self._head.publish(self.head, self._append_asleep)  # SYNC: ring-head publish
        self.ring_bell()
        return at, self.head

    def ring_bell(self) -> None:
        """Wakes append if it sleeps."""
        if self._append_asleep.load():  # SYNC: append-asleep observe
            os.eventfd_write(self._bell, 1)

    def result(self, at: int) -> tuple[int, int, int]:
        """(status, physical offset, queue offset) of the answered frame at position `at` of the
        ring.
        """
        status, offset, queue_offset, _ = _RESULT.unpack_from(
            self._view, DATA + at + FRAME_HEADER - 32
        )
        return status, offset, queue_offset
