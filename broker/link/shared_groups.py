"""`SharedGroups`: groups that also have members which are clients of the store.

A queue of such a group is with one of the two kinds. The registry divides
(`actors/registry/kept_groups.py`). What the members on the network have is in `has`: only there may
they begin to read, lock, and commit. When the registry revokes a queue, they are told that members
came or went (NOTIFY_CONSUMER_IDS_CHANGED), and the queue is given back when they have let go of it.

RocketMQ's clients do not say that they have let go. But each asks for the list of members, divides
by it, commits in the queues that it has lost, and pulls there no more. So a client that reads a
revoked queue has let go when one of these is true:

- Its connection has ended, or it has left the group.
- It has asked for the list since, and has then committed in the queue, or not pulled there for 1 s.
- 25 s have passed. Clients look at the list every 10 or 20 s, also if they ignore notices.

Besides no client may hold a live lock of the queue: an orderly consumer works until it unlocks. A
client that still reads a queue which it has lost gets no further messages, and its commits there
are refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from ...shm.protocol.answers import Sides
from ...store.groups.ack_file import Queue
from ..loop._connection import Connection
from ..loop.tasks import Waiter

#: Clients have let go of a queue after so long (s), whatever they do.
_LONGEST_S: Final = 25.0
#: A client that has asked for the list may pull so long afterwards (s): it divides meanwhile.
_DIVIDES_S: Final = 0.5
#: A client that has nothing to commit has let go so long after it asked for the list (s).
_SILENT_S: Final = 1.0
#: A client that has not pulled for so long (s) reads the queue no more. No pull is held longer.
_QUIET_S: Final = 90.0
#: A member may wait so long (s) for a queue: longer than clients wait for an answer.
_MOST_WAIT_S: Final = 10.0


class _Use(msgspec.Struct):
    """What a connection does in a queue: the offset of its first pull, -1 before one, and when it
    has pulled and committed last (monotonic, s).
    """

    first: int = -1
    pulled_at: float = 0.0
    committed_at: float = 0.0


class Shared(msgspec.Struct):
    """What the registry has answered for one group, whose members on the network subscribe to
    `topics`. `since` is when a queue was revoked, `given` are queues that were given back and not
    yet confirmed, with where their readers began.
    """

    topics: frozenset[str] = frozenset()
    clients: list[str] = []
    has: set[Queue] = set()
    since: dict[Queue, float] = {}
    given: dict[Queue, int] = {}
    waiters: list[Waiter[None]] = []

    def wake(self) -> None:
        """Has those look again who wait for a queue."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter.set(None)


