"""What a worker did, second by second."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from . import latencies
from ._counts import Counts
from .protocol import Done, Tick

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from .output import Output

SECOND = 1_000_000_000
#: A loop looks up from its work so often.
_LOOK_NS = 100_000_000


class Account:
    """Counts and latencies of a worker. A loop records latencies, and calls `look` at the time that
    the last `look` named. `size_of` tells the bytes of the next messages that were sent.
    """

    def __init__(self, output: Output, size_of: Callable[[int], int]) -> None:
        self._output = output
        self._size_of = size_of
        self._second = 0
        self._errors = 0
        self._all = [0, 0]  # messages, errors
        self._first_error = ""
        self.publish, self.durable = Counts(), Counts()
        self.delay, self.end_to_end = Counts(), Counts()
        #: Messages and bytes that a consumer has had in this second.
        self.messages = self.bytes = 0

    def begin(self, start: int, is_asked_to_end: threading.Event) -> None:
        """Second 0 begins at `start`. The event is set when the harness wants the worker to end."""
        self._start, self._ends = start, is_asked_to_end
        self._cpu = time.process_time()

    def failed(self, error: Exception | str) -> None:
        """Counts a message that was not sent, or a read that failed."""
        self._errors += 1
        if not self._first_error:
            self._first_error = error if isinstance(error, str) else f"{error!r}"

    def look(self, now: int) -> int:
        """Tells of the seconds that have ended. Returns the time of the next look; 0 if the worker
        is asked to end.
        """
        while now >= self._start + (self._second + 1) * SECOND:
            self._end_second()
        ends = self._start + (self._second + 1) * SECOND
        return 0 if self._ends.is_set() else min(now + _LOOK_NS, ends)

    def _end_second(self) -> None:
        published = self.publish.total
        messages = published + self.messages
        size = self._size_of(published) + self.bytes
        self.messages = self.bytes = 0
        errors, self._errors = self._errors, 0
        self._all[0] += messages
        self._all[1] += errors
        kinds = (self.publish, self.durable, self.delay, self.end_to_end)
        encoded = [latencies.taken(one) for one in kinds]
        self._output.say(Tick(self._second, messages, size, errors, *encoded))
        self._second += 1

    def end(self, read_s: float = 0.0) -> None:
        """Writes the last second and the last line."""
        self._end_second()
        messages, errors = self._all
        cpu = time.process_time() - self._cpu
        self._output.say(Done(messages, errors, self._first_error, cpu, read_s))
