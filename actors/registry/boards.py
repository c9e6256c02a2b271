"""The boards of sessions (`shm/board.py`): the registry makes them, and hands them out to readers.
It also hands out the metrics page, and the pages on which sessions count their reads.

A board ends with the connection of its session. No other process has its descriptor, so the boards
of a killed registry are found no more. Their sessions ask its successor for new ones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ...shm import board
from ...shm.history import METRICS_SEGMENT
from ...shm.protocol.admin_requests import AskBoard
from ...shm.protocol.answer import Answer
from ...shm.protocol.answers import (
    BoardFound,
    BoardMade,
    MetricsFound,
    ReadsMade,
)
from ...shm.protocol.figure_requests import AskMetrics, AskReads, FindBoard
from ...shm.protocol.requests import BoardRequest
from ...shm.segments import open_segment
from ..actor import Session, World
from ..descriptors import HOW_TO_RAISE, WITH_BOARD
from .quotas import Quotas
from .read_pages import ReadPages
from .refusals import unavailable


class Boards:
    """The boards of those among `sessions` that have asked for one."""

    def __init__(self, world: World, quotas: Quotas, sessions: Mapping[int, Session]) -> None:
        self.reads = ReadPages(world.metrics, sessions)
        self._store_id = world.store_id
        self._quotas = quotas
        self._sessions = sessions

    def serve(self, session: Session, request: BoardRequest) -> tuple[Answer, tuple[int, ...]]:
        """The answer to a request of a session, and its descriptor. It is the caller's, who closes
        it, but for that of a BoardMade. Raises Refused if descriptors are short, and OSError.
        """
        match request:
            case AskBoard():
                return BoardMade(), (self._of(session),)
            case FindBoard():
                return self._find(request.after)
            case AskMetrics():
                return MetricsFound(), (open_segment(self._store_id, METRICS_SEGMENT),)
            case AskReads():
                return ReadsMade(), (self.reads.make(session.number),)

    def _of(self, session: Session) -> int:
        """The board of a session, made at its first request."""
        if session.board < 0:
            self._quotas.check_more("board", WITH_BOARD, self._sessions.values())
            try:
                session.board = board.create(session.number)
            except OSError as problem:
                raise unavailable(
                    f"the store cannot make a board now: {problem.strerror}; {HOW_TO_RAISE}"
                ) from problem
        return session.board

    def _find(self, after: int) -> tuple[BoardFound, tuple[int, ...]]:
        """The board of the first session behind number `after` that has one."""
        number = min(
            (n for n, session in self._sessions.items() if n > after and session.board >= 0),
            default=0,
        )
        if not number:
            return BoardFound(session=0, uid=0), ()
        session = self._sessions[number]
        return BoardFound(session=number, uid=session.uid), (board.for_readers(session.board),)

    def end(self, session: Session) -> None:
        """Closes the board of a session, if it has one, and takes its last counts."""
        self.reads.end(session.number)
        fd, session.board = session.board, -1
        if fd >= 0:
            os.close(fd)
