"""The sessions' part of the topic table: grants (to which topics a session may write), leases
(where it reads), and notices (which wake it). `table_layout.py` owns the layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...shm._words import OwnedWord, Word
from .table_layout import NOTICE_SIZE, check_table_writer

if TYPE_CHECKING:
    from typing_extensions import Buffer


class SessionWords:
    """Grants, leases and notices by the index of a session. Only the registry and a start may call
    methods that write; in other roles they raise NotTheWriter.
    """

    memory: Buffer
    view: memoryview
    role: str
    max_sessions: int
    _grants_at: int
    _grant_stride: int
    _leases_at: int
    _notices_at: int

    def _grant_range(self, session: int) -> tuple[int, int]:
        at = self._grants_at + self._grant_stride * session
        return at, at + self._grant_stride

    def _own_grants(self, session: int) -> tuple[int, int]:
        check_table_writer("grant", "topics", self.role)
        return self._grant_range(session)

    def grant(self, session: int, topic: int) -> None:
        """Lets the session write to the topic."""
        at = self._own_grants(session)[0] + topic // 8
        self.view[at] |= 1 << (topic % 8)

    def grant_all(self, session: int) -> None:
        """Lets a session of the store itself write to every topic, also to future ones."""
        at, end = self._own_grants(session)
        self.view[at:end] = b"\xff" * (end - at)

    def revoke(self, topic: int, sessions: int) -> None:
        """Revokes the grant of a topic from the first `sessions` sessions. Those of clients come
        first, the store's own behind them.
        """
        for session in range(sessions):
            at = self._own_grants(session)[0] + topic // 8
            self.view[at] &= ~(1 << (topic % 8)) & 0xFF

    def revoke_all(self, session: int) -> None:
        """Revokes all grants of the session, and its lease."""
        at, end = self._own_grants(session)
        self.view[at:end] = bytes(end - at)
        self.lease(session, None)

    def lease(self, session: int, offset: int | None) -> None:
        """Sets the session's lease to the commit-log file that holds `offset`; None: no lease."""
        check_table_writer("lease", "offset", self.role)
        word = OwnedWord(self.memory, self._leases_at + 8 * session)
        word.store(0 if offset is None else offset + 1)

    def leases(self) -> list[int]:
        """The log offsets of all leases."""
        words = self.view[self._leases_at : self._leases_at + 8 * self.max_sessions].cast("Q")
        return [value - 1 for value in words.tolist() if value]

    def notice(self, session: int) -> Word:
        """The word on which the session's client sleeps."""
        return Word(self.memory, self._notices_at + NOTICE_SIZE * session)

    def notify(self, session: int) -> None:
        """Wakes the session's client for news: a new assignment, or the end of the store."""
        check_table_writer("notice", "news", self.role)
        word = OwnedWord(self.memory, self._notices_at + NOTICE_SIZE * session)
        word.add(1)  # SYNC: notice publish
        word.wake()
