"""`OwnRing`: puts records into the log through the process's own ring, and awaits the answers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...shm._memory import Mapping
from ...shm._words import fault
from ...shm.control import Control
from ...shm.ring import DATA
from ...shm.ringwriter import RingWriter
from ...store.errors import StoreError
from ...store.status import PutMessageStatus
from ..actor import Session

#: How long a process that is to end waits for answers (s).
_DRAIN_S = 2.0
_WAIT_S = 0.1


class Interrupted(Exception):
    """The process is to end, and append does not answer."""


class Frame(NamedTuple):
    """A record to put: its bytes, (begin, end) of its body, and the slot of its queue."""

    record: bytes
    body: tuple[int, int]
    slot: int


class Placed(NamedTuple):
    """What append answered: a put status, the offset in the log, and that in the queue."""

    status: int
    offset: int
    queue_offset: int

    @property
    def stored(self) -> bool:
        return self.status == PutMessageStatus.PUT_OK


class OwnRing:
    """The ring of the process `writer`. `beat` is its heartbeat, and says whether it is to end."""

    def __init__(
        self, session: Session, control: Control, writer: str, beat: Callable[[], bool]
    ) -> None:
        memory = Mapping(session.ring, 0, DATA + session.capacity)
        self._ring = RingWriter(memory, session.capacity, session.bell, control, writer)
        self._beat = beat

    @property
    def largest_record(self) -> int:
        """Bytes of the longest record that fits into the ring."""
        return self._ring.largest_record

    def settle(self) -> bool:
        """Waits until append has answered all frames of a killed process, even if append was
        replaced as well. False if this process is to end first. Raises StoreError.
        """
        ring = self._ring
        while (seen := ring.tail.load()) < ring.head:
            if self._beat():
                return False
            self._check()
            ring.ring_bell()
            ring.tail.wait(seen, _WAIT_S)
        ring.reaped = ring.head
        return True

    def _check(self) -> None:
        if self._ring.closed.load():
            raise StoreError("append has closed the ring of the store's own messages")

    def put(self, frames: Sequence[Frame]) -> list[Placed]:
        """Puts records, in this order, and returns append's answers. Raises Interrupted,
        StoreError.
        """
        ring = self._ring
        pending: deque[tuple[int, int]] = deque()
        placed: list[Placed] = []
        deadline = 0.0
        left = deque(frames)
        while left or pending:
            while left and (frame := ring.put(*left[0])) is not None:
                left.popleft()
                pending.append(frame)
            fault("transactions:put")
            seen = ring.tail.load()  # SYNC: ring-tail observe
            if not pending or pending[0][1] > seen:
                if self._beat():
                    deadline = deadline or time.monotonic() + _DRAIN_S
                    if time.monotonic() >= deadline:
                        raise Interrupted
                self._check()
                ring.ring_bell()
                ring.tail.wait(seen, _WAIT_S)
                continue
            while pending and pending[0][1] <= seen:
                at, end = pending.popleft()
                placed.append(Placed(*ring.result(at)))
                ring.reaped = end
        ring.reaped = ring.head
        fault("transactions:answered")
        return placed
