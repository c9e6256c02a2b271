"""`Relay`: requests of the broker to its clients, and their answers."""

from __future__ import annotations

from typing import Final

from ..loop._connection import Connection
from ..loop._loop import Loop
from ..loop.tasks import Waiter
from ..wire.command import ONE_WAY, Command, Serialization

#: A peer that has left so many bytes unread gets no further request of the broker.
_MOST_UNREAD: Final = 1 << 20


class Relay:
    """Numbers the broker's own requests, and finds who waits for an answer. They are written in the
    serialisation of the peer's last request, which is the connection's `state`.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._opaque = 0
        self._waiting: dict[tuple[Connection, int], Waiter[Command | None]] = {}

    def tell(self, connection: Connection, command: Command) -> None:
        """Sends a one-way request, unless the peer leaves much unread: it is told nothing more."""
        if connection.unsent > _MOST_UNREAD:
            return
        self._opaque = self._opaque + 1 & 0x7FFF_FFFF
        command.opaque = self._opaque
        command.flag = ONE_WAY
        command.serialization = connection.state or Serialization.JSON
        connection.send(command.encode())

    async def ask(
        self, connection: Connection, command: Command, patience_s: float
    ) -> Command | None:
        """A client's answer to a request; None if it does not come in time, or not at all. A client
        that has gone, or leaves much unread, is not asked.
        """
        if connection.closed or connection.unsent > _MOST_UNREAD:
            return None
        self._opaque = self._opaque + 1 & 0x7FFF_FFFF
        command.opaque = self._opaque
        command.serialization = connection.state or Serialization.JSON
        key = connection, command.opaque
        frame = command.encode()
        waiter = self._waiting[key] = Waiter()
        connection.send(frame)
        timer = self._loop.call_later(patience_s, lambda: waiter.set(None))
        try:
            return await waiter
        finally:
            timer.cancel()
            del self._waiting[key]

    def answered(self, connection: Connection, answer: Command) -> None:
        """Hands on an answer. One for which nobody waits any more is dropped."""
        waiter = self._waiting.get((connection, answer.opaque))
        if waiter is not None:
            waiter.set(answer)

    def disconnected(self, connection: Connection) -> None:
        """Ends the wait for a client that has gone."""
        for key, waiter in list(self._waiting.items()):
            if key[0] is connection:
                waiter.set(None)
