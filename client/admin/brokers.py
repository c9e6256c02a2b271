"""The brokers that serve a store, as their boards show them."""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec

from ...shm import board
from ...shm.protocol import broker_status
from ...shm.protocol.figure_requests import FindBoard
from ...store.errors import IllegalMessage
from ..session import Connection

#: How long all boards together may take (s). One that is just being written takes some us.
_PATIENCE_S: Final = 0.2


def read_brokers(link: Connection) -> list[dict[str, Any]]:
    """What the board of each session shows, by session: `session`, `uid` (its user), `problem`, and
    without a problem the fields of `BrokerStatus`. Any session may have written its board: what is
    no status has a `problem`. The last entry may be of session 0: the store could not hand out its
    board. Raises as `Connection.ask`.
    """
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + _PATIENCE_S
    after = 0
    while True:
        try:
            answer, fds = link.ask(FindBoard(after))
        except IllegalMessage as error:  # the store has no descriptor for it: the rest is told
            return [*found, {"session": 0, "uid": -1, "problem": error.why}]
        try:
            if not answer.session:
                return found
            after = answer.session
            entry = {"session": answer.session, "uid": answer.uid, "problem": ""}
            found.append({**entry, **_shown(fds[0], deadline)})
        finally:
            link.drop(fds)


def _shown(fd: int, deadline: float) -> dict[str, Any]:
    try:
        status = broker_status.decode(board.read(fd, deadline))
    except ValueError as error:
        return {"problem": str(error)}
    shown: dict[str, Any] = msgspec.to_builtins(status)
    return shown