class SharedGroups:
    """All such groups. `is_locked` says whether a client holds a live lock of a group's queue.
    `broadcasts` says whether a connection is a broadcasting member of a group.
    """

    def __init__(
        self,
        is_locked: Callable[[str, Queue], bool],
        broadcasts: Callable[[str, Connection], bool],
    ) -> None:
        self._is_locked = is_locked
        self._broadcasts = broadcasts
        #: Called when members on the network have other queues, or are to give some back.
        self.changed: list[Callable[[], None]] = []
        self._groups: dict[str, Shared] = {}
        self._revoked: set[str] = set()
        self._uses: dict[Connection, dict[tuple[str, Queue], _Use]] = {}
        self._listed: dict[Connection, dict[str, float]] = {}

    def get(self, group: str) -> Shared | None:
        """A group that is shared, or None."""
        return self._groups.get(group)

    def take(self, group: str, answer: Sides, topics: Iterable[str]) -> bool:
        """Takes over the registry's answer. Returns whether members on the network must be told."""
        shared = self._groups.get(group)
        if shared is not None or answer.mixed:
            for call in self.changed:
                call()
        if not answer.mixed:
            if shared is None:
                return False
            del self._groups[group]
            shared.wake()
            return True
        new = shared is None
        if shared is None:
            shared = self._groups[group] = Shared()
        has = set(answer.has) - set(shared.given)
        now = time.monotonic()
        since = {queue: shared.since.get(queue, now) for queue in answer.revoked if queue in has}
        changed = new or sorted(shared.clients) != sorted(answer.clients) or not has <= shared.has
        shared.topics = frozenset(topics)
        shared.clients, shared.has, shared.since = answer.clients, has, since
        if since:
            self._revoked.add(group)
        shared.wake()
        return changed

    def forget(self, group: str) -> None:
        """Forgets a group without members on the network."""
        shared = self._groups.pop(group, None)
        if shared is not None:
            shared.wake()

    def forget_all(self) -> None:
        """Forgets all groups: the session with the store has ended."""
        for group in list(self._groups):
            self.forget(group)

    # -- what may be done

    def refuses(self, group: str, queue: Queue) -> bool:
        """Whether a queue is not with the members on the network, though they divide its topic."""
        shared = self._groups.get(group)
        return shared is not None and queue[0] in shared.topics and queue not in shared.has

    def may_begin(self, group: str, queue: Queue, connection: Connection | None = None) -> bool:
        """Whether a member may begin with a queue, which is not revoked, or `connection` reads it
        already.
        """
        shared = self._groups.get(group)
        if shared is not None and queue in shared.since:
            return connection is not None and (group, queue) in self._uses.get(connection, {})
        return not self.refuses(group, queue)

    async def wait(self, group: str, queue: Queue, connection: Connection) -> bool:
        """Waits until a member may begin with a queue. Returns whether it may."""
        deadline = time.monotonic() + _MOST_WAIT_S
        while not self.may_begin(group, queue, connection):
            if connection.closed or time.monotonic() > deadline:
                return False
            waiter: Waiter[None] = Waiter()
            self._groups[group].waiters.append(waiter)
            await waiter
        return True

    # -- what clients do

    def is_settled(self, group: str, queue: Queue) -> bool:
        """Whether members on the network have a queue, and nobody looks at who reads it."""
        shared = self._groups.get(group)
        return shared is None or not (queue in shared.since or self.refuses(group, queue))

    def began(self, connection: Connection, group: str, queue: Queue) -> None:
        """Notes that a member begins with a queue."""
        self._use(connection, group, queue).pulled_at = time.monotonic()

    def pulled(self, connection: Connection, group: str, queue: Queue, offset: int) -> None:
        """Notes a pull."""
        use = self._use(connection, group, queue)
        if use.first < 0:
            use.first = offset
        use.pulled_at = time.monotonic()

    def committed(self, connection: Connection, group: str, queue: Queue) -> None:
        """Notes a commit of a connection that reads the queue."""
        use = self._uses.get(connection, {}).get((group, queue))
        if use is not None:
            use.committed_at = time.monotonic()

    def listed(self, connection: Connection, group: str) -> None:
        """Notes that a client has got the list of members."""
        self._listed.setdefault(connection, {})[group] = time.monotonic()

    def disconnected(self, connection: Connection) -> None:
        """Forgets a connection."""
        self._uses.pop(connection, None)
        self._listed.pop(connection, None)

    def _use(self, connection: Connection, group: str, queue: Queue) -> _Use:
        uses = self._uses.get(connection)
        if uses is None:
            uses = self._uses[connection] = {}
        use = uses.get((group, queue))
        if use is None:
            use = uses[group, queue] = _Use()
        return use

    def left(self, connection: Connection, group: str) -> None:
        """Forgets what a connection does in a group that it has left."""
        uses = self._uses.get(connection, {})
        for key in [key for key in uses if key[0] == group]:
            del uses[key]

    # -- giving back

    def tick(self) -> None:
        """Has those look again who wait for a queue: they may have waited too long."""
        for shared in self._groups.values():
            shared.wake()

    def look(self) -> list[str]:
        """Gives back the queues of which their clients have let go. Returns the groups in which
        there are any: the registry is to be told (`given`).
        """
        told = []
        for group in list(self._revoked):
            shared = self._groups.get(group)
            if shared is None or not shared.since:
                self._revoked.discard(group)
                continue
            free = [q for q, since in shared.since.items() if self._is_free(group, q, since)]
            for queue in free:
                del shared.since[queue]
                shared.has.discard(queue)
                shared.given[queue] = self._end_uses(group, queue)
            if free:
                told.append(group)
        if told:
            for call in self.changed:
                call()
        return told

    def _is_free(self, group: str, queue: Queue, since: float) -> bool:
        if self._is_locked(group, queue):
            return False
        now = time.monotonic()
        if now - since > _LONGEST_S:
            return True
        for connection, uses in self._uses.items():
            use = uses.get((group, queue))
            if use is None or connection.closed or self._broadcasts(group, connection):
                continue
            if now - use.pulled_at > _QUIET_S:
                continue
            listed = self._listed.get(connection, {}).get(group, 0.0)
            if listed < since or use.pulled_at > listed + _DIVIDES_S:
                return False
            if use.committed_at < listed and now - listed < _SILENT_S:
                return False
        return True

    def _end_uses(self, group: str, queue: Queue) -> int:
        """Forgets who reads a queue. Returns the least offset at which one has begun, -1 if none
        has.
        """
        ended = [uses.pop((group, queue), None) for uses in self._uses.values()]
        return min((use.first for use in ended if use is not None and use.first >= 0), default=-1)
