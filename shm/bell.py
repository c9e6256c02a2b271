"""A session bell: what lets a client sleep in one epoll for everything that the store may tell it.

A bell is a pair of stream sockets and a *bell page*. The client has one socket, and the store's
processes share the other. They ring by sending a byte. The page says whether the client sleeps, and
for which reasons: append rings for answers, reput for arrivals, flush for syncs, the registry for
notices.

1. The client stores `asleep` with a new number, fences, looks once more at what it waits for, and
   sleeps until its socket is readable.
2. A process of the store publishes, fences, and loads `asleep`. It rings if one of the reasons is
   its own, and only once for each number. A process that begins to serve a bell rings it at once,
   because a sleep may have begun while there was no such process.

A client may do with its page and its socket what it likes, and harms only itself. The page is
sealed (`sealed.py`), and the store only reads it. A full socket is a bell that rings already: the
store's processes send with MSG_DONTWAIT. The end of a session closes the store's socket in every
process, so the client's socket hangs up. It also hangs up when the whole store is killed.

Two other descriptors would let a client block the store. Another process may hold the lock of a
pipe as long as it likes, by reading into memory that is slow to fault in. An eventfd blocks its
writer when the client has cleared O_NONBLOCK and filled the counter.

The client writes the whole page. Bit n of `watched` stands for arrival word n of the control block.

Layout bell:

======  ====  ====  =======  =======
offset  size  type  field    meaning
======  ====  ====  =======  =======
0       8     u64   asleep   client: 0 awake; else number of the sleep × 256 + reasons
64      128   u64   watched  client: a bit for each arrival word that it sleeps on
======  ====  ====  =======  =======
"""

from __future__ import annotations

import contextlib
import enum
import os
import socket

import msgspec

from . import sealed
from .control import ARRIVAL_WORDS

SIZE = 4096
BELL: dict[str, tuple[int, int]] = {"asleep": (0, 8), "watched": (64, 128)}
LAYOUTS = {"bell": BELL}
#: Layout -> field -> writer.
WRITERS = {"bell": dict.fromkeys(BELL, "client")}
assert BELL["watched"][1] * 8 == ARRIVAL_WORDS


class Reason(enum.IntFlag):
    """What a client sleeps for, and the process that rings for it."""

    #: Append has answered frames of the session's ring, or closed it.
    ANSWERS = 1
    #: Reput has changed an arrival word that the page names.
    ARRIVALS = 2
    #: Flush has published `flushed`, or a failed sync.
    FLUSHED = 4
    #: The registry has changed the session's notice word, or topics.
    NOTICES = 8


class BellEnds(msgspec.Struct):
    """The descriptors of a bell in one process; -1 for one that it does not have."""

    page: int
    store: int
    client: int = -1

    def close(self) -> None:
        """Closes the descriptors that are left."""
        for fd in (self.page, self.store, self.client):
            if fd >= 0:
                os.close(fd)
        self.page = self.store = self.client = -1


def create(session: int) -> BellEnds:
    """A new bell for a session, awake. The caller owns the descriptors. Raises OSError."""
    with contextlib.ExitStack() as undo:
        page = sealed.create(f"silomq-bell-{session}", SIZE)
        undo.callback(os.close, page)
        kind = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        store, client = socket.socketpair(socket.AF_UNIX, kind)
        with store, client:
            store.shutdown(socket.SHUT_RD)  # the client can send nothing, not even descriptors
            ends = BellEnds(page, store.detach(), client.detach())
        undo.pop_all()
    return ends
