"""How the registry waits until another actor has seen what it wrote."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...shm.control import Control
from .refusals import unavailable

_PATIENCE_S = 5.0
_STEP_S = 0.001


def await_round(control: Control, actor: str, beat: Callable[[], None]) -> None:
    """Waits until `actor` (append, reput) has finished whatever it did before this call, and sees
    what was written before it. `beat` is called meanwhile. Raises Refused.

    The actor beats between two rounds. While it sleeps it is in no round; its word that says so
    has reached this process after a millisecond.
    """
    heartbeat = control.beat(actor)
    asleep = control.word(f"{actor}_asleep")
    time.sleep(_STEP_S)
    seen, deadline = heartbeat.load(), time.monotonic() + _PATIENCE_S
    while heartbeat.load() == seen and not asleep.load():
        if time.monotonic() > deadline:
            raise unavailable(f"{actor} has not come round for {_PATIENCE_S:g} s: try again")
        beat()
        time.sleep(_STEP_S)
