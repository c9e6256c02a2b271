"""The pages on which sessions count their reads (`shm/reads.py`), and their sums.

The registry keeps the mapping of a page and no descriptor. The pages of a killed registry are lost
with it; their sessions ask its successor for new ones.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping as Map
from typing import Final

from ...shm import sealed
from ...shm._memory import Mapping
from ...shm.metrics import Metrics
from ...shm.reads import READS, SIZE, Reads
from ..actor import TICK_S, Session

#: The user of the store alone may open the memory again.
_MODE: Final = 0o600


class ReadPages:
    """The pages of all sessions. `tick` adds what they count to the metrics page, and counts the
    clients' rings there.
    """

    def __init__(self, metrics: Metrics, sessions: Map[int, Session]) -> None:
        self._sessions = sessions
        self._rings = metrics.own("rings")
        self._sums = [metrics.own(f"get_{name}") for name in READS]
        self._pages: dict[int, Reads] = {}
        self._look_at = 0.0

    def make(self, session: int) -> int:
        """A new page for a session: its descriptor, which the caller closes. Raises OSError."""
        fd = sealed.create(f"silomq-reads-{session}", SIZE)
        try:
            os.fchmod(fd, _MODE)
            page = Reads(Mapping(fd, 0, SIZE, writable=False))
        except BaseException:
            os.close(fd)
            raise
        self.end(session)
        self._pages[session] = page
        return fd

    def end(self, session: int) -> None:
        """Takes the last counts of a session, if it has a page."""
        page = self._pages.pop(session, None)
        if page is not None:
            self._take(page)

    def tick(self) -> None:
        """Looks at all pages, once a second."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + TICK_S
        for page in self._pages.values():
            self._take(page)
        rings = (s for s in self._sessions.values() if s.ring >= 0 and s.connection >= 0)
        self._rings.store(sum(1 for _ in rings))

    def _take(self, page: Reads) -> None:
        for word, grown in zip(self._sums, page.growth(), strict=True):
            if grown:
                word.add(grown)
