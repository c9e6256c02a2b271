"""How many sessions, bells and boards there may be, and how large rings: for the store, for a user,
and for want of descriptors.

The store's own user and root may begin as many sessions as there are. `reserved_sessions` are kept
for them, so that `silo status` works beside a client that takes all it can get. Each other user has
at most `max_sessions_per_uid`, or else one user could keep all others out. Its rings have at most
`max_ring_bytes_per_uid` together: they are memory that only the end of a session frees.
"""

from __future__ import annotations

from collections.abc import Collection

from ...conf.settings import Settings
from ...shm.protocol.answers import UserFound, UsersFound
from ...shm.ring import MIN_CAPACITY, RING
from ...store.disk.files import read_at
from ..actor import Session
from ..descriptors import HOW_TO_RAISE, WITH_RING, WITHOUT_RING, Descriptors, held_by
from .access import Peer
from .makers import Makers
from .refusals import unavailable

_PAGE = 4096


class Quotas:
    """Decides whether one more session may begin, or get a bell or a board."""

    def __init__(self, settings: Settings, descriptors: Descriptors) -> None:
        self._most = settings.max_sessions
        self._descriptors = descriptors
        carried = min(self._most, descriptors.carries)
        # A small store must not be reserved as a whole.
        self._reserved = min(settings.reserved_sessions, carried // 2)
        self._ring_size = settings.ring_size
        self._largest = settings.ring_size_max
        self._ring_bytes = settings.max_ring_bytes_per_uid
        self._per_uid = settings.max_sessions_per_uid or max(1, carried // 2)

    def capacity(self, wanted: int) -> int:
        """The bytes of a new ring: `wanted` in whole pages, or what the settings name if it is
        negative. 0 stays 0, for no ring. Raises Refused.
        """
        if not wanted:
            return 0
        if wanted < 0:
            wanted = self._ring_size
        wanted = (wanted + _PAGE - 1) // _PAGE * _PAGE
        if not MIN_CAPACITY <= wanted <= self._largest:
            raise unavailable(
                f"ring_size {wanted}: {MIN_CAPACITY} to {self._largest} bytes (ring_size_max)"
            )
        return wanted

    def check(self, peer: Peer, *, ring: int, sessions: Collection[Session]) -> None:
        """Raises Refused if `peer` may not begin a session now, with a ring of so many bytes, or
        without one for 0. `sessions` are all sessions, and the store's own among them.
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
            taken = sum(session.capacity for session in clients if session.uid == peer.uid)
            if ring and self._ring_bytes and taken + ring > self._ring_bytes:
                raise unavailable(
                    f"a ring of {ring} bytes: user {peer.uid} has rings of {taken} bytes, and may "
                    f"have {self._ring_bytes}: close producers, ask for smaller rings (ring_size), "
                    "or raise max_ring_bytes_per_uid"
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


def users(sessions: Collection[Session], makers: Makers) -> UsersFound:
    """What each user has now. The store's own sessions are left out."""
    clients = [session for session in sessions if session.connection >= 0 or session.closing]
    uids = {session.uid for session in clients}
    uids.update(uid for made in (makers.topics, makers.groups) for uid in made if made[uid] > 0)
    return UsersFound(
        users=[
            UserFound(
                uid=uid,
                sessions=sum(one.uid == uid for one in clients),
                ring_bytes=sum(one.capacity for one in clients if one.uid == uid),
                in_flight_bytes=sum(_in_flight(one) for one in clients if one.uid == uid),
                topics=max(0, makers.topics[uid]),
                groups=makers.groups[uid],
            )
            for uid in sorted(uids)
        ]
    )


def _in_flight(session: Session) -> int:
    """The bytes of a ring that append has not answered. A client may write any head."""
    if session.ring < 0:
        return 0
    head, tail = (
        int.from_bytes(read_at(session.ring, 8, RING[word][0]), "little")
        for word in ("head", "tail")
    )
    return min(max(0, head - tail), session.capacity)
