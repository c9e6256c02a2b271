"""Actors that cannot go on, because a file of the store is missing or damaged.

Somebody may remove, shorten or overwrite a file of a running store. The actor that needs it ends
with the status BAD_FILE, again and again. From its second such end in a row on it is tried seldom,
says nothing more, and has its bit in the word `failed`. Append refuses messages while the bit of an
actor is set without which they would not be dispatched or durable, and `silo status` names them
all. An actor that finds its file again goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from ..shm._words import OwnedWord
from ..shm.control import NEEDED, failed_actors, process_number
from .child import Child

# An actor that has worked for so long has its file again.
_GOES_ON_S = 1.5


class BadFiles:
    """Keeps the word `failed` of the control block."""

    def __init__(self, failed: OwnedWord, logger: Any) -> None:
        self.failed = failed
        self.logger = logger

    def note(self, name: str) -> None:
        """Notes that an actor cannot go on. The actor has said which file it lacks."""
        known, bit = self.failed.load(), 1 << process_number(name)
        if known & bit:
            return
        self.failed.store(known | bit)
        self.logger.critical(
            "an actor cannot go on without its file; it is tried again, now and then",
            actor_name=name,
            takes_messages=not bit & NEEDED,
            advice="bring the file back, or stop the store and run silo verify and silo repair",
        )

    def forget(self, children: Iterable[Child]) -> None:
        """Forgets actors that work again."""
        failed = failed_actors(self.failed.load())
        for child in children:
            working = child.ready and time.monotonic() - child.started > _GOES_ON_S
            if child.name in failed and working:
                self.failed.store(self.failed.load() & ~(1 << process_number(child.name)))
                self.logger.warning("the actor has its file again", actor_name=child.name)
