"""Replaces actors while the store runs: one at a time, and each by the kill that `tests/crash`
tries between any two steps of it. No message is lost or doubled, and clients wait some
milliseconds.

The registry is asked to end instead, because a client that waits for its answer would have to ask
again, and popped messages would be invisible for their whole time.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Final

from ..shm.control import ActorState
from .child import Child
from .children import TICK_S, Children

#: An actor that is asked to end is killed after this time (s).
_PATIENCE_S: Final = 3.0
_ASKED: Final = frozenset({"registry"})


class Replacing:
    """Replaces actors among `children`. `turn` is one turn of the supervisor's loop, and
    `is_stopping` whether the store is to stop.
    """

    def __init__(
        self,
        children: Children,
        turn: Callable[[float], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._children = children
        self._turn = turn
        self._is_stopping = is_stopping
        #: Why the last process did not come up.
        self.failure = ""
        #: How long nobody did the work of each actor that was replaced, ms.
        self.stalls_ms: dict[str, float] = {}

    def renew(
        self,
        name: str,
        start: Callable[[], Child | None] | None = None,
        within_s: float = float("inf"),
    ) -> bool:
        """Ends an actor, starts the next one, and returns when that serves. `start` begins a
        process that waits at its gate, or returns None if it cannot; without it the actor is
        forked.

        Returns False, and says in `failure` why, if the new process could not be started, ended
        before it was ready, or was not ready `within_s`. Then another one is forked in the next
        turn of the loop. Raises GaveUp.
        """
        children = self._children
        began = time.monotonic()
        child = children.running.get(name)
        children.planned.add(name)
        self.failure = "could not be started"
        try:
            if child is not None:
                self._end(child)
            if start is None:
                children.spawn(name)
            elif (started := start()) is not None:
                children.adopt(started)
            successor = children.running.get(name)
            if successor is not None and not self._await_ready(successor, within_s):
                successor = None
        finally:
            children.planned.discard(name)
        if successor is None:
            children.due.setdefault(name, time.monotonic())
            return False
        self.stalls_ms[name] = (time.monotonic() - began) * 1000
        return True

    def _await_ready(self, child: Child, within_s: float) -> bool:
        """Waits until a new process serves, or the store is to stop. Whether it lives then."""
        running, deadline = self._children.running, time.monotonic() + within_s
        while running.get(child.name) is child:
            if child.ready or self._is_stopping():
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                self.failure = f"did not begin to serve within {within_s:.0f} s"
                self._kill(child)
                return False
            self._turn(min(TICK_S, left))
        self.failure = f"ended before it served ({how_it_ended(child)})"
        return False

    def _end(self, child: Child) -> None:
        """Ends an actor. Its death counts for nothing, and nobody starts it again."""
        running, name = self._children.running, child.name
        if name in _ASKED and child.ready:
            self._children.note(name, child.pid, ActorState.STOPPING)
            signal.pidfd_send_signal(child.pidfd, signal.SIGTERM)
            deadline = time.monotonic() + _PATIENCE_S
            while running.get(name) is child and time.monotonic() < deadline:
                self._turn(0.1)
        if running.get(name) is child:
            self._kill(child)

    def _kill(self, child: Child) -> None:
        signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
        while self._children.running.get(child.name) is child:
            self._turn(TICK_S)


def how_it_ended(child: Child) -> str:
    """The end of a process in words."""
    if child.ended is None:
        return "it is not collected"
    return f"signal {-child.ended}" if child.ended < 0 else f"exit status {child.ended}"
