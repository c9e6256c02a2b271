"""Changes of the running store that somebody asked for: `silo restart`, `silo reload`.

The registry passes them on, each with a socket at which the asker listens
(`shm/protocol/changes.py`). They are made one after another, by `main.py`.
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from typing import Final

from ..shm import mail
from ..shm.protocol.changes import Outcome, Step
from ..shm.protocol.sessions import ChangeAsked

#: So many changes may wait for others, and so many are known again when they are asked for twice.
_WAITING: Final = 4
_KNOWN: Final = 16


class RunningChange:
    """One change, and those who listen. Nobody who does not listen, or has gone, holds it up."""

    def __init__(self, asked: ChangeAsked) -> None:
        self.asked = asked
        self.said: list[Step | Outcome] = []
        self.ends: list[socket.socket] = []

    def attach(self, end: socket.socket) -> None:
        """Tells one more listener, who hears first what was said before."""
        for message in self.said:
            _tell(end, message)
        if self.said and isinstance(self.said[-1], Outcome):
            end.close()
        else:
            self.ends.append(end)

    @property
    def steps(self) -> list[Step]:
        """What was said so far, but for the outcome."""
        return [said for said in self.said if isinstance(said, Step)]

    def say(self, text: str) -> None:
        """Says that a step begins, or is over."""
        self._say(Step(text))

    def finish(self, text: str, *, done: bool, stalls_ms: dict[str, float] | None = None) -> None:
        """Says how the change ended, and hangs up."""
        rounded = {name: round(stall, 1) for name, stall in (stalls_ms or {}).items()}
        self._say(Outcome(text, done, rounded))
        for end in self.ends:
            end.close()
        self.ends.clear()

    def _say(self, message: Step | Outcome) -> None:
        self.said.append(message)
        for end in self.ends:
            _tell(end, message)


def _tell(end: socket.socket, message: Step | Outcome) -> None:
    with contextlib.suppress(OSError):  # the listener has gone, or reads nothing
        mail.send(end, message)


class Changes:
    """The changes that wait, in the order in which they were asked for."""

    def __init__(self) -> None:
        self.waiting: deque[RunningChange] = deque()
        self._known: deque[RunningChange] = deque(maxlen=_KNOWN)

    def ask(self, asked: ChangeAsked, fd: int) -> None:
        """Takes a change, whose asker listens at the other end of the socket `fd`."""
        end = socket.socket(fileno=fd)
        for known in self._known:
            if known.asked.number == asked.number:
                known.attach(end)
                return
        change = RunningChange(asked)
        self._known.append(change)
        change.attach(end)
        if len(self.waiting) >= _WAITING:
            change.finish(
                f"{_WAITING} other changes wait already, nothing is done: try again later",
                done=False,
            )
            return
        self.waiting.append(change)

    def bring(self, change: RunningChange) -> None:
        """Knows a change that another supervisor began."""
        self._known.append(change)

    def fds(self) -> list[int]:
        """The descriptors of all who listen."""
        return [end.fileno() for change in self._known for end in change.ends]

    def next(self) -> RunningChange | None:
        """The change that is to be made now."""
        return self.waiting.popleft() if self.waiting else None

    def end(self) -> None:
        """Refuses those that wait, because the store stops."""
        while (change := self.next()) is not None:
            change.finish("the store stops: nothing is done", done=False)
