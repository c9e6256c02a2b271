"""Requests of administration: each connection has a few of them under way, the others wait in turn.

The registry answers one request after the other, and a change is synced to the disk first. Without
this limit thousands of changes by one client would stand before the requests of all others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..loop.tasks import Waiter
from ..wire.codes import ResponseCode
from .calls import Call, Handler, Handlers, Refused

if TYPE_CHECKING:
    from ..loop._connection import Connection
    from ..wire.command import Command

#: Requests of one connection that are under way at a time.
AT_ONCE: Final = 4


class InTurn:
    """`later` has a function called in the loop's next turn."""

    def __init__(self, later: Callable[[Callable[[], None]], None]) -> None:
        self._later = later
        self._under_way: dict[Connection, int] = {}
        self._waiting: dict[Connection, deque[Waiter[None]]] = {}

    def limited(self, handlers: Handlers) -> Handlers:
        """The same handlers, each with the limit of all of them."""
        return {code: self._limited(handler) for code, handler in handlers.items()}

    def _limited(self, handler: Handler) -> Handler:
        async def serve(call: Call) -> Command:
            connection = call.connection
            if self._under_way.get(connection, 0) < AT_ONCE:
                self._under_way[connection] = self._under_way.get(connection, 0) + 1
            else:
                turn: Waiter[None] = Waiter()
                self._waiting.setdefault(connection, deque()).append(turn)
                await turn
            try:
                if connection.closed:
                    why = "the connection has ended before it was this request's turn"
                    raise Refused(ResponseCode.SYSTEM_ERROR, why)
                call.check()
                return await handler(call)
            finally:
                self._hand_on(connection)

        return serve

    def _hand_on(self, connection: Connection) -> None:
        """Gives the place of a request that has ended to the one that waits longest."""
        waiting = self._waiting.get(connection)
        if waiting:
            turn = waiting.popleft()
            if not waiting:
                del self._waiting[connection]
            self._later(lambda: turn.set(None))
        elif self._under_way[connection] > 1:
            self._under_way[connection] -= 1
        else:
            del self._under_way[connection]
