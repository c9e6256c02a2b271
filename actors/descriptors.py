"""How many descriptors the store's processes may have open, and how many sessions that carries.

A session with a ring takes three descriptors in the supervisor and in the registry: its connection,
its ring and append's eventfd. Append takes all three as well when it is forked. A session without a
ring takes one. A session's own bell takes three more, and a board one in the registry. Descriptors
on their way in the mail between the processes are in no process's table.

So the supervisor raises its soft limit of open files to the hard one, and the registry counts: it
refuses a session for which there is no room. Each process keeps `OWN` descriptors for all else: its
memory, folders and pipes, and the files that it opens for a moment.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from ..shm.bell import BellEnds

#: What a process of the store has open at most beside sessions and waiting connections, with a
#: reserve. 34 were counted in the supervisor, which has the most.
OWN: Final = 48
WITH_RING: Final = 3
WITHOUT_RING: Final = 1
WITH_BELL: Final = 3
WITH_BOARD: Final = 1
#: The least and the most connections that may wait without a session.
_WAITING = (4, 256)
_SESSIONS_AT_LEAST = 2

#: The machine, or a limit of this process, has no room for a descriptor, a process or memory. It
#: may have room again later.
SHORTAGES: Final = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN, errno.ETOOMANYREFS)
)
HOW_TO_RAISE: Final = "raise the hard limit of open files (LimitNOFILE in the unit, ulimit -n)"


class Held(Protocol):
    """A session, as far as its descriptors are concerned. `ring` and `board` are -1 for one that
    has none, and `client_bell` is None without a bell.
    """

    ring: int
    client_bell: BellEnds | None
    board: int


class Descriptors(msgspec.Struct, frozen=True):
    """The limit of open files of this store's processes, and how it is divided.

    `inherited` are descriptors that the supervisor was started with. `waiting` is the number of
    connections without a session that the registry keeps, and `room` the number of descriptors for
    sessions.
    """

    limit: int
    inherited: int = 0

    @property
    def waiting(self) -> int:
        least, most = _WAITING
        return min(most, max(least, (self.limit - OWN - self.inherited) // 8))

    @property
    def room(self) -> int:
        return self.limit - OWN - self.inherited - self.waiting

    @property
    def carries(self) -> int:
        """How many sessions with a ring fit."""
        return self.room // WITH_RING

    @property
    def enough(self) -> bool:
        """Whether a store can run within the limit."""
        return self.carries >= _SESSIONS_AT_LEAST

    @property
    def least(self) -> int:
        """The least limit with which a store can run."""
        return OWN + self.inherited + _WAITING[0] + _SESSIONS_AT_LEAST * WITH_RING


def raise_limit() -> Descriptors:
    """Raises this process's soft limit of open files to the hard one, for good: no process of the
    store runs another program than itself. Returns what there is then.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return of_this_process()


def of_this_process() -> Descriptors:
    """The limit as it is, and what is open now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Descriptors(soft, len(os.listdir("/proc/self/fd")) - 1)  # one is that of the listing


def held_by(sessions: Iterable[Held]) -> int:
    """How many descriptors these sessions take in one process."""
    return sum(
        (WITH_RING if session.ring >= 0 else WITHOUT_RING)
        + (WITH_BELL if session.client_bell is not None else 0)
        + (WITH_BOARD if session.board >= 0 else 0)
        for session in sessions
    )
