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
        #: How long nobody did the work of each actor that was replaced, ms.
        self.stalls_ms: dict[str, float] = {}

    def renew(self, name: str, start: Callable[[], Child | None] | None = None) -> bool:
        """Ends an actor, starts the next one, and returns when that serves. `start` begins a
        process that waits at its gate, or returns None if it cannot; without it the actor is
        forked.

        Returns False if the new process could not be started, or ended before it was ready. Then
        another one is forked in the next turn of the loop. Raises GaveUp.
        """
        children = self._children
        began = time.monotonic()
        child = children.running.get(name)
        children.planned.add(name)
        try:
            if child is not None:
                self._end(child)
            if start is None:
                children.spawn(name)
            elif (started := start()) is not None:
                children.adopt(started)
            successor = children.running.get(name)
            while successor and not (successor.ready or self._is_stopping()):
                self._turn(TICK_S)
                if children.running.get(name) is not successor:
                    successor = None
        finally:
            children.planned.discard(name)
        if successor is None:
            children.due.setdefault(name, time.monotonic())
            return False
        self.stalls_ms[name] = (time.monotonic() - began) * 1000
        return True

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
            signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
        while running.get(name) is child:
            self._turn(TICK_S)
