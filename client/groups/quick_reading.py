"""`QuickReading`: how a reader gets messages while there is nothing else to see to."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from ..consuming.message_view import MessageView
from ..consuming.store_view import StoreView
from ..liveness import RECENT_S, Liveness
from ._assigned_queue import AssignedQueue
from ._quick_turns import QuickTurns
from .listener import Listener
from .membership import Membership
from .messages_ahead import MessagesAhead
from .subscription import Selection


class QuickReading:
    """Has `QuickTurns` read the queues that are assigned now, for the reader with this lock, these
    parts and filters. They end when there is something that the reader must do itself, and at once
    if there is: before the first assignment, or when checksums are to be checked.
    """

    def __init__(
        self,
        lock: threading.RLock,
        view: StoreView,
        membership: Membership,
        liveness: Liveness,
        selections: Mapping[str, Selection],
    ) -> None:
        self._lock = lock
        self._view = view
        self._membership = membership
        self._liveness = liveness
        self._selections = selections
        self._turns: QuickTurns | None = None
        self._closed = False

    def call_back(
        self, listener: Listener, limit: int, max_bytes: int
    ) -> tuple[AssignedQueue, list[MessageView]] | None:
        """As `QuickTurns.call_back`."""
        turns = self._begin()
        if turns is None:
            return None
        try:
            return turns.call_back(listener, limit, max_bytes)
        finally:
            self._view.link.reads.add(*turns.take_counts())

    def poll(
        self, read: set[AssignedQueue], limit: int, max_bytes: int, deadline_s: float
    ) -> list[MessageView] | None:
        """As `QuickTurns.poll`."""
        turns = self._begin()
        if turns is None:
            return None
        try:
            return turns.poll(read, limit, max_bytes, deadline_s)
        finally:
            self._view.link.reads.add(*turns.take_counts())

    def read_ahead(self, ahead: MessagesAhead, read: set[AssignedQueue], limit: int) -> bool:
        """As `QuickTurns.read_ahead`."""
        turns = self._begin()
        if turns is None:
            return False
        try:
            return turns.read_ahead(ahead, read, limit)
        finally:
            self._view.link.reads.add(*turns.take_counts())

    def close(self) -> None:
        """Has turns that run now acknowledge nothing more. With the lock held."""
        self._closed = True
        if self._turns is not None:
            self._turns.closed = True

    def _begin(self) -> QuickTurns | None:
        with self._lock:  # `close` sees what is made here
            return None if self._closed else self._renew()

    def _renew(self) -> QuickTurns | None:
        membership = self._membership
        if membership.notice_seen < 0 or self._view.check_crc:
            return None
        turns = self._turns
        if turns is None or turns.words is not membership.words:
            queues = membership.queues
            filters = [self._selections[assigned.queue[0]] for assigned in queues]
            turns = QuickTurns(self._lock, membership.words, queues, filters, self._view.wrote)
            self._turns = turns
        sleep_until_s = self._liveness.looked + RECENT_S
        turns.begin(membership.notice_seen, self._view.most_written, sleep_until_s)
        return turns
