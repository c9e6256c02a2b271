"""The wait until another actor has seen the words that the registry has just written."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...shm.control import Control
from .refusals import unavailable

_PATIENCE_S = 5.0
_STEP_S = 0.001


def await_round(control: Control, actor: str, beat: Callable[[], None]) -> None:
    """Waits until `actor` (append, reput) has ended the round of work that it is in, and with it
    every use of words that it read before this call.

    The actor beats between two rounds, and its asleep word is set while it is in none. The first
    millisecond lets a store of that word become visible here. `beat` is called meanwhile. Raises
    Refused after 5 s.
    """
    heartbeat = control.beat(actor)
    asleep = control.word(f"{actor}_asleep")
    time.sleep(_STEP_S)
    seen, deadline = heartbeat.load(), time.monotonic() + _PATIENCE_S
    while heartbeat.load() == seen and not asleep.load():
        if time.monotonic() > deadline:
            raise unavailable(f"{actor} has been busy for {_PATIENCE_S:g} s: try again")
        beat()
        time.sleep(_STEP_S)
