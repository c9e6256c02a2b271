"""`StatusBoard`: the board of the broker's session, from which `silo status` reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from ...shm.board import BoardWriter
from ...shm.control import process_number
from ...shm.protocol.admin_requests import AskBoard
from ...shm.protocol.answers import BoardMade
from ...store.errors import StoreError
from ..loop.tasks import start
from .store import StoreLink

#: A registry that has refused is asked again after so long (s).
_AGAIN_S: Final = 10.0


class StatusBoard:
    """Puts `document()` on the board at each tick. Each session asks for a board, and again when
    the registry was replaced.
    """

    def __init__(self, link: StoreLink, document: Callable[[], bytes], logger: Any) -> None:
        self._link = link
        self._document = document
        self._logger = logger
        self._writer: BoardWriter | None = None
        self._new: BoardWriter | None = None
        self._starts = -1  # of the registry that has made the board
        self._asking = False
        self._again_at = 0.0
        link.ended.append(self._lose)

    def _lose(self) -> None:
        self._writer = None
        self._starts = -1

    def tick(self) -> None:
        """Writes the document. To be called once a second."""
        if not self._link.is_up:
            return
        if self._writer is not None:
            self._writer.write(self._document())
        _, starts, _, _ = self._link.connection.control.process(process_number("registry"))
        if starts != self._starts and not self._asking and time.monotonic() >= self._again_at:
            self._asking = True
            start(self._ask(starts))

    async def _ask(self, starts: int) -> None:
        connection = self._link.connection
        try:
            await self._link.ask_with(AskBoard(), self._take)
        except (StoreError, OSError) as error:
            self._again_at = time.monotonic() + _AGAIN_S
            self._logger.warning("silo status cannot show this broker", why=str(error))
            return
        finally:
            self._asking = False
        new, self._new = self._new, None
        if new is not None and self._link.is_up and self._link.connection is connection:
            self._writer, self._starts = new, starts
            new.write(self._document())

    def _take(self, _: BoardMade, fds: list[int]) -> None:
        """In the thread of requests."""
        self._new = BoardWriter(*fds)
