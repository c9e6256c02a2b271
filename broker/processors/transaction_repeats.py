"""`Repeats`: finds decisions about transactions that a broker need not store once more.

Each stored decision is a record, which the process `transactions` must read before the next one. So
a client that repeats decisions would make others wait. The first decision counts, so a second one
about the same half moves nothing.
"""

from __future__ import annotations

import time
from typing import Final

#: So many decisions are remembered, so long (s). A decision that the store could not obey may be
#: followed by another one after that time.
MOST: Final = 65_536
KEPT_S: Final = 60.0


class Repeats:
    """The log offsets of halves about which a decision is being stored, or was stored lately."""

    def __init__(self) -> None:
        self._stored: dict[int, float] = {}
        self._begun: set[int] = set()

    def is_begun(self, offset: int) -> bool:
        """Whether a decision about this half is being stored, without an answer yet."""
        return offset in self._begun

    def is_stored(self, offset: int) -> bool:
        """Whether a decision about this half was stored lately."""
        self._drop(time.monotonic())
        return offset in self._stored

    def begin(self, offset: int) -> None:
        """A decision about this half is being stored."""
        self._begun.add(offset)

    def end(self, offset: int, *, stored: bool) -> None:
        """What `begin` has said is over."""
        self._begun.discard(offset)
        if stored:
            self._stored[offset] = time.monotonic()

    def clear(self) -> None:
        """Forgets what was stored: another session of the store may give offsets anew."""
        self._stored.clear()

    def _drop(self, now: float) -> None:
        """Forgets the oldest ones: they lie first."""
        while self._stored:
            offset, when = next(iter(self._stored.items()))
            if len(self._stored) <= MOST and now < when + KEPT_S:
                return
            del self._stored[offset]
