"""`Choke`: no more requests are read while there is no room for what has come."""

from __future__ import annotations

from ._connection import Connection
from ._loop import Loop


class Choke:
    """Holds all peers of a loop back while anything that must have room is full."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._full: set[str] = set()
        self._held: set[Connection] = set()

    def tell(self, what: str, *, full: bool) -> None:
        """Notes whether `what` is full."""
        was_full = bool(self._full)
        (self._full.add if full else self._full.discard)(what)
        if self._full and not was_full:
            for connection in self._loop.connections.values():
                self.began(connection)
        elif was_full and not self._full:
            held, self._held = self._held, set()
            for connection in held:
                self._loop.call_soon(connection.release)

    def began(self, connection: Connection) -> None:
        """Takes in a peer that has connected."""
        if self._full:
            self._held.add(connection)
            connection.hold_back()


class Room:
    """Room for so many bytes, of which some are taken. The choke learns when it is full, and when
    half of it is free again.
    """

    def __init__(self, choke: Choke, what: str, size: int) -> None:
        self._choke = choke
        self._what = what
        self._size = size
        self._taken = 0
        self._is_full = False

    def take(self, count: int) -> None:
        """Takes some bytes, or gives back a negative number of them."""
        self._taken += count
        full = self._taken > (self._size // 2 if self._is_full else self._size)
        if full != self._is_full:
            self._is_full = full
            self._choke.tell(self._what, full=full)
