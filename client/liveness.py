"""`Liveness`: whether the store still has a session, which a reader must ask before it sleeps."""

from __future__ import annotations

import time
from typing import Final

from ..shm.control import StoreState
from .errors import SessionLost, StoreClosed
from .session import Connection

#: A look at the session costs as much as reading a few messages. So a reader that has just looked
#: sleeps for this time (s) at most, and looks then.
RECENT_S: Final = 0.05


class Liveness:
    """Looks at the session `link`. `lost` says what it means for a group's member that the session
    is over; for another reader the store has stopped then.
    """

    def __init__(self, link: Connection, lost: str = "") -> None:
        self._link = link
        self._lost = lost
        #: When the session was seen to live, monotonic seconds.
        self.looked = -1.0

    def check(self) -> None:
        """Raises StoreClosed when the store has stopped, SessionLost when the session is over."""
        has_stopped = self._link.control.load("state") == StoreState.STOPPED
        if not has_stopped and self._link.is_alive():
            return
        if self._lost and not has_stopped:
            raise SessionLost(self._lost)
        left = "what was not acknowledged" if self._lost else "what was not read"
        raise StoreClosed(
            f"the store at {self._link.shown} stopped; {left} is there when it starts"
        )

    def patience(self, longest_s: float) -> float:
        """So long may a reader sleep now: `longest_s`, or less. Raises as `check`."""
        now = time.monotonic()
        if now - self.looked < RECENT_S:
            return min(longest_s, RECENT_S)
        self.check()
        self.looked = now
        return longest_s
