"""`Settling`: puts the op records for halves that are done."""

from __future__ import annotations

from typing import Any, Final

from ...conf.settings import Settings
from ...store.names import TRANS_OP_HALF_TOPIC
from ...store.record.copies import body_span
from ...store.record.ids import Host
from ...store.transactions.book import Book
from ...store.transactions.half import Half
from ...store.transactions.ops import encode_op, op_bodies
from ..goal_topics import NoTopic
from .goals import PAUSE_MS, Goals
from .own_ring import Frame, OwnRing
from .state import State

RETRY_MS: Final = 100


class Settling:
    """The transactions that have ended but for their op record, by identity."""

    def __init__(
        self,
        book: Book,
        goals: Goals,
        ring: OwnRing,
        host: Host,
        *,
        settings: Settings,
        logger: Any,
    ) -> None:
        self._book = book
        self._goals = goals
        self._ring = ring
        self._host = host
        self._logger = logger
        self._settings = settings
        self.ended: dict[bytes, None] = {}

    def settle(self, state: State, now_ms: int) -> int:
        """Puts op records for all halves that are done, and closes what has ended. Returns 0 if
        there is no more to do, otherwise when (epoch ms) to try again. Raises Interrupted.
        """
        book = self._book
        for identity in [one for one in self.ended if book.find(one) is None]:
            del self.ended[identity]
        ended = [half for half in map(book.find, self.ended) if half is not None]
        stale = [half for half in book.stale() if half.identity not in self.ended]
        named = [n for half in ended for n in half.queue_offsets]
        named += [n for half in stale for n in half.older]
        if not named:
            return 0
        try:
            slot, _ = self._goals.slot(TRANS_OP_HALF_TOPIC, 0, now_ms)
        except NoTopic as error:
            self._logger.error("an op record waits for its topic", why=str(error))
            return now_ms + PAUSE_MS
        done = self._put(named, slot, state, now_ms)
        self._close(ended, stale, done)
        return 0 if len(done) == len(named) else now_ms + RETRY_MS

    def _put(self, named: list[int], slot: int, state: State, now_ms: int) -> set[int]:
        """Puts the op records for these halves. Returns those for which append has stored one."""
        bodies = list(op_bodies(named, self._settings.transaction_op_msg_max_size))
        frames, record_crc = [], self._settings.enabled_append_prop_crc
        for body, _ in bodies:
            record = encode_op(body, now_ms, self._host, record_crc=record_crc)
            frames.append(Frame(record, body_span(self._host, self._host, body), slot))
        done: set[int] = set()
        for (_, held), placed in zip(bodies, self._ring.put(frames), strict=True):
            if placed.stored:
                state.op_seen(placed.queue_offset, held)
                done.update(held)
        return done

    def _close(self, ended: list[Half], stale: list[Half], done: set[int]) -> None:
        for half in ended:
            if done.issuperset(half.queue_offsets):
                self._book.end(half)
                del self.ended[half.identity]
        for half in stale:
            self._book.superseded(half, done)
