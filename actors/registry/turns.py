"""Fair turns: in which order the registry serves the connections that have sent requests.

One request of each connection is served in a turn of the registry's loop. Users take turns within
it, and a user's connections follow in the order in which they were served last. A user has at most
64 requests or 20 ms in a turn; the rest of its connections are ready again in the next one. So a
user that floods the registry with many connections holds another user up for milliseconds.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

_REQUESTS = 64
_NS = 20_000_000


class Turns:
    """Orders connections; `uid_of` gives a connection's user."""

    def __init__(self, uid_of: Callable[[socket.socket], int]) -> None:
        self._uid_of = uid_of
        self._last: dict[int, int] = {}  # descriptor -> the number of the request served last
        self._served = 0

    def order(self, ready: Iterable[socket.socket]) -> Iterator[socket.socket]:
        """Yields the connections to serve in this turn. The time until the next one is asked for
        counts as the user's.
        """
        users: dict[int, deque[socket.socket]] = {}
        for connection in sorted(ready, key=lambda c: self._last.get(c.fileno(), 0)):
            users.setdefault(self._uid_of(connection), deque()).append(connection)
        spent = dict.fromkeys(users, 0)
        for _ in range(_REQUESTS):
            waiting = [uid for uid, queue in users.items() if queue and spent[uid] < _NS]
            if not waiting:
                return
            for uid in waiting:
                connection = users[uid].popleft()
                if connection.fileno() < 0:  # an earlier request of this turn has closed it
                    continue
                self._served += 1
                self._last[connection.fileno()] = self._served
                began = time.monotonic_ns()
                yield connection
                spent[uid] += time.monotonic_ns() - began
