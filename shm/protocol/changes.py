"""A change of a running store's processes, and what is said while it is made.

The registry passes the request `change` on to the supervisor, with one end of a pair of sockets.
The client gets the other end. The supervisor sends a `step` there for each step, then an `outcome`,
and hangs up. So the registry itself may be replaced meanwhile.

Only the store's user and root may ask for a change.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .answers import Changing
from .request import Index, Name, Number, Request


class Change(Request[Changing], frozen=True, tag="change"):
    """Asks for a new process of `actor`, for the settings to be read again, or for new code in all
    processes. New code must run for `trial_ms` before it is kept.

    `number` is another one for each change. A change that is asked for twice is made once.
    """

    number: Number
    what: Literal["actor", "settings", "code"]
    actor: Name = ""
    trial_ms: Index = 0


class Said(Struct, frozen=True, tag_field="kind"):
    """What the supervisor says about a change: `text` is for people."""

    text: str


class Step(Said, frozen=True, tag="step"):
    """A step that begins or is over."""


class Outcome(Said, frozen=True, tag="outcome"):
    """The end of a change. If it is not `done`, `text` says why, and what is so now. `stalls_ms`:
    for how long nobody did the work of each process that was replaced.
    """

    done: bool
    stalls_ms: dict[str, float]
