"""Changes of a running store's processes, as the one who asks for them follows them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from ...conf.printable import printable
from ...shm import mail
from ...shm.protocol.changes import Change, Outcome, Step
from ...store.errors import StoreError
from ..session import Connection

#: A supervisor says something more often than that (s), unless it hangs. A process that sets itself
#: up may take long in a large store.
_SILENT_S: Final = 600.0
_SAID: Final[msgspec.json.Decoder[Step | Outcome]] = msgspec.json.Decoder(Step | Outcome)


def follow(
    link: Connection,
    what: Literal["actor", "settings", "code"],
    say: Callable[[str], None],
    *,
    actor: str = "",
    trial_ms: int = 0,
) -> Outcome:
    """Asks for a change and returns its outcome. `say` hears of each step. Raises StoreError if the
    change is not done, and as `Connection.ask`.
    """
    number = time.time_ns()
    change = Change(number=number, what=what, actor=actor, trial_ms=trial_ms)
    _, fds = link.ask(change)
    end = socket.socket(fileno=fds[0])
    try:
        while True:
            match _hear(end, link.shown):
                case Step(text):
                    say(printable(text))
                case Outcome(text, done) as outcome:
                    if not done:
                        raise StoreError(printable(text))
                    return outcome
    finally:
        end.detach()
        link.drop(fds)


def _hear(end: socket.socket, store: str) -> Step | Outcome:
    try:
        mail.await_packet(end, time.monotonic() + _SILENT_S)
        said, _ = mail.receive(end, _SAID)
    except TimeoutError:
        raise StoreError(
            f"the supervisor of {store} has not said for {_SILENT_S:.0f} s how the change goes on: "
            "look at its log"
        ) from None
    except OSError:
        said = None
    if said is None:
        raise StoreError(
            f"the supervisor of {store} ended during the change: see its log (silo status says "
            "whether the store runs)"
        )
    return said
