"""Shares of memory: how many bytes clients may make the registry keep, together and for each user.

The registry keeps the parts of unfinished requests, and what is left of long answers. Each of the
two has four shares. A user has at most one, all users together have three. The store's own user and
root may take all four, so one is left for them whatever the others do.
"""

from __future__ import annotations

import weakref

from ...shm.parts import Room
from .access import Peer

_SHARES = 4


class Shares:
    """The rooms of all users. `share` is in bytes."""

    def __init__(self, share: int) -> None:
        self._share = share
        self._owners = Room(_SHARES * share)
        self._others = Room((_SHARES - 1) * share, self._owners)
        # A user's room goes with the last connection that uses it.
        self._rooms: weakref.WeakValueDictionary[int, Room] = weakref.WeakValueDictionary()

    def of(self, peer: Peer) -> Room:
        """The user's room. All its connections share it, and must keep it while they use it."""
        if peer.owner:
            return self._owners
        room = self._rooms.get(peer.uid)
        if room is None:
            room = self._rooms[peer.uid] = Room(self._share, self._others)
        return room
