"""When flush makes all queues and the index durable: `flush.py` does that, and notes it here."""

from __future__ import annotations

import time

from ..shm.control import Control
from ..shm.progress import Progress
from ..store.consumequeue.queue import ENTRY_SIZE

FAR_ENTRIES = 1 << 19
FAR_BYTES = 256 << 20
QUIET_S = 2.0  # without a message: waiting longer would not save a round
#: So many times as long as a round took it rests, if only a long way to go asks for the next one.
_REST = 9


class FullRounds:
    """The rounds so far: what a start after a power cut need not dispatch again.

    `dispatched` is the log offset up to which entries are durable.
    """

    def __init__(self, control: Control) -> None:
        self._control = control
        self._word = control.word("dispatched")
        self.dispatched = 0
        self._count = 0  # of entries below it
        self._began = time.monotonic()
        self._rest_until = 0.0
        # The word, and since when it has been the same.
        self._still = (self._word.load(), self._began)

    def is_due(self, now: float, every_s: float) -> bool:
        """Whether a round is due at `now` (monotonic s), of which there is one each `every_s` at
        least. It is then taken for begun.
        """
        due = now - self._began >= every_s or self._is_far_behind(now) or self._is_quiet(now)
        if due:
            self._began = now
        return due

    def behind(self) -> int:
        """Bytes of the entries that were written since the last round, over all queues."""
        return (self._control.progress().dispatch_count - self._count) * ENTRY_SIZE

    def note(self, published: Progress, took_s: float) -> None:
        """Notes a round up to this progress."""
        self.dispatched, self._count = published.dispatched, published.dispatch_count
        self._rest_until = time.monotonic() + _REST * took_s

    def _is_far_behind(self, now: float) -> bool:
        """Whether a start would have to dispatch FAR_ENTRIES entries or FAR_BYTES of the log again.
        Rounds for this take a tenth of the time at most: with thousands of busy queues one takes a
        second, and the next one writes the same pages again.
        """
        if now < self._rest_until:
            return False
        progress = self._control.progress()
        return (
            progress.dispatch_count - self._count >= FAR_ENTRIES
            or progress.dispatched - self.dispatched >= FAR_BYTES
        )

    def _is_quiet(self, now: float) -> bool:
        """Whether no message was dispatched for QUIET_S, and the last ones have no durable entries.

        A round at this moment lets an idle store sleep. Otherwise flush would wake up each interval
        until the thorough interval is over.
        """
        dispatched = self._word.load()
        if dispatched != self._still[0]:
            self._still = dispatched, now
        return now - self._still[1] >= QUIET_S and dispatched != self.dispatched
