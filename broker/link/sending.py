"""`Sending`: the broker's ring. It puts records in, in the order in which they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sized
from typing import Final

from ...client.lookup.open_store import OpenStore
from ...client.producing import refusals
from ...client.producing._ring import Ring
from ...client.session import Connection
from ...shm.control import Control
from ...store.errors import IllegalMessage
from ...store.status import PutMessageStatus
from ..loop.tasks import Waiter
from ._sent import Sent, lose, put, settle
from .store import StoreGone, StoreLink

#: So many bytes of records may wait for room in the ring, before peers are held back.
_MOST_WAITING: Final = 8 << 20


class Sending:
    """Puts records into the ring of the link's session.

    `choked` is called with True when so much waits for room that no more requests should be read,
    and with False when it has gone.
    """

    def __init__(self, link: StoreLink, choked: Callable[[bool], None]) -> None:
        self._link = link
        self._choked = choked
        self._ring = Ring()
        self._waiting: deque[tuple[bytes, int, int, bool, Waiter[Sent]]] = deque()
        self._bytes = 0
        self._is_choked = False
        self._control: Control | None = None
        self._busy_ms = 0
        #: Messages that `put` has taken.
        self.messages = 0
        link.began.append(self._bind)
        link.ended.append(self._lose)

    def _bind(self, connection: Connection, _: OpenStore) -> None:
        config = connection.config
        assert connection.ring is not None
        self._control = connection.control
        self._busy_ms = config.page_cache_busy_ms
        self._ring.bind(
            connection.ring,
            connection.capacity,
            connection.control.memory,
            connection.bell,
            level=config.level,
            spin_ns=0,
            sync_timeout_ns=config.sync_flush_timeout_ms * 1_000_000,
        )

    def _lose(self) -> None:
        lose(self._ring)
        gone = StoreGone("the store has ended the session")
        self._bytes = 0
        while self._waiting:
            self._waiting.popleft()[4].fail(gone)
        self._tell()

    @property
    def ring(self) -> Ring:
        """The ring: the fast path puts records in by itself, as long as `waiting` is empty."""
        return self._ring

    @property
    def waiting(self) -> Sized:
        """What waits for room in the ring."""
        return self._waiting

    @property
    def awaits_answers(self) -> bool:
        """Whether answers of append are awaited."""
        return self._ring.tail < self._ring.head

    @property
    def awaits_syncs(self) -> bool:
        """Whether something that is appended waits for its sync."""
        return not self._ring.synced

    async def put(self, records: bytes, count: int, slot: int, *, wait: bool) -> Sent:
        """The store's answer to `count` records for the queue in `slot`. With `wait` it comes when
        they are as durable as the store promises. Raises IllegalMessage for records that fit into
        no frame, StoreGone.
        """
        if not self._link.is_up:
            raise StoreGone("the store does not run")
        if not self._ring.fits(len(records)):
            raise IllegalMessage(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"{len(records)} bytes of records: the broker's ring takes {self._ring.largest} at "
                "once (ring_size)",
            )
        self.messages += count
        answer: Waiter[Sent] = Waiter()
        if self._waiting or not put(self._ring, records, count, slot, answer.set, wait=wait):
            self._waiting.append((records, count, slot, wait, answer))
            self._bytes += len(records)
            self._tell()
        return await answer

    def settle(self) -> None:
        """Takes the store's answers, and puts in what had no room before."""
        settle(self._ring)
        while self._waiting:
            records, count, slot, wait, answer = self._waiting[0]
            if not put(self._ring, records, count, slot, answer.set, wait=wait):
                break
            self._waiting.popleft()
            self._bytes -= len(records)
        self._tell()

    def check(self) -> None:
        """Refuses what waits for room while append is stuck in a batch: the disk is too slow."""
        if self._waiting and self._control is not None:
            stuck = refusals.while_stuck(self._control, self._busy_ms)
            while stuck is not None and self._waiting:
                records, _, _, _, answer = self._waiting.popleft()
                self._bytes -= len(records)
                answer.fail(stuck)
            self._tell()

    def why(self, status: int) -> IllegalMessage:
        """The error of a status that the store has answered, with what its memory tells of it."""
        if self._control is None or status < 0:
            return IllegalMessage(
                PutMessageStatus.SERVICE_NOT_AVAILABLE,
                "the store ended before it answered: whether the message is stored is not known",
            )
        return refusals.refusal(status, self._control.memory)

    def _tell(self) -> None:
        choked = self._bytes > _MOST_WAITING
        if choked != self._is_choked:
            self._is_choked = choked
            self._choked(choked)
