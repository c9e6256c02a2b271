"""The sessions' part of the topic table: what a session may write, where it reads, and whether
there is news for it. `table_layout.py` owns the layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...shm._words import OwnedWord, Word
from .table_layout import NOTICE_SIZE, check_table_writer

if TYPE_CHECKING:
    from typing_extensions import Buffer


class SessionWords:
    """Grants, leases and notices by the index of a session. Methods that write are the registry's
    and start-up's: other roles get NotTheWriter.
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
        """Lets a session of the store itself write to every topic, also those that come later."""
        at, end = self._own_grants(session)
        self.view[at:end] = b"\xff" * (end - at)

    def revoke(self, topic: int, sessions: int) -> None:
        """Takes the topic back from the first `sessions` sessions. The clients' come first, the
        store's own behind them.
        """
        for session in range(sessions):
            at = self._own_grants(session)[0] + topic // 8
            self.view[at] &= ~(1 << (topic % 8)) & 0xFF

    def revoke_all(self, session: int) -> None:
        """Takes back what the session was granted, and its lease."""
        at, end = self._own_grants(session)
        self.view[at:end] = bytes(end - at)
        self.lease(session, None)

    def lease(self, session: int, offset: int | None) -> None:
        """The session reads the commit-log file that holds `offset`; None: it reads none."""
        check_table_writer("lease", "offset", self.role)
        word = OwnedWord(self.memory, self._leases_at + 8 * session)
        word.store(0 if offset is None else offset + 1)

    def leases(self) -> list[int]:
        """Commit-log offsets in files that readers hold."""
        words = self.view[self._leases_at : self._leases_at + 8 * self.max_sessions].cast("Q")
        return [value - 1 for value in words.tolist() if value]

    def notice(self, session: int) -> Word:
        """The word on which the session hears of news."""
        return Word(self.memory, self._notices_at + NOTICE_SIZE * session)

    def notify(self, session: int) -> None:
        """There is news for the session: its assignment, or the end of the store."""
        check_table_writer("notice", "news", self.role)
        word = OwnedWord(self.memory, self._notices_at + NOTICE_SIZE * session)
        word.add(1)  # SYNC: notice publish
        word.wake()
