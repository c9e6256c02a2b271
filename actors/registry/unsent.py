"""Unsent answers: what a client's socket had no room for. It waits until the client reads.

No request of a client is read while an answer to it is unsent, so each connection has at most one.
The bytes of all have bounds (`shares.py`): a client whose answer does not fit is told to try again.
A client that reads nothing of its answer for 30 s loses its connection.

A notice of a new registry waits here as well. It has no time limit: an idle client reads it with
its next request.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Iterable

import msgspec

from ...shm import mail
from ...shm.parts import Room

_PATIENCE_S = 30.0


class _Rest(msgspec.Struct):
    """Packets of one answer, the `room` in which they count, if any, and when the client has read
    last (monotonic seconds).
    """

    packets: deque[bytes]
    room: Room | None
    since: float

    def sent(self) -> None:
        self._give(self.packets.popleft())
        self.since = time.monotonic()

    def drop(self) -> None:
        while self.packets:
            self._give(self.packets.popleft())

    def _give(self, packet: bytes) -> None:
        if self.room is not None:
            self.room.give(len(packet))


class Unsent:
    """The rests of answers, by the descriptor of their connections."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._rests: dict[int, _Rest] = {}

    def put(self, connection: socket.socket, packets: Iterable[bytes], room: Room | None) -> bool:
        """Takes the packets of an answer, to be sent by `send`. The client's requests are not read
        until then. False if there is no room for them; None is the unbounded room of a notice.
        """
        rest = deque(packets)
        if room is not None and not room.take(sum(map(len, rest))):
            return False
        self._rests[connection.fileno()] = _Rest(rest, room, time.monotonic())
        self._selector.modify(connection, selectors.EVENT_WRITE)
        return True

    def send(self, connection: socket.socket) -> None:
        """Sends what the socket has room for. Raises OSError when the client has closed it."""
        rest = self._rests.get(connection.fileno())
        if rest is None:
            return
        try:
            while rest.packets:
                mail.send_packet(connection, rest.packets[0])
                rest.sent()
        except BlockingIOError:
            return
        self.drop(connection.fileno())
        self._selector.modify(connection, selectors.EVENT_READ)

    def drop(self, fd: int) -> None:
        """Forgets the answer to a connection, if there is one."""
        rest = self._rests.pop(fd, None)
        if rest is not None:
            rest.drop()

    def overdue(self) -> list[int]:
        """The connections whose clients have read nothing of their answers for 30 s."""
        limit = time.monotonic() - _PATIENCE_S
        return [fd for fd, rest in self._rests.items() if rest.room and rest.since < limit]
