"""How many sessions, bells and boards there may be: for the store, for one user, and for want of
descriptors.

The store's own user and root may begin as many sessions as there are. `reserved_sessions` are kept
for them, so that `silo status` works beside a client that takes all it can get. Each other user has
at most `max_sessions_per_uid`, or else one user could keep all others out.
"""

from __future__ import annotations

from collections.abc import Collection

from ...conf.settings import Settings
from ..actor import Session
from ..descriptors import HOW_TO_RAISE, WITH_RING, WITHOUT_RING, Descriptors, held_by
from .access import Peer
from .refusals import unavailable


class Quotas:
    """Decides whether one more session may begin, or get a bell or a board."""

    def __init__(self, settings: Settings, descriptors: Descriptors) -> None:
        self._most = settings.max_sessions
        self._descriptors = descriptors
        carried = min(self._most, descriptors.carries)
        # A small store must not be reserved as a whole.
        self._reserved = min(settings.reserved_sessions, carried // 2)
        self._per_uid = settings.max_sessions_per_uid or max(1, carried // 2)

    def check(self, peer: Peer, *, ring: bool, sessions: Collection[Session]) -> None:
        """Raises Refused if `peer` may not begin a session now, with a ring or without one.
        `sessions` are all sessions, and the store's own among them.
        """
        clients = [session for session in sessions if session.connection >= 0 or session.closing]
        kept = 0 if peer.owner else self._reserved
        if not peer.owner:
            own = sum(session.uid == peer.uid for session in clients)
            if own >= self._per_uid:
                raise unavailable(
                    f"user {peer.uid} has its {own} sessions: close some, or raise "
                    "max_sessions_per_uid"
                )
        for_whom = f" ({kept} are kept for the store's user and root)" if kept else ""
        if len(clients) + kept >= self._most:
            raise unavailable(
                f"the store has {len(clients)} of its {self._most} sessions{for_whom}: "
                "close some, or raise max_sessions"
            )
        cost = WITH_RING if ring else WITHOUT_RING
        free = self._descriptors.room - held_by(clients)
        if cost + kept * WITH_RING > free:
            raise unavailable(
                f"the store has no descriptors for another session: its limit of open files is "
                f"{self._descriptors.limit}, and {len(clients)} sessions are open{for_whom}; "
                f"close some, or {HOW_TO_RAISE}"
            )

    def check_more(self, what: str, cost: int, sessions: Collection[Session]) -> None:
        """Raises Refused if there are no `cost` descriptors for one more bell or board, which
        `what` says. `sessions` are all.
        """
        if cost + self._reserved * WITH_RING > self._descriptors.room - held_by(sessions):
            raise unavailable(
                f"the store has no descriptors for another {what}: its limit of open files is "
                f"{self._descriptors.limit}, and {len(sessions)} sessions are open; close some, or "
                f"{HOW_TO_RAISE}"
            )
