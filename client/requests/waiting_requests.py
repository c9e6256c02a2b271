"""`WaitingRequests`: the requests of one producer that have no reply yet, and when they end."""

from __future__ import annotations

import heapq
import math
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from ...store.disk.forks import NO_FORK
from ..errors import RequestTimeout
from .reply_future import ReplyFuture, set_outcome, wake

if TYPE_CHECKING:
    from ...store.errors import StoreError
    from ..consuming.message_view import MessageView

#: So many times of requests that have ended are kept before they are sorted out.
_MOST_ENDED = 10_000


class _Waiting(NamedTuple):
    future: ReplyFuture
    seconds: float
    deadline: float  # monotonic


class WaitingRequests:
    """Futures by correlation id. Each ends once: with a reply, an error, or its time-out. Any
    thread may call any method.

    A future ends in one step of which a fork sees all or nothing: a forked child ends those that
    are still here.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, _Waiting] = {}
        self._ends: list[tuple[float, str]] = []  # a heap
        self._places: dict[str, str] = {}  # where requests are stored

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, future: ReplyFuture, seconds: float) -> float:
        """Waits for a reply for so many seconds. Returns when that ends (monotonic)."""
        deadline = time.monotonic() + seconds
        with self._lock:
            self._waiting[future.correlation_id] = _Waiting(future, seconds, deadline)
            if deadline < math.inf:
                heapq.heappush(self._ends, (deadline, future.correlation_id))
            if len(self._ends) > len(self._waiting) + _MOST_ENDED:
                self._ends = [
                    (one.deadline, key)
                    for key, one in self._waiting.items()
                    if one.deadline < math.inf
                ]
                heapq.heapify(self._ends)
        return deadline

    def note_place(self, correlation_id: str, place: str) -> None:
        """Notes where a request is stored, for the error of its time-out."""
        if correlation_id in self._waiting:
            self._places[correlation_id] = place

    def reply(self, correlation_id: str, message: MessageView) -> bool:
        """Ends a request with its reply. False if it does not wait (any more)."""
        return self._end(correlation_id, reply=message)

    def fail(self, correlation_id: str, error: BaseException) -> None:
        """Ends a request with an error, if it waits."""
        self._end(correlation_id, error=error)

    def fail_all(self, error: Exception) -> None:
        """Ends all requests with an error."""
        for key in list(self._waiting):
            self._end(key, error=error)

    def end_late(self) -> float:
        """Ends the requests whose time is over. Returns the next such time (monotonic)."""
        while True:
            with self._lock:
                if not self._ends or self._ends[0][0] > time.monotonic():
                    return self._ends[0][0] if self._ends else math.inf
                _, key = heapq.heappop(self._ends)
            one = self._waiting.get(key)
            if one is not None:
                self._end(key, error=self._too_late(one))

    def _too_late(self, one: _Waiting) -> RequestTimeout:
        future = one.future
        place = self._places.get(future.correlation_id)
        where = f"is stored as {place}" if place else "has no answer of the store yet"
        return RequestTimeout(
            f"no reply to request {future.correlation_id} within {one.seconds:g} s. The request "
            f"{where}. Does a consumer of topic {future.topic} run, and reply? A reply that comes "
            "later is dropped"
        )

    def _end(
        self,
        correlation_id: str,
        *,
        reply: MessageView | None = None,
        error: BaseException | None = None,
    ) -> bool:
        with NO_FORK:
            one = self._waiting.pop(correlation_id, None)
            if one is None:
                return False
            set_outcome(one.future, reply, error)
        self._places.pop(correlation_id, None)
        wake(one.future)
        return True

    def abandon(self, error: StoreError) -> None:
        """Ends all requests in a forked child, and calls nobody."""
        while self._waiting:
            _, one = self._waiting.popitem()
            set_outcome(one.future, error=error)
