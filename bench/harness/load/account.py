"""What a worker did, second by second."""

from __future__ import annotations

import time
from array import array
from typing import TYPE_CHECKING

from .protocol import Done
from .recorder import Kind

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from .recorder import Recorder

SECOND = 1_000_000_000
#: A loop looks up from its work so often.
_LOOK_NS = 100_000_000


class Account:
    """Counts and latencies of a worker. A loop appends latencies in ns to the arrays, and calls
    `look` at the time that the last `look` named. `is_asked_to_end` is set when the harness wants
    the worker to end. `size_of` tells the bytes of the next messages that were sent.
    """

    def __init__(
        self,
        recorder: Recorder,
        start: int,
        is_asked_to_end: threading.Event,
        size_of: Callable[[int], int],
    ) -> None:
        self._recorder = recorder
        self._start = start
        self._second = 0
        self._ends = is_asked_to_end
        self._size_of = size_of
        self._cpu = time.process_time()
        self._errors = 0
        self._all = [0, 0]  # messages, errors
        self._first_error = ""
        self._counted = [0, 0]  # of this second: messages, bytes
        self.publish, self.durable = array("q"), array("q")
        self.delay, self.end_to_end = array("q"), array("q")
        #: Messages and bytes that a consumer has had since the last look.
        self.messages = self.bytes = 0

    def failed(self, error: Exception | str) -> None:
        """Counts a message that was not sent, or a read that failed."""
        self._errors += 1
        if not self._first_error:
            self._first_error = error if isinstance(error, str) else f"{error!r}"

    def look(self, now: int) -> int:
        """Hands over what there is. Returns the time of the next look; 0 if the worker is asked to
        end.
        """
        self._hand_over()
        while now >= self._start + (self._second + 1) * SECOND:
            self._end_second()
        ends = self._start + (self._second + 1) * SECOND
        return 0 if self._ends.is_set() else min(now + _LOOK_NS, ends)

    def _hand_over(self) -> None:
        published = len(self.publish)
        for kind, values in (
            (Kind.PUBLISH, self.publish),
            (Kind.DURABLE, self.durable),
            (Kind.DELAY, self.delay),
            (Kind.END_TO_END, self.end_to_end),
        ):
            count = len(values)
            if count:
                # Another thread may append meanwhile.
                self._recorder.put(kind, self._second, values[:count].tobytes())
                del values[:count]
        messages, self.messages = self.messages, 0
        size, self.bytes = self.bytes, 0
        self._counted[0] += published + messages
        self._counted[1] += size + self._size_of(published)

    def _end_second(self) -> None:
        messages, size = self._counted
        self._recorder.end_second(self._second, messages, size, self._errors)
        self._all[0] += messages
        self._all[1] += self._errors
        self._counted, self._errors = [0, 0], 0
        self._second += 1

    def end(self, read_s: float = 0.0) -> None:
        """Writes the last second and the last line."""
        self._hand_over()
        self._end_second()
        messages, errors = self._all
        cpu = time.process_time() - self._cpu
        self._recorder.say(Done(messages, errors, self._first_error, cpu, read_s))
